package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

// TestArchivedFile checks the calls and modes of setArchived.
func TestArchivedFile(t *testing.T) {
	bubble(t, func(r *rig) {
		r.check(r.setArchived("s", archiveState{done: 2}))
		before := r.fs.Calls()
		r.check(r.setArchived("s", archiveState{done: 2}))
		if n := r.fs.Calls() - before; n > 6 { // they read
			r.t.Errorf("%d calls for the same number", n)
		}
		for name, want := range map[string]string{"archived": "drwx------", "archived/s": "-rw-------"} {
			fi, err := r.fs.Lstat(filepath.Join(rigHome, name))
			r.check(err)
			if got := fi.Mode().String(); got != want {
				r.t.Errorf("%s has the mode %s, want %s", name, got, want)
			}
		}
		r.fail("mkdir", "archived")
		r.check(r.setArchived("s", archiveState{done: 3}))
		r.check(r.fs.Remove(rigHome + "/archived/s"))
		r.check(r.fs.Remove(rigHome + "/archived"))
		if err := r.setArchived("s", archiveState{done: 3}); err == nil {
			r.t.Error("setArchived returns no error without its folder")
		}
	})
}

// TestArchiveOfRole archives the markers of an agent with a role: the newest summary of
// each, with its lines and the archive before. A crash before the entry changes nothing. A
// late summary is not counted.
func TestArchiveOfRole(t *testing.T) {
	bubble(t, func(r *rig) {
		a := &agent.Agent{Memory: true}
		l, err := r.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}, "", "", tool.Unbounded())
		r.check(err)
		s := &agent.Session{Log: l.log, Scope: tool.Unbounded()}
		const first = "Summaries of the conversation so far. The newest is the last.\n\n## Summary crab_user_1-1\n\none"
		later := sessionlog.Message{Role: "user", Content: "later"}
		r.check(l.log.Append(sessionlog.Message{Role: "user", Content: "hi"}, sessionlog.Message{Role: "assistant", Content: "hello"}, later))
		r.check(l.log.Compact(first, later))
		r.check(l.log.Append(sessionlog.Message{Role: "assistant", Content: "well"}))
		r.check(l.log.Compact(first + "\n\n## Summary crab_user_1-2\n\ntwo"))
		want := map[string]string{"crab_user_1-1": "---\nlines: 2-4\n---\n\none", "crab_user_1-2": "---\nlines: 8-8\nafter: crab_user_1-1\n---\n\ntwo", "crab_user_1-3.late": "three"}
		all, err := r.compactions(l.log.ID())
		r.check(err)
		for range 2 { // the second time as after a crash before the file archived/ID
			for _, sum := range r.unarchived(l.log.ID(), all, true) {
				_, err := r.Archive(a, s, sum)
				r.check(err)
			}
			r.check(r.setArchived(l.log.ID(), archiveState{}))
		}
		r.check(r.setArchived(l.log.ID(), archiveState{done: 2}))
		name, err := r.Archive(a, s, agent.Summary{Number: 3, Text: strings.Replace(first, "-1\n\none", "-3\n\nthree", 1), Late: true})
		r.check(err)
		if got, _ := r.archived(l.log.ID()); name != "crab_user_1-3.late" || got.done != 2 {
			r.t.Errorf("%s, %+v", name, got)
		}
		for name, content := range want {
			if e, err := r.store.Get(name); err != nil || e.Content != content || e.Kind != crmem.Archive {
				r.t.Errorf("%s: %+v, %v", name, e, err)
			}
		}
		if n := r.store.Len(); n != len(want) {
			r.t.Errorf("%d entries", n)
		}
	})
}

// TestArchiveAddsASummaryOnce archives a summary in stores that have entries with its
// name.
func TestArchiveAddsASummaryOnce(t *testing.T) {
	entry := func(name, content string, aliases ...string) crmem.Op {
		return crmem.Add{Name: name, Content: content, Aliases: aliases}
	}
	for _, c := range []struct {
		before []crmem.Op
		want   string
		added  bool
	}{
		{[]crmem.Op{entry("y", "text")}, "crab_user_1-7", true},
		{[]crmem.Op{entry("crab_user_1-7", "text")}, "crab_user_1-7", false},
		{[]crmem.Op{entry("crab_user_1-7", "other")}, "crab_user_1-7.2", true},
		{[]crmem.Op{entry("x", "text", "crab_user_1-7")}, "crab_user_1-7", true},
		{[]crmem.Op{entry("crab_user_1-7", "other"), entry("crab_user_1-7.2", "text")}, "crab_user_1-7.2", false},
		{[]crmem.Op{entry("crab_user_1-7", "other"), entry("crab_user_1-7.2", "other")}, "crab_user_1-7.3", true},
	} {
		bubble(t, func(r *rig) {
			r.check(r.store.Apply(c.before...))
			before := r.store.Len()
			l, err := r.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user", Title: "a title"}, "", "", tool.Unbounded())
			r.check(err)
			name, err := r.Archive(&agent.Agent{Memory: true}, &agent.Session{Log: l.log}, agent.Summary{Number: 7, Text: "text"})
			r.check(err)
			e, err := r.store.Get(name)
			r.check(err)
			if name != c.want || e.Content != "text" || r.store.Len() != before+map[bool]int{true: 1}[c.added] {
				r.t.Errorf("%v: %q: %+v, want %q", c.before, name, e, c.want)
			}
			if c.added && (e.Kind != crmem.Archive || !slices.Equal(e.Aliases, []string{"crab", "user", "a title"})) {
				r.t.Errorf("%v: %+v", c.before, e)
			}
		})
	}
}

// TestArchivedSpaces archives summaries in their recorded spaces, one of them twice, as
// after a crash.
func TestArchivedSpaces(t *testing.T) {
	bubble(t, func(r *rig) {
		l := r.create("crab", "user")
		var used []string
		r.o.Space = func(name string, f func(*crmem.Store) error) error {
			used = append(used, name)
			return f(r.store)
		}
		r.check(r.setArchived(l.log.ID(), archiveState{done: 6, spaces: []string{"one", noSpace, "three"}}))
		var states []string
		for _, n := range []int{7, 7, 8, 9, 10} {
			_, err := r.Archive(&agent.Agent{Memory: true}, &agent.Session{Log: l.log}, agent.Summary{Number: n, Text: "text"})
			r.check(err)
			a, known := r.archived(l.log.ID())
			states = append(states, fmt.Sprint(a.done, a.spaces, known))
		}
		if got, want := fmt.Sprint(states), "[7 [- three] true 7 [- three] true 8 [three] true 9 [] true 10 [] true]"; got != want {
			r.t.Errorf("states %s, want %s", got, want)
		}
		// The second archive of 7 uses the space of the creator, in which the entry exists.
		if want := []string{"one", "main", "three", "main"}; !slices.Equal(used, want) {
			r.t.Errorf("spaces %q, want %q", used, want)
		}
	})
}

// TestUnarchived checks which summaries a load archives, for each content of the file.
func TestUnarchived(t *testing.T) {
	all := []sessionlog.Compaction{{N: 1, Summary: "a"}, {N: 2, Summary: "b"}}
	for _, c := range []struct {
		content  string // empty: no file
		followed bool
		want     string
		after    string
	}{
		{"0", true, "[{1 a false} {2 b false}]", "0"}, {"1", true, "[{2 b false}]", "1"}, {"2", false, "[]", "2"}, {"1 -", true, "[{2 b false}]", "1 -"},
		{"", true, "[]", ""}, {"", false, "[{2 b false}]", "1"}, {"3", false, "[{2 b false}]", "1"}, {"3", true, "[]", "3"},
		{"x", false, "[{2 b false}]", "1"}, {"-1", true, "[]", "-1"}, {"1 ../x", true, "[]", "1 ../x"}, {"2 a b", true, "[]", "2 a b"},
	} {
		bubble(t, func(r *rig) {
			name := r.archivedFile("s")
			r.check(r.setArchived("s", archiveState{}))
			r.check(r.fs.Remove(name))
			if c.content != "" {
				r.fs.WriteFile(name, []byte(c.content+"\n"), 0o600)
			}
			got := fmt.Sprint(r.unarchived("s", all, c.followed))
			b, _ := vfs.ReadFile(r.fs, name, 100)
			if after := strings.TrimSuffix(string(b), "\n"); got != c.want || after != c.after {
				r.t.Errorf("%q, followed %v: %s and %q, want %s and %q", c.content, c.followed, got, after, c.want, c.after)
			}
			if got := r.unarchived("s", nil, false); got != nil {
				r.t.Errorf("%q: %v of no summaries", c.content, got)
			}
		})
	}
}

// compact compacts a session.
func (r *rig) compact(l *Session) (archive string, err error) {
	err = r.With(r.t.Context(), l.ID(), func(ctx context.Context, s Setup, a *agent.Agent, h *agent.Session) (err error) {
		_, archive, err = s.Runner.Compact(ctx, a, h, agent.CompactOptions{})
		return err
	})
	return archive, err
}

// say runs a session's agent.
func (r *rig) say(l *Session, content string) string {
	q := Run{Session: l, Content: content, Sender: "user"}
	err := r.Run(r.t.Context(), &q)
	return fmt.Sprintf("%q, %s", q.Answer, explain(err))
}

// TestLoadFailsBetweenReads fails the second read of a session, that of its
// summaries.
func TestLoadFailsBetweenReads(t *testing.T) {
	bubble(t, func(r *rig) {
		l := r.create("crab", "user")
		r.say(l, "hello")
		_, err := r.compact(l)
		r.check(err)
		sick := errors.New("sick disk")
		for n := 1; ; n++ {
			r.hold(l, nil)
			left := n
			f := func(c faultfs.Call) error {
				if strings.Contains(c.Name, "sessions") {
					if left--; left == 0 && c.Op != "close" {
						return sick
					}
				}
				return nil
			}
			r.fault.Store(&f)
			l.slot.TryAcquire(1)
			err := r.load(l)
			r.mend()
			l.slot.Release(1)
			synctest.Wait()
			if left > 0 {
				break
			}
			if err == nil && l.session == nil || errors.Is(err, sick) && l.session != nil {
				r.t.Errorf("call %d: load returns %v", n, err)
			}
			if err == nil && l.session.Compactions != 1 {
				r.t.Errorf("call %d: load returns %d compactions", n, l.session.Compactions)
			}
		}
	})
}
