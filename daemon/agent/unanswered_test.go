package agent

import (
	"context"
	"os"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/daemon/model/modeltest"
)

// sent returns the messages of the last request, without the system prompt.
func (r *rig) sent() (lines []string) {
	all := r.model.Requests()
	for _, m := range all[len(all)-1].Messages {
		if m.Role != "system" {
			lines = append(lines, m.Role+" "+m.Content)
		}
	}
	return lines
}

// reload reads the session again, as after a restart.
func (r *rig) reload() {
	r.t.Helper()
	c, err := r.s.Log.Context()
	if err != nil {
		r.t.Fatal(err)
	}
	r.s.Messages, r.s.Streamed, r.s.Failed = c.Messages, c.Streamed, c.Failed
}

// TestRetry sends a message again, or another one, after a turn without an
// answer, with and without a restart between.
func TestRetry(t *testing.T) {
	half := modeltest.Reply{}.Text("half an ").Cut()
	for _, c := range []struct {
		name       string
		replies    []modeltest.Reply
		next       string
		sent, kept []string
	}{
		{"again", []modeltest.Reply{modeltest.Status(401, "no key")}, "go", []string{"user go"}, []string{"user go", "assistant fine"}},
		{"again after text", []modeltest.Reply{half}, "go", []string{"user go"}, []string{"user go", "assistant fine"}},
		{"again after calls", []modeltest.Reply{modeltest.Call("echo", `{"text":"done"}`), half}, "go",
			[]string{"user go", "assistant ", "tool done"}, []string{"user go", "assistant  +echo", "tool done", "assistant fine"}},
		{"another", []modeltest.Reply{modeltest.Status(401, "no key")}, "stop",
			[]string{"user go", "assistant [no response]", "user stop"}, []string{"user go", "user stop", "assistant fine"}},
		{"another after text", []modeltest.Reply{half}, "stop",
			[]string{"user go", "assistant half an ", "user stop"}, []string{"user go", "assistant half an ", "user stop", "assistant fine"}},
		{"another after calls", []modeltest.Reply{modeltest.Call("echo", `{"text":"done"}`), modeltest.Status(401, "no key")}, "stop",
			[]string{"user go", "assistant ", "tool done", "assistant [no response]", "user stop"},
			[]string{"user go", "assistant  +echo", "tool done", "user stop", "assistant fine"}},
	} {
		for _, restart := range []bool{false, true} {
			r := newRig(t, 100_000, Hooks{})
			r.model.Queue(append(c.replies, modeltest.Say("fine"), modeltest.Say("well"))...)
			if _, err := r.run(t.Context(), "go"); err == nil {
				t.Fatalf("%s: the first turn did not fail", c.name)
			}
			if restart {
				r.reload()
			}
			if _, err := r.run(t.Context(), c.next); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			r.want(c.name+": request", r.sent(), c.sent...)
			r.want(c.name+": file", r.kept(), c.kept...)
			// An answered message may be repeated.
			if _, err := r.run(t.Context(), c.next); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			r.want(c.name+": repeated", r.kept(), append(c.kept, "user "+c.next, "assistant well")...)
		}
	}
}

// TestStreamedText reads the file of a session while the model stalls: text that
// arrived is in it, and the complete message replaces it.
func TestStreamedText(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	r.model.Queue(modeltest.Reply{}.Text("größe ").Stall(0).Text("two"))
	ended := make(chan error)
	go func() {
		_, err := r.run(context.Background(), "go")
		ended <- err
	}()
	gate.Until(t, "the streamed text is in the file", func() bool {
		b, err := os.ReadFile(r.s.Log.Path())
		if err != nil {
			t.Fatal(err)
		}
		return strings.HasSuffix(string(b), `{"role":"user","content":"go"}`+"\n"+`{"turn":{"text":"größe "}}`+"\n")
	})
	c, err := r.s.Log.Context()
	if err != nil || c.Streamed != "größe " || c.Failed || len(c.Messages) != 1 {
		t.Errorf("context after a kill: %+v, %v", c, err)
	}
	r.model.Release()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	r.want("file", r.kept(), "user go", "assistant größe two")
}
