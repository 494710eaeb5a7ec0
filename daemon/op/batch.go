package op

import (
	"context"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/once"
)

// A Step is an operation of a batch, or a condition of it.
type Step struct {
	// Do is what the step does: unchanged, a condition; add, update, alias, remove, rename,
	// or restore.
	Do      string      `json:"do"`
	Entry   crmem.Entry `json:"entry"`
	To      string      `json:"to,omitempty"`       // the new name of rename
	NoAlias bool        `json:"no_alias,omitempty"` // of a rename
}

// Batch is operations that take effect together, or not at all.
type Batch struct {
	Steps []Step `json:"steps"` // its conditions first
}

// Apply applies a batch, all or none, if each [crmem.Unchanged] holds. It returns the
// entries that the operations wrote.
var Apply = Add(errtable.Store, Op[Store, Batch, []crmem.Entry]{
	Name: "entries.apply", Does: "Apply changes together.", Effect: Writes, Need: NeedWrite, Permit: permitBatch,
	Did: batchEffect,
	Run: func(_ context.Context, s Store, in *Batch) ([]crmem.Entry, error) {
		ops := make([]crmem.Op, len(in.Steps))
		for i := range in.Steps {
			if ops[i] = in.Steps[i].op(); ops[i] == nil {
				return nil, errtable.Invalidf("step %d: do: %q is unknown", i+1, in.Steps[i].Do)
			}
		}
		ops, err := s.Guard.Ops(s.Store, ops)
		if err != nil {
			return nil, err
		}
		return s.Do(append(ops, s.by()...)...)
	},
})

// ApplyOps applies operations as a batch.
func ApplyOps(ctx context.Context, c Caller, ops ...crmem.Op) ([]crmem.Entry, error) {
	in := Batch{Steps: make([]Step, len(ops))}
	for i, o := range ops {
		in.Steps[i] = stepOf(o)
	}
	return Apply.Do(ctx, c, in)
}

func stepOf(op crmem.Op) Step {
	switch op := op.(type) {
	case crmem.Unchanged:
		return Step{Do: "unchanged", Entry: op.Entry}
	case crmem.Add:
		return Step{Do: "add", Entry: crmem.Entry{Name: op.Name, Content: op.Content, Aliases: op.Aliases, Kind: op.Kind}}
	case crmem.Update:
		return Step{Do: "update", Entry: crmem.Entry{Name: op.Name, Content: op.Content, Aliases: op.Aliases}}
	case crmem.Alias:
		return Step{Do: "alias", Entry: crmem.Entry{Name: op.Name, Aliases: op.Aliases}}
	case crmem.Remove:
		return Step{Do: "remove", Entry: crmem.Entry{Name: op.Name}}
	case crmem.Rename:
		s := Step{Do: "rename", Entry: crmem.Entry{Name: op.Name}, To: op.To, NoAlias: op.NoAlias}
		if op.Content != nil {
			s.Entry.Content = *op.Content
		}
		return s
	case crmem.Restore:
		return Step{Do: "restore", Entry: op.Entry}
	}
	return Step{} // the store refuses it
}

// op returns the operation, or nil if Do is unknown.
func (s *Step) op() crmem.Op {
	e := &s.Entry
	switch s.Do {
	case "unchanged":
		return crmem.Unchanged{Entry: *e}
	case "add":
		return crmem.Add{Name: e.Name, Content: e.Content, Aliases: e.Aliases, Kind: e.Kind}
	case "update":
		return crmem.Update{Name: e.Name, Content: e.Content, Aliases: e.Aliases}
	case "alias":
		return crmem.Alias{Name: e.Name, Aliases: e.Aliases}
	case "remove":
		return crmem.Remove{Name: e.Name}
	case "rename":
		o := crmem.Rename{Name: e.Name, To: s.To, NoAlias: s.NoAlias}
		if e.Content != "" {
			o.Content = &e.Content
		}
		return o
	case "restore":
		return crmem.Restore{Entry: *e}
	}
	return nil
}

// permitBatch checks that a batch changes notes only: each changed entry must be a note in
// the conditions, which the store compares in the same transaction.
func permitBatch(s Store, in *Batch) error {
	id := &s.As
	notes := make(map[string]bool)
	for i := range in.Steps {
		e := &in.Steps[i].Entry
		switch in.Steps[i].Do {
		case "unchanged":
			notes[e.Name] = e.ID != 0 && e.Kind == crmem.Note
		case "add":
			if e.Kind != crmem.Note {
				return id.Refused("change archives")
			}
		case "update", "alias", "remove", "rename":
			if !notes[e.Name] {
				return id.Refused("change %q without the note in unchanged", e.Name)
			}
		default:
			return id.Refused("restore entries")
		}
	}
	return nil
}

// batchEffect is the effect of a batch: the last entry that it wrote or, if it wrote none,
// the last one of its conditions.
func batchEffect(in *Batch, wrote *[]crmem.Entry) once.Effect {
	if n := len(*wrote); n > 0 {
		return effectOn(&(*wrote)[n-1])
	}
	var last crmem.Entry
	changes := false
	for i := range in.Steps {
		if in.Steps[i].Do == "unchanged" {
			last = in.Steps[i].Entry
		} else {
			changes = true
		}
	}
	if changes {
		return once.Effect{Entry: last.ID}
	}
	return effectOn(&last)
}
