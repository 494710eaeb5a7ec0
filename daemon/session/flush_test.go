package session

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// TestFlushOnce commits flushes with stores that fail, a count that fails, and without the file
// archived/ID. Each flush is applied once, or again if it may not be in the store. The
// summaries in the file stay.
func TestFlushOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		var applied []string
		sick := false
		r.o.Notes = func(log *sessionlog.Log, w record.Work, again bool) ([]string, error) {
			applied = append(applied, fmt.Sprint(w.N, " ", w.Upto, " ", w.Notes[0].Name, " ", again))
			if sick {
				return nil, errors.New("sick store")
			}
			return []string{w.Notes[0].Name}, nil
		}
		l := r.create("crab", "user")
		s := &agent.Session{Log: l.log, Scope: tool.Unbounded()}
		say := func() {
			r.check(l.log.Append(sessionlog.Message{Role: "user", Content: "hi"}, sessionlog.Message{Role: "assistant", Content: "hello"}))
		}
		flush := func(name string, messages int, fails bool, want ...string) {
			t.Helper()
			size := l.log.Size()
			say() // while the flush collects
			n, upto, err := r.BeginFlush(s, size)
			r.check(err)
			names, err := r.EndFlush(s, upto, []record.Note{{Name: name, Content: "x"}})
			if n != messages || fails != (err != nil) || !fails && !slices.Equal(names, []string{name}) {
				t.Errorf("%s: %d messages, %q, %v", name, n, names, err)
			}
			if !slices.Equal(applied, want) {
				t.Errorf("%s: applied %q, want %q", name, applied, want)
			}
			applied = nil
		}
		file := func(want string) {
			t.Helper()
			b, err := vfs.ReadFile(r.fs, rigHome+"/archived/crab_user_1", 1<<10)
			if r.check(err); string(b) != want+"\n" {
				t.Errorf("archived: %q, want %q", b, want)
			}
		}
		r.check(r.setArchived(l.log.ID(), archiveState{done: 4, spaces: []string{"main"}}))
		say()
		flush("a", 2, false, "1 3 a false")
		file("4/1/1 main")
		sick = true
		flush("b", 2, true, "2 6 b false")
		file("4/1/2 main")
		flush("c", 2, true, "2 6 b true")
		sick = false
		flush("d", 4, false, "2 6 b true", "3 11 d false")
		file("4/3/3 main")
		r.check(r.BeforeSummary(&agent.Session{Log: l.log, Compactions: 5, Scope: tool.Unbounded()}))
		file("5/3/3 main")
		r.check(r.fs.Remove(rigHome + "/archived/crab_user_1"))
		flush("e", 2, false, "4 14 e false")
		file("-1/4/4")
		if _, known := r.archived(l.log.ID()); known {
			t.Error("the number of summaries is known")
		}
		r.fail("write", "sessions")
		if _, err := r.EndFlush(s, 17, []record.Note{{Name: "f"}}); err == nil || len(applied) > 0 {
			t.Errorf("a flush without a record: applied %q, %v", applied, err)
		}
		r.fault.Store(nil)
		file("-1/4/5")
	})
}
