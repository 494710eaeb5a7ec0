package daemon

import (
	"fmt"

	"crabmem/crmem"
	"crabmem/daemon/op"
)

// quota limits the entries of a store. 0 is no limit.
type quota struct {
	Entries int
	Bytes   int // of names, aliases, and texts
}

// check returns an error if the note that an operation writes would exceed the quota.
// It counts the note in place of the entry that it replaces.
func (q quota) check(s *crmem.Store, o *crmem.Remember) error {
	old, err := s.Get(o.Name)
	if err != nil || !crmem.SameName(old.Name, o.Name) {
		old = crmem.Entry{}
	}
	content, err := o.ContentFor(old.Content)
	if err != nil {
		return err
	}
	note := crmem.Entry{Name: o.Name, Content: content, Aliases: o.Aliases}
	entries, bytes := 1, op.EntrySize(&note)
	for e := range s.All() {
		if e.ID == old.ID {
			if o.Aliases == nil { // the note keeps them
				bytes += op.EntrySize(&e) - len(e.Content) - len(e.Name)
			}
			continue
		}
		entries++
		bytes += op.EntrySize(&e)
	}
	switch {
	case q.Entries > 0 && entries > q.Entries:
		return fmt.Errorf("this memory may contain %d entries: write to an existing name", q.Entries)
	case q.Bytes > 0 && bytes > q.Bytes:
		return fmt.Errorf("this memory may contain %d bytes, and would contain %d: write a shorter text", q.Bytes, bytes)
	}
	return nil
}
