package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"unsafe"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// TestEndedContexts checks that calls that wait for a lock or a killed session
// return the cause of their context.
func TestEndedContexts(t *testing.T) {
	cause := errors.New("hung up")
	id := "crab_user_1"
	calls := map[string]func(context.Context, *rig) error{
		"Open":     func(ctx context.Context, r *rig) error { _, err := r.Open(ctx, id, ""); return err },
		"Named":    func(ctx context.Context, r *rig) error { _, err := r.Named(ctx, 1, id); return err },
		"WithIdle": func(ctx context.Context, r *rig) error { return r.WithIdle(ctx, id, func() error { return nil }) },
		"resume":   func(ctx context.Context, r *rig) error { _, err := r.Resolve(ctx, &Request{Resume: &id}); return err },
		"Resolve":  func(ctx context.Context, r *rig) error { _, err := r.Resolve(ctx, new(Request)); return err },
	}
	waits := map[string]func(*rig, *Session) (end func()){
		"stored": func(r *rig, l *Session) func() {
			unlock, err := r.Manager.stored.lock(r.t.Context(), id)
			r.check(err)
			return unlock
		},
		"identity": func(r *rig, l *Session) func() {
			unlock, err := r.identities.lock(r.t.Context(), "crab\x00user\x00")
			r.check(err)
			return unlock
		},
		"killed": func(r *rig, l *Session) func() {
			if !l.slot.TryAcquire(1) {
				r.t.Error("a run is active")
			}
			r.Kill(l)
			return func() { r.release(l) }
		},
	}
	for name, call := range calls {
		for on, wait := range waits {
			if (on == "identity") != (name == "Resolve") && on != "killed" {
				continue // does not wait
			}
			for _, ends := range []bool{true, false} {
				bubble(t, func(r *rig) {
					l := r.create("crab", "user")
					r.say(l, "hello")
					end := wait(r, l)
					ctx, cancel := context.WithCancelCause(r.t.Context())
					defer cancel(nil)
					got := make(chan error, 1)
					go func() { got <- call(ctx, r) }()
					synctest.Wait()
					if len(got) != 0 {
						r.t.Errorf("%s does not wait for %s: %v", name, on, <-got)
					}
					if ends {
						cancel(cause)
					} else {
						end()
					}
					if err := <-got; ends && !errors.Is(err, cause) || !ends && err != nil {
						r.t.Errorf("%s waits for %s, context ended %v: %v", name, on, ends, err)
					}
					if ends {
						end()
					}
					synctest.Wait()
					if len(r.identities.held)+len(r.Manager.stored.held) != 0 {
						r.t.Errorf("%s: locks remain", name)
					}
				})
			}
		}
	}
}

// TestHeldBytes checks the counted bytes of histories.
func TestHeldBytes(t *testing.T) {
	m := New(Options{})
	call := sessionlog.ToolCall{Function: sessionlog.Function{Name: "name", Arguments: "{}"}}
	history := &agent.Session{Messages: []sessionlog.Message{
		{Role: record.RoleUser, Content: "hello", ReasoningContent: "why"}, {ToolCalls: []sessionlog.ToolCall{call, call}},
	}}
	message, one := int64(unsafe.Sizeof(sessionlog.Message{})), int64(unsafe.Sizeof(call))
	var a, b Session
	for _, c := range []struct {
		l           *Session
		s           *agent.Session
		bytes, both int64
	}{
		{&a, history, 20 + 2*message + 2*one, 20 + 2*message + 2*one},
		{&b, history, 20 + 2*message + 2*one, 40 + 4*message + 4*one},
		{&a, history, 20 + 2*message + 2*one, 40 + 4*message + 4*one},
		{&a, new(agent.Session), 0, 20 + 2*message + 2*one},
		{&b, nil, 0, 0},
	} {
		m.hold(c.l, c.s)
		if c.l.bytes.Load() != c.bytes || m.LoadedBytes() != c.both {
			t.Errorf("%d bytes, want %d; %d in all, want %d", c.l.bytes.Load(), c.bytes, m.LoadedBytes(), c.both)
		}
		if c.s != nil && c.l.Messages() != int64(len(c.s.Messages)) {
			t.Errorf("%d messages, want %d", c.l.Messages(), len(c.s.Messages))
		}
	}
	if b.Messages() != 2 {
		t.Errorf("%d messages of an unloaded session, want 2", b.Messages())
	}
}

// TestUnload holds histories around the limit of bytes.
func TestUnload(t *testing.T) {
	const tenth = maxLoaded / 10
	message := int(unsafe.Sizeof(sessionlog.Message{}))
	for _, c := range []struct {
		name  string
		bytes []int // of sessions, in order of their last use
		busy  int   // number of a session with a run; 0: none
		want  string
	}{
		{"at the limit", []int{maxLoaded - 5000, 5000}, 0, "[true true]"},
		{"over the limit", []int{maxLoaded - 5000, 5001}, 0, "[false true]"},
		{"to nine tenths", []int{tenth, tenth * 9, 1000}, 0, "[false false true]"},
		{"to less than nine tenths", []int{tenth + 9, tenth * 9, 0}, 0, "[false true true]"},
		{"several", []int{5000, 5000, tenth, tenth, tenth * 8}, 0, "[false false false true true]"},
		{"an active run", []int{tenth * 5, tenth * 6}, 1, "[true false]"},
	} {
		bubble(t, func(r *rig) {
			var list []*Session
			for i, n := range c.bytes {
				l := r.create("crab", "user")
				l.slot.TryAcquire(1)
				s := new(agent.Session)
				if n > 0 {
					s.Messages = []sessionlog.Message{{Content: strings.Repeat("x", n-message)}}
				}
				r.hold(l, s)
				if i+1 != c.busy {
					l.slot.Release(1)
				}
				list = append(list, l)
			}
			r.evictIdle()
			var got []bool
			for _, l := range list {
				got = append(got, l.session != nil)
			}
			if fmt.Sprint(got) != c.want {
				r.t.Errorf("%s: loaded %v, want %s", c.name, got, c.want)
			}
			if c.busy > 0 {
				r.release(list[c.busy-1])
			}
			for _, l := range list {
				if !l.slot.TryAcquire(1) {
					r.t.Errorf("%s: session %d has no free run slot", c.name, l.ID())
				}
				l.slot.Release(1)
			}
		})
	}
}

// TestKilledSessionRefusesRuns checks that Kill and WithIdle end the session that
// they close.
func TestKilledSessionRefusesRuns(t *testing.T) {
	bubble(t, func(r *rig) {
		called := errors.New("called")
		for _, kill := range []func(l *Session) bool{
			func(l *Session) bool { return r.Kill(l) },
			func(l *Session) bool {
				return r.WithIdle(r.t.Context(), l.StoredID(), func() error { return called }) == called
			},
		} {
			l := r.create("crab", "user")
			if !kill(l) {
				r.t.Error("the session is not killed")
			}
			r.wantClosed(l)
			if got := r.say(l, "hello"); got != `"", the session was killed (cancelled 0, "")` {
				r.t.Errorf("a run in the session returns %s", got)
			}
			if r.Kill(l) {
				r.t.Error("Kill returns true")
			}
		}
	})
}

// TestResolveDirectory checks which working directories a request may have.
func TestResolveDirectory(t *testing.T) {
	bubble(t, func(r *rig) {
		r.fs.WriteFile("/work/file", nil, 0o600)
		for link, target := range map[string]string{"link": "/other", "loop": "loop", "dangling": "absent", "tofile": "file"} {
			r.fs.Symlink(target, "/work/"+link)
		}
		for dir, want := range map[string]string{
			"/work": "", "/work/link": "",
			"work": `cwd "work": want an absolute path`, "": `cwd "": want an absolute path`,
			"/absent": `cwd "/absent": not a directory`, "/work/file": `cwd "/work/file": not a directory`,
			"/work/loop": `cwd "/work/loop": not a directory`, "/work/dangling": `cwd "/work/dangling": not a directory`,
			"/work/tofile": `cwd "/work/tofile": not a directory`,
		} {
			l, err := r.Resolve(r.t.Context(), &Request{Dir: &dir})
			if got := fmt.Sprint(err); want != "" && got != want || want == "" && (err != nil || l.dir != dir) {
				r.t.Errorf("%s: %s", dir, got)
			}
		}
	})
}

// TestNamesCloseFiles checks that looking for a session leaves no file open.
func TestNamesCloseFiles(t *testing.T) {
	bubble(t, func(r *rig) {
		l := r.create("crab", "user")
		r.say(l, "hello")
		_, err := r.compact(l)
		r.check(err)
		r.Kill(l)
		open := 0
		f := func(c faultfs.Call) error {
			switch {
			case !strings.HasSuffix(c.Name, ".jsonl"):
			case c.Op == "open":
				open++
			case c.Op == "close":
				open--
			}
			return nil
		}
		r.fault.Store(&f)
		_, err = r.storedID("crab_user_1")
		r.check(err)
		_, err = r.compactions("crab_user_1")
		r.check(err)
		if open != 0 {
			r.t.Errorf("%d files remain open", open)
		}
		r.mend()
	})
}
