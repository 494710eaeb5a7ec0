package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"
)

// changeLine describes a change without its content.
func changeLine(seq uint64, typ fmt.Stringer, id uint64, name string, bytes int, rest ...any) string {
	return fmt.Sprint(seq, typ, id, name, bytes, rest)
}

type word string

func (w word) String() string { return string(w) }

// TestEntryChanges compares the changes that a client receives with those of the store,
// for entries that were renamed or removed, and whose names other entries have.
func TestEntryChanges(t *testing.T) {
	race.Skip(t)
	s := serve(t, home(t), "")
	big := strings.Repeat("x", 64<<10)
	for _, ops := range [][]crmem.Op{
		{crmem.Add{Name: "a", Content: "1", Aliases: []string{"first"}}, crmem.Add{Name: "b", Content: "1"}},
		{crmem.Update{Name: "a", Content: big, Aliases: []string{"first"}}},
		{crmem.Rename{Name: "a", To: "c"}, crmem.By{Agent: "crab", Client: "x", Origin: "api:a", Op: "o"}},
		{crmem.Alias{Name: "c", Aliases: []string{"second", "third"}}},
		{crmem.Add{Name: "a", Content: "another"}},
		{crmem.Remove{Name: "c"}},
	} {
		if err := s.store.Apply(ops...); err != nil {
			t.Fatal(err)
		}
	}
	c := s.client()
	for id := range uint64(5) {
		var all []crmem.Change
		changes := s.store.ChangesOfID(id)
		if id == 0 {
			changes = s.store.Changes()
		}
		for x, err := range changes {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, x)
		}
		for until := range uint64(len(all) + 2) {
			for limit := range len(all) + 2 {
				want, got := "", ""
				newest := len(all)
				if until > 0 {
					newest = min(newest, int(until))
				}
				for i, n := newest-1, 0; i >= 0 && (limit == 0 || n < limit); i, n = i-1, n+1 {
					e, old := all[i].Entry(), ""
					if all[i].Type == "rename" {
						old = all[i].Before.Name
					}
					want += changeLine(all[i].Seq, word(all[i].Type), e.ID, e.Name, len(e.Content), i+1, all[i].Time.UnixNano(), all[i].By, e.Aliases, "", e.CreatedAt, old)
				}
				list, err := op.ListChanges.Do(t.Context(), c, op.ChangeFilter{ID: id, Until: until, Limit: limit})
				if id == 0 && limit == 0 {
					if err == nil {
						t.Error("all changes of all entries without a limit")
					}
					continue
				}
				if len(all) == 0 {
					if !errors.Is(err, crmem.ErrNotFound) {
						t.Errorf("the changes of a missing entry: %v", err)
					}
					continue
				}
				if err != nil || list.Damaged != "" {
					t.Fatal(err, list.Damaged)
				}
				for _, x := range list.Changes {
					got += changeLine(x.Change, word(x.Type), x.ID, x.Name, x.Bytes, x.Place, x.Time.UnixNano(), x.By, x.Aliases, x.Entry().Content, x.CreatedAt, x.OldName)
				}
				if got != want {
					t.Errorf("entry %d, until %d, limit %d:\n%s\nwant\n%s", id, until, limit, got, want)
				}
			}
		}
		for i, x := range all {
			list, err := op.ListChanges.Do(t.Context(), c, op.ChangeFilter{ID: id, Seq: x.Seq})
			if err != nil || len(list.Changes) != 1 || *list.Changes[0].Content != x.Entry().Content || list.Changes[0].Place != uint64(i+1) {
				t.Errorf("change %d: %v", x.Seq, err)
			}
		}
	}
	if _, err := op.ListChanges.Do(t.Context(), c, op.ChangeFilter{ID: 2, Seq: 1}); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("a change of another entry: %v", err)
	}
}

// TestNoHistory asks for changes when the history is off, and when it is damaged.
func TestNoHistory(t *testing.T) {
	s := serve(t, home(t), "[memory]\nhistory = \"off\"\n")
	if _, err := op.ListChanges.Do(t.Context(), s.client(), op.ChangeFilter{ID: 1}); err == nil || err.Error() != "the store keeps no history" {
		t.Errorf("without a history: %v", err)
	}
	s = serve(t, home(t), "")
	for i := range 3 {
		if _, err := s.store.Remember("a", fmt.Sprint("version ", i), nil); err != nil {
			t.Fatal(err)
		}
		if err := s.store.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(s.home, "memory.db-history", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := op.ListChanges.Do(t.Context(), s.client(), op.ChangeFilter{ID: 1}); err != nil || list.Damaged == "" {
		t.Errorf("a damaged history: %+v, %v", list, err)
	}
}
