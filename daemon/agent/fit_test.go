package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// TestLongResultGoesToAFile checks that an agent with a role receives the beginning and
// the end of a long result, and that a file has all of it.
func TestLongResultGoesToAFile(t *testing.T) {
	long := "first line\n" + strings.Repeat("0123456789\n", 3000) + "last line"
	command, _ := json.Marshal(map[string]any{"exit_code": 3, "stdout": long, "stderr": "warned"})
	r := newRig(t, 100_000, Hooks{})
	files := map[string]string{}
	fails := false
	r.KeepResult = func(name, text string) error {
		if fails {
			return errors.New("disk full")
		}
		files[name] = text
		return nil
	}
	r.Tools.Add(tool.New(tool.Bash, "Runs.", func(context.Context, tool.Call, struct{}) (string, error) { return string(command), nil }))
	r.Tools.Add(tool.New(tool.Read, "Reads.", func(context.Context, tool.Call, struct{}) (string, error) { return long, nil }))
	r.s.Results = "/home/results/x"
	kept := func(name, args string) string {
		t.Helper()
		r.model.Queue(modeltest.Call(name, args), modeltest.Say("done"))
		if _, err := r.run(t.Context(), "go"); err != nil {
			t.Fatal(err)
		}
		return r.s.Messages[len(r.s.Messages)-2].Content
	}
	echo := func(text string) string {
		args, _ := json.Marshal(map[string]string{"text": text})
		return kept("echo", string(args))
	}
	if got := echo(long); got != long || len(files) > 0 {
		t.Errorf("without a role: %d bytes, %d files", len(got), len(files))
	}
	r.agent.Offers = func(string) bool { return true }
	args, _ := json.Marshal(map[string]string{"text": long})
	for _, c := range []struct{ tool, args, file, first, last string }{
		{"echo", string(args), long, "first line\n", "\nlast line"},
		{tool.Bash, "{}", "exit_code: 3\nstderr:\nwarned\nstdout:\n" + long, "exit_code: 3\n", "\nlast line"},
	} {
		clear(files)
		got := kept(c.tool, c.args)
		for name, text := range files {
			if text != c.file || !strings.HasPrefix(name, "/home/results/x/") || !strings.Contains(got, "all of it is in "+name+" ") {
				t.Errorf("%s has %d bytes; the message is\n%s", name, len(text), got)
			}
		}
		if len(files) != 1 || len(got) > maxResult || !strings.HasPrefix(got, c.first) || !strings.HasSuffix(got, c.last) {
			t.Errorf("%d files, %d bytes in the message", len(files), len(got))
		}
	}
	clear(files)
	if got := kept(tool.Read, "{}"); len(files) > 0 || len(got) > maxResult || !strings.Contains(got, "read less of it") {
		t.Errorf("read: %d files, %d bytes", len(files), len(got))
	}
	if got := echo(long[:maxResult]); got != long[:maxResult] || len(files) > 0 {
		t.Errorf("16 KiB: %d bytes, %d files", len(got), len(files))
	}
	fails = true
	if got := echo(long); got != long {
		t.Errorf("without a file: %d bytes", len(got))
	}
}

// TestRequestThatDoesNotFit checks that a request above the model's context is not
// sent for an agent with a role: the session is compacted, or the run fails with the
// figures.
func TestRequestThatDoesNotFit(t *testing.T) {
	const limit = 10_000
	for _, c := range []struct {
		name      string
		role      bool
		threshold int
		history   int
		content   int
		requests  int
		largest   bool // a request above the limit
		fails     bool
	}{
		{"compacted", true, DefaultThreshold, 60_000, 100, 2, false, false},
		{"refused without compaction", true, 0, 60_000, 100, 0, false, true},
		{"fits", true, DefaultThreshold, 8_000, 100, 1, false, false},
		{"no role", false, 0, 60_000, 100, 1, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, limit, Hooks{})
			r.s.Log, r.agent.CompactThreshold = nil, c.threshold
			if c.role {
				r.agent.Offers = func(string) bool { return true }
			}
			r.s.Messages = []sessionlog.Message{{Role: record.RoleUser, Content: strings.Repeat("x", c.history)}, {Role: record.RoleAssistant, Content: "fine"}}
			r.model.Func(func(q modeltest.Request) modeltest.Reply { return modeltest.Say("short") })
			_, err := r.run(t.Context(), strings.Repeat("y", c.content))
			if errors.Is(err, model.ErrOverflow) != c.fails || !c.fails && err != nil {
				t.Fatal(err)
			}
			if c.fails && !(strings.Contains(err.Error(), fmt.Sprint(limit)) && strings.Contains(err.Error(), "about 15")) {
				t.Errorf("no figures: %v", err)
			}
			large := false
			for _, q := range r.model.Requests() {
				n := 0
				for _, m := range q.Messages {
					n += len(m.Content)
				}
				large = large || n/bytesPerToken > limit
			}
			if n := len(r.model.Requests()); n != c.requests || large != c.largest {
				t.Errorf("%d requests, above the limit: %v", n, large)
			}
		})
	}
}
