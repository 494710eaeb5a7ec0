// Package linear checks that concurrent writes to the same names of a store are
// linearizable. Some order of the calls must explain each response and the final
// state. The order must keep the order in time of calls that do not overlap.
package linear

import (
	"errors"
	"fmt"
	"strings"

	"crabmem/crmem"
)

// Names is the number of names that all writers share.
const Names = 3

// Name returns the name with index n.
func Name(n int) string { return fmt.Sprint("shared ", n) }

// Op is one operation of a call. Do is the kind of operation. Operations of batches
// are add, archive, update, alias, remove, and unchanged. Separate calls are remember,
// forget, and get.
type Op struct {
	Do      string       `json:"do"`
	Name    int          `json:"name"`
	Content string       `json:"content,omitempty"`
	Aliases []string     `json:"aliases"`         // if nil, remember keeps the aliases
	Entry   *crmem.Entry `json:"entry,omitempty"` // entry that unchanged requires; nil requires no entry
}

// Call is a call and its response.
type Call struct {
	Writer int           `json:"writer"`
	Ops    []Op          `json:"ops,omitempty"`
	Err    string        `json:"err,omitempty"` // class of the error
	Got    []crmem.Entry `json:"got,omitempty"` // entries of the response, in the order of the operations

	// Begin and End are positions in the time order of all begins and ends. End is
	// 0 if the call has no response.
	Begin, End int `json:"-"`
}

var classes = map[string]error{
	"not found": crmem.ErrNotFound, "exists": crmem.ErrExists, "kind": crmem.ErrKind, "stale": crmem.ErrStale,
}

// Run executes the call on a store and sets Err and Got. It returns every error
// that has no class.
func (c *Call) Run(s *crmem.Store) error {
	got, err := c.run(s)
	if err == nil {
		c.Got = got
		return nil
	}
	for name, class := range classes {
		if errors.Is(err, class) {
			c.Err = name
			return nil
		}
	}
	return fmt.Errorf("%v: %w", c.Ops, err)
}

func (c *Call) run(s *crmem.Store) ([]crmem.Entry, error) {
	op := &c.Ops[0]
	switch op.Do {
	case "get":
		e, err := s.Get(Name(op.Name))
		return []crmem.Entry{e}, err
	case "remember":
		e, err := s.Remember(Name(op.Name), op.Content, op.Aliases)
		return []crmem.Entry{e}, err
	case "forget":
		return nil, s.Forget(Name(op.Name))
	}
	ops := make([]crmem.Op, len(c.Ops))
	for i := range c.Ops {
		ops[i] = c.Ops[i].op()
	}
	return s.Do(ops...)
}

func (o *Op) op() crmem.Op {
	name := Name(o.Name)
	switch o.Do {
	case "add":
		return crmem.Add{Name: name, Content: o.Content, Aliases: o.Aliases}
	case "archive":
		return crmem.Add{Name: name, Content: o.Content, Aliases: o.Aliases, Kind: crmem.Archive}
	case "update":
		return crmem.Update{Name: name, Content: o.Content, Aliases: o.Aliases}
	case "alias":
		return crmem.Alias{Name: name, Aliases: o.Aliases}
	case "remove":
		return crmem.Remove{Name: name}
	case "unchanged":
		if o.Entry == nil {
			return crmem.Unchanged{Entry: crmem.Entry{Name: name}}
		}
		return crmem.Unchanged{Entry: *o.Entry}
	}
	panic("linear: unknown operation " + o.Do)
}

// State is the state of a store. States are comparable.
type State struct {
	next uint64
	at   [Names]value
}

// value is an entry without its name; the zero value means no entry.
type value struct {
	id, created uint64
	kind        crmem.Kind
	content     string
	aliases     string
}

func valueOf(e *crmem.Entry) value {
	return value{e.ID, uint64(e.CreatedAt), e.Kind, e.Content, strings.Join(e.Aliases, "\x00")}
}

// StateOf returns the state of a store. It returns an error if the store contains
// an entry with another name.
func StateOf(s *crmem.Store) (State, error) {
	st := State{next: s.NextID()}
	for e := range s.All() {
		n := 0
		for n < Names && Name(n) != e.Name {
			n++
		}
		if n == Names || st.at[n].id != 0 {
			return st, fmt.Errorf("the store contains %+v", e)
		}
		st.at[n] = valueOf(&e)
	}
	return st, nil
}

// Empty returns the state of a new store.
func Empty() State { return State{next: 1} }

// apply returns the state after a call, and the values and the error class of the
// response. A failed call does not change the state.
func (s State) apply(ops []Op) (State, []value, string) {
	next := s
	var got []value
	for i := range ops {
		op := &ops[i]
		v := &next.at[op.Name]
		if err := next.check(op); err != "" {
			return s, nil, err
		}
		aliases := strings.Join(op.Aliases, "\x00")
		switch op.Do {
		case "get":
			return s, []value{*v}, ""
		case "unchanged":
			continue
		case "remove", "forget":
			*v = value{}
			continue
		case "alias":
			v.aliases = aliases
		case "remember", "add", "archive", "update":
			if v.id == 0 {
				*v = value{id: next.next, created: Now}
				next.next++
				if op.Do == "archive" {
					v.kind = crmem.Archive
				}
			}
			v.content = op.Content
			if op.Do != "remember" || op.Aliases != nil {
				v.aliases = aliases
			}
		}
		got = append(got, *v)
	}
	return next, got, ""
}

// check returns the error class of an operation, or "".
func (s *State) check(op *Op) string {
	v := s.at[op.Name]
	exists := v.id != 0
	switch op.Do {
	case "add", "archive":
		if exists {
			return "exists"
		}
	case "update", "alias", "remove", "get":
		if !exists {
			return "not found"
		}
	case "remember":
		if v.kind != crmem.Note {
			return "kind"
		}
	case "forget":
		if v.kind != crmem.Note {
			return "kind"
		}
		if !exists {
			return "not found"
		}
	case "unchanged":
		if op.Entry == nil && exists || op.Entry != nil && valueOf(op.Entry) != v {
			return "stale"
		}
	}
	return ""
}
