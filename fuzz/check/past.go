package check

import (
	"fmt"

	"crabmem/crmem"
)

// Past returns the last sequence number of a store that no other program changed. It
// returns an error unless history and log contain every operation since the store
// was created. If purged is set, operations may be missing. The changes of an entry
// lead to the entry.
func Past(s *crmem.Store, purged bool) (last uint64, err error) {
	after := make(map[uint64]crmem.Entry)
	for c, err := range s.Changes() {
		if err != nil {
			return last, fmt.Errorf("history after change %d: %w", last, err)
		}
		skipped := c.Seq - last - 1
		switch {
		case skipped == 0, purged && c.Seq > last:
		case skipped == 1 && c.Type == crmem.ChangeRename: // a remove and a put
		case skipped == 2: // two operations reserve the IDs of a load
		default:
			return last, fmt.Errorf("history: change %d after change %d", c.Seq, last)
		}
		last = c.Seq
		after[c.Entry().ID] = c.After
	}
	for e := range s.All() {
		if a, ok := after[e.ID]; ok && !a.Equal(e) || !ok && !purged {
			return last, fmt.Errorf("history: entry %d is %+v after the last change, the store has %+v", e.ID, a, e)
		}
		delete(after, e.ID)
	}
	for id, e := range after {
		if e.ID != 0 {
			return last, fmt.Errorf("history: entry %d exists after the last change, but not in the store", id)
		}
	}
	return last, nil
}
