package linear

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"crabmem/crmem"
)

// Check returns an error unless some order of the calls explains their answers
// and the state at the end. A call without an answer may be in the order or
// not: its writer was killed. The end is the state after all calls that
// succeeded; only calls without an answer, and errors, may follow it.
//
// Two checks are made. Errors of writes may rest on writes that are not yet
// durable, and reads never do, so no order needs to explain both.
//
// Strict is for stores without checkpoints and without kills. A checkpoint
// stages pending writes again, in another order, and an error may rest on the
// order before it, even on a write that fails in the end. Without strict, an
// error needs only values that its names may have had, each for itself.
func Check(calls []Call, begin, end State, strict bool) error {
	var writes, reads []Call
	for _, c := range calls {
		read := c.Ops[0].Do == "get"
		if read && c.End == 0 {
			continue
		}
		if !read && (strict || c.Err == "") {
			writes = append(writes, c)
		}
		if read || c.Err == "" {
			reads = append(reads, c)
		}
		if !strict && c.Err != "" && !justified(&c, calls, begin) {
			return fmt.Errorf("writer %d, %d to %d: %+v: no value of the names explains %q", c.Writer, c.Begin, c.End, c.Ops, c.Err)
		}
	}
	if err := newSearch(writes, end).check(begin); err != nil {
		return fmt.Errorf("writes: %w", err)
	}
	if err := newSearch(reads, end).check(begin); err != nil {
		return fmt.Errorf("reads: %w", err)
	}
	return nil
}

// justified reports whether values that the names may have had during a call
// explain its error.
func justified(c *Call, calls []Call, begin State) bool {
	states := []State{begin}
	for n := range Names {
		var next []State
		for _, v := range possible(n, c, calls, begin) {
			for _, st := range states {
				st.at[n] = v
				next = append(next, st)
			}
		}
		states = next
	}
	return slices.ContainsFunc(states, func(st State) bool {
		_, _, err := st.apply(c.Ops)
		return err == c.Err
	})
}

// possible returns the values that a name may have had during a call: of each
// write that began before the end of the call, unless a later write ended
// before the call began. Another write that failed counts while it was pending.
func possible(name int, c *Call, calls []Call, begin State) []value {
	old := 0 // values of calls that ended before are overwritten
	for i := range calls {
		w := &calls[i]
		if _, writes := w.leaves(name); writes && w.succeeded() && w.End < c.Begin {
			old = max(old, w.Begin)
		}
	}
	var list []value
	if old == 0 {
		list = append(list, begin.at[name])
	}
	for i := range calls {
		w := &calls[i]
		values, writes := w.leaves(name)
		if writes && w.Begin != c.Begin && w.Begin < c.End && (w.End == 0 || w.End >= old && (w.Err == "" || w.End > c.Begin)) {
			for _, v := range values {
				if !slices.Contains(list, v) {
					list = append(list, v)
				}
			}
		}
	}
	return list
}

// leaves returns the values that a name may have after a call, if it succeeds,
// and whether the call writes the name.
func (c *Call) leaves(name int) (values []value, writes bool) {
	got := c.Got
	for i := range c.Ops {
		op := &c.Ops[i]
		switch op.Do {
		case "get", "unchanged":
			continue
		case "remove", "forget":
			if op.Name == name {
				values, writes = []value{{}}, true
			}
			continue
		}
		if op.Name == name {
			writes = true
			// Of a call without an answer, any value stands for its own.
			values = []value{{id: 1 << 63}, {id: 1 << 63, kind: crmem.Archive}}
		}
		if c.succeeded() {
			if op.Name == name {
				values = []value{valueOf(&got[0])}
			}
			got = got[1:]
		}
	}
	return values, writes
}

// search looks for an order of calls, depth first.
type search struct {
	calls []Call // by Begin
	end   State
	seen  map[string]bool // places that lead nowhere
	best  place           // the longest order
}

// place is a set of calls that have happened, and the state after them.
type place struct {
	done  []bool
	first int // all before it are done
	count int
	left  int // calls that succeeded and have not happened
	ended bool
	state State
}

func newSearch(calls []Call, end State) *search {
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Compare(a.Begin, b.Begin) })
	return &search{calls: calls, end: end, seen: map[string]bool{}}
}

func (s *search) check(begin State) error {
	p := place{done: make([]bool, len(s.calls)), state: begin}
	for i := range s.calls {
		if s.calls[i].succeeded() {
			p.left++
		}
	}
	if s.from(p) {
		return nil
	}
	var b strings.Builder
	for _, i := range s.next(&s.best) {
		c := &s.calls[i]
		fmt.Fprintf(&b, "\nwriter %d, %d to %d: %+v: %q %+v", c.Writer, c.Begin, c.End, c.Ops, c.Err, c.Got)
	}
	return fmt.Errorf("no order explains the results: %d of %d calls lead to %+v; the end is %+v; none of these is next:%s",
		s.best.count, len(s.calls), s.best.state, s.end, b.String())
}

// next returns the calls that may happen next: those that began before any
// other ended.
func (s *search) next(p *place) []int {
	var list []int
	end := 0
	for i := p.first; i < len(s.calls); i++ {
		c := &s.calls[i]
		if p.done[i] {
			continue
		}
		if end != 0 && c.Begin > end {
			break
		}
		list = append(list, i)
		if c.End != 0 && (end == 0 || c.End < end) {
			end = c.End
		}
	}
	return slices.DeleteFunc(list, func(i int) bool { return end != 0 && s.calls[i].Begin > end })
}

// happens returns the state after a call, if the model gives its answer.
func (s *search) happens(c *Call, st State) (State, bool) {
	next, got, err := st.apply(c.Ops)
	if c.End == 0 {
		return next, err == "" && next != st // without an effect it need not happen
	}
	if err != c.Err || err == "" && len(got) != len(c.Got) {
		return st, false
	}
	for i := range got {
		if got[i] != valueOf(&c.Got[i]) {
			return st, false
		}
	}
	return next, true
}

func (c *Call) succeeded() bool { return c.End != 0 && c.Err == "" }

// take makes call i happen.
func (s *search) take(p *place, i int, st State) {
	p.done[i] = true
	p.count++
	if s.calls[i].succeeded() {
		p.left--
	}
	p.state = st
	for p.first < len(p.done) && p.done[p.first] {
		p.first++
	}
}

// from reports whether the calls that are left lead to the end.
func (s *search) from(p place) bool {
	list := s.next(&p)
	// A call that changes nothing may happen as soon as it can.
	for again := true; again; {
		again = false
		for _, i := range list {
			st, ok := s.happens(&s.calls[i], p.state)
			if ok && st == p.state {
				s.take(&p, i, st)
				list, again = s.next(&p), true
				break
			}
		}
	}
	if p.count > s.best.count || s.best.done == nil {
		s.best = p
		s.best.done = slices.Clone(p.done)
	}
	p.ended = p.ended || p.left == 0 && p.state == s.end
	if p.ended && !slices.ContainsFunc(list, func(i int) bool { return s.calls[i].End != 0 }) {
		return true
	}
	key := s.key(&p)
	if s.seen[key] {
		return false
	}
	s.seen[key] = true
	for _, i := range list {
		st, ok := s.happens(&s.calls[i], p.state)
		if !ok {
			continue
		}
		after := p
		after.done = slices.Clone(p.done)
		s.take(&after, i, st)
		if s.from(after) {
			return true
		}
	}
	return false
}

// key identifies a place.
func (s *search) key(p *place) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %t %+v", p.first, p.ended, p.state)
	for i := p.first; i < len(p.done); i++ {
		if p.done[i] {
			fmt.Fprintf(&b, " %d", i)
		}
	}
	return b.String()
}
