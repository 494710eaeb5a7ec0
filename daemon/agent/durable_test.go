package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/model/modeltest"
	"crabmem/sessionlog"
)

// inMemory moves the session of a rig to a file system that can crash.
func (r *rig) inMemory(m *faultfs.Mem) {
	r.t.Helper()
	dir, err := sessionlog.OpenDir("/sessions", &sessionlog.Options{FS: m})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { dir.Close() })
	if r.s.Log, err = dir.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}); err != nil {
		r.t.Fatal(err)
	}
}

// afterCrash returns the roles and contents of a session on a crashed machine.
func afterCrash(t *testing.T, m *faultfs.Mem, id string) (lines []string) {
	t.Helper()
	dir, err := sessionlog.OpenDir("/sessions", &sessionlog.Options{FS: m})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	log, err := dir.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	c, err := log.Context()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Messages {
		lines = append(lines, m.Role+" "+m.Content)
	}
	return lines
}

// TestRunIsDurable cuts the power when a run reports its end. The session has
// every message of the run then, also where the last one is the result of a
// tool, which Append alone leaves unsynced.
func TestRunIsDurable(t *testing.T) {
	call := modeltest.Call("echo", `{"text":"result"}`)
	for _, c := range []struct {
		name  string
		model []modeltest.Reply
		stop  Stop
		want  []string
	}{
		{"exhausted", []modeltest.Reply{call}, Exhausted, []string{"user go", "assistant ", "tool result"}},
		{"failed", []modeltest.Reply{call, modeltest.Status(401, "no such key")}, Failed, []string{"user go", "assistant ", "tool result"}},
		{"answered", []modeltest.Reply{call, modeltest.Say("done")}, Answered, []string{"user go", "assistant ", "tool result", "assistant done"}},
		{"cancelled", []modeltest.Reply{modeltest.Call("echo", `{"text":"late","wait":60000000000}`)}, Cancelled,
			[]string{"user go", "assistant ", "tool "}}, // with why it has no result
	} {
		t.Run(c.name, func(t *testing.T) {
			m := faultfs.NewMem()
			r := newRig(t, 100_000, Hooks{})
			r.inMemory(m)
			r.agent.MaxIterations = len(c.model)
			r.model.Queue(c.model...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var crashed *faultfs.Mem
			for e := range r.Run(ctx, r.agent, r.s, Input{Content: "go"}) {
				switch {
				case e.Kind == ToolStart && !e.Early && c.stop == Cancelled:
					cancel()
				case e.Kind == Done:
					if e.Stop != c.stop {
						t.Errorf("the run ended as %d: %v", e.Stop, e.Err)
					}
					crashed = m.Crash()
				}
			}
			if got := afterCrash(t, crashed, r.s.Log.ID()); !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("after the power cut: %q, want %q", got, c.want)
			}
		})
	}
}

// TestRunReportsFailedSync fails the last sync of a run.
func TestRunReportsFailedSync(t *testing.T) {
	m := faultfs.NewMem()
	r := newRig(t, 100_000, Hooks{})
	r.inMemory(m)
	r.agent.MaxIterations = 1
	r.model.Queue(modeltest.Call("echo", `{"text":"result"}`))
	sick := errors.New("sick disk")
	var stop Stop
	var err error
	for e, eerr := range r.Run(t.Context(), r.agent, r.s, Input{Content: "go"}) {
		if e.Kind == ToolResult {
			m.Hook = func(c faultfs.Call) error {
				if c.Op == "datasync" || c.Op == "sync" {
					return sick
				}
				return nil
			}
		}
		stop, err = e.Stop, eerr
	}
	if stop != Failed {
		t.Errorf("the run stopped with %d, want %d", stop, Failed)
	}
	if !errors.Is(err, sick) || !errors.Is(err, sessionlog.ErrUnknown) {
		t.Errorf("the run ended with %v", err)
	}
}
