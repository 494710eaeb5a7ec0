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
	"crabmem/fuzz/golden"
	"crabmem/sessionlog"
)

// TestReportsOfArchived compares which summaries need an archive for each
// content of the archived file.
func TestReportsOfArchived(t *testing.T) {
	var out golden.Reports
	all := []sessionlog.Compaction{{N: 1, Summary: "one"}, {N: 2, Summary: "two"}, {N: 3, Summary: "three"}}
	bubble(t, func(r *rig) {
		for i, content := range []string{"no file", "", "0\n", "1\n", "1", "1 main\n", "1 - team-2\n", "1 Team\n", "1  main\n", "1 ..\n", "2\n", "3\n", "4\n", "-1\n", "-1", "x\n", "1\n\n", " 1\n", strings.Repeat("0", 31) + "\n", strings.Repeat("0", 32) + "\n"} {
			for n := range len(all) + 1 {
				for _, followed := range []bool{false, true} {
					for _, fault := range []string{"", "archived"} {
						id := fmt.Sprintf("s%d_%d_%v%s", i, n, followed, fault)
						if content != "no file" {
							r.check(vfs.MkdirAll(r.fs, rigHome+"/archived", 0o700))
							r.fs.WriteFile(r.archivedFile(id), []byte(content), 0o600)
						}
						known, ok := r.archived(id)
						if fault != "" {
							r.fail("rename", fault)
						}
						list := r.unarchived(id, all[:n], followed)
						r.mend()
						b, err := vfs.ReadFile(r.fs, r.archivedFile(id), 100)
						if err == nil {
							err = r.fs.Remove(r.archivedFile(id))
						}
						out.Addf(fmt.Sprintf("file %q, %d summaries, followed %v, fault %q", content, n, followed, fault),
							"%s %v, unarchived %v, then %q %v %v", fmt.Sprint(known), ok, list, b, err != nil, r.notes)
						r.notes = nil
					}
				}
			}
		}
	})
	out.Compare(t, "testdata/reports/archived.txt.gz")
}

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

// TestReportsOfArchives compares what Archive writes for each state of the store.
func TestReportsOfArchives(t *testing.T) {
	var out golden.Reports
	entry := func(name, content string, aliases ...string) crmem.Op {
		return crmem.Add{Name: name, Content: content, Aliases: aliases}
	}
	for i, before := range [][]crmem.Op{
		nil,
		{entry("crab_user_1-7", "text")},
		{entry("crab_user_1-7", "other")},
		{entry("x", "text", "crab_user_1-7")},
		{entry("crab_user_1-7", "other"), entry("crab_user_1-7.2", "text")},
		{entry("crab_user_1-7", "other"), entry("crab_user_1-7.2", "other"), entry("x", "other", "crab_user_1-7.3")},
	} {
		for _, title := range []string{"", "a title"} {
			for _, memory := range []bool{true, false} {
				for _, fault := range []string{"", "memory", "archived"} {
					bubble(t, func(r *rig) {
						if before != nil {
							r.check(r.store.Apply(before...))
						}
						l, err := r.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user", Title: title}, "", "", tool.Unbounded())
						r.check(err)
						if fault != "" {
							r.fail("write", fault)
						}
						name, err := r.Archive(&agent.Agent{Memory: memory}, &agent.Session{Log: l.log}, agent.Summary{Number: 7, Text: "text"})
						r.mend()
						out.Addf(fmt.Sprintf("store %d, title %q, memory %v, fault %q", i, title, memory, fault), "%s %v\n%s", name, err, r.outcome())
					})
				}
			}
		}
	}
	bubble(t, func(r *rig) {
		name, err := r.Archive(&agent.Agent{Memory: true}, new(agent.Session), agent.Summary{Number: 1, Text: "text"})
		out.Addf("without a log", "%q %v\n%s", name, err, r.outcome())
	})
	out.Compare(t, "testdata/reports/archives.txt.gz")
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

// TestReportsOfLoads compares what happens if the history of a session, its
// summaries, or its archive fail.
func TestReportsOfLoads(t *testing.T) {
	var out golden.Reports
	for _, damage := range []string{"", "missing", "bad line", "agent", "store", "no archive", "archived", "summary pending"} {
		for _, call := range []string{"open", "resolve", "run", "with"} {
			if damage == "bad line" && call == "run" {
				break // the log reports a displaced file
			}
			bubble(t, func(r *rig) {
				l := r.create("crab", "user")
				r.say(l, "hello")
				if damage == "summary pending" {
					r.fail("create", "memory")
				}
				archive, err := r.compact(l)
				r.mend()
				r.note("compacted as %q, %v", archive, err)
				r.fs.WriteFile(rigHome+"/archived/crab_user_1", []byte("0\n"), 0o600)
				if damage != "agent" {
					r.hold(l, nil)
				}
				if call == "open" || call == "resolve" {
					r.close()
					r.open()
				}
				r.outcome()
				r.damage(damage)
				r.load1(call, l)
				r.mend()
				out.Add(damage+", "+call, r.outcome())
			})
		}
	}
	out.Compare(t, "testdata/reports/loads.txt.gz")
}

// damage makes loading session crab_user_1 fail.
func (r *rig) damage(kind string) {
	file := rigHome + "/sessions/crab_user_1.jsonl"
	switch kind {
	case "missing":
		r.check(r.fs.Remove(file))
	case "bad line":
		b, err := vfs.ReadFile(r.fs, file, 1<<20)
		r.check(err)
		r.fs.WriteFile(file, append(b, "bad\n{\"role\":\"user\",\"content\":\"x\"}\n"...), 0o600)
	case "agent":
		r.change(func(s *Setup) { delete(s.Agents, "crab") })
	case "store":
		r.check(r.store.Close())
	case "no archive":
		r.check(r.store.Apply(crmem.Remove{Name: "crab_user_1-1"}))
	case "archived":
		r.fail("rename", "archived")
	}
}

func (r *rig) load1(call string, l *Session) {
	switch call {
	case "open":
		l, err := r.Open(r.t.Context(), "crab_user_1", "/other")
		r.note("Open returns %v, %v", l != nil, err)
	case "resolve":
		l, err := r.Resolve(r.t.Context(), new(Request))
		r.note("Resolve returns %v, %v", l != nil, err)
	case "run":
		r.note("Run returns %s", r.say(l, "hello"))
	case "with":
		r.note("With returns %v", r.With(r.t.Context(), l.ID(), func(context.Context, Setup, *agent.Agent, *agent.Session) error {
			return errors.New("called")
		}))
	}
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
