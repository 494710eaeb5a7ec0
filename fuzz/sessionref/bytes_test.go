package sessionref_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"crabmem/sessionlog"
)

// TestBytes checks that sessionlog writes the same bytes as serde_json, except that
// it also writes empty arguments.
func TestBytes(t *testing.T) {
	for _, c := range messageLines {
		m := toSessionlog(c.message)
		if got := string(m.AppendLine([]byte("x"))); got != "x"+c.line+"\n" {
			t.Errorf("wrote %s\nwant  %s", got, c.line)
		}
		if got, err := m.MarshalJSON(); err != nil || string(got) != c.line {
			t.Errorf("marshaled %s, %v\nwant %s", got, err, c.line)
		}
		for _, line := range []string{c.line, c.bug} {
			if line == "" {
				continue
			}
			var back sessionlog.Message
			if err := json.Unmarshal([]byte(line), &back); err != nil {
				t.Errorf("%s: %v", line, err)
			} else if diff := cmp.Diff(m, back); diff != "" {
				t.Errorf("%s (-want +got):\n%s", line, diff)
			}
		}
	}
	for _, c := range markerLines {
		if got := appended(t, func(l *sessionlog.Log) error { return l.Compact(c.summary) }); !strings.HasPrefix(got, c.line+"\n") {
			t.Errorf("wrote %s\nwant  %s", got, c.line)
		}
	}
	for _, c := range metaLines {
		m := sessionlog.Meta{Agent: c.meta.Agent, CreatedBy: c.meta.CreatedBy, CreatedAt: c.meta.CreatedAt, Title: c.meta.Title, UptimeSecs: c.meta.UptimeSecs}
		if got := string(m.AppendLine(nil)); got != c.line+"\n" {
			t.Errorf("wrote %s\nwant  %s", got, c.line)
		}
		var back sessionlog.Meta
		if err := json.Unmarshal([]byte(c.line), &back); err != nil || back != m {
			t.Errorf("%s: read as %v, %v", c.line, back, err)
		}
	}
	const record = `{"meta":{"title":"Which port","uptime_secs":12}}` + "\n"
	if got := appended(t, func(l *sessionlog.Log) error { return errors.Join(l.AddUptime(12), l.SetTitle("Which port")) }); !strings.HasSuffix(got, "\n"+record) {
		t.Errorf("wrote %s\nwant  %s", got, record)
	}

	// Check the defaults, and the fields that are not written.
	m := sessionlog.Message{Role: "user", Content: "x", Sender: "tg:1", Injected: true, ToolCalls: []sessionlog.ToolCall{{}}}
	const line = `{"role":"user","content":"x","tool_calls":[{"type":"function","function":{"arguments":""}}]}` + "\n"
	if got := string(m.AppendLine(nil)); got != line {
		t.Errorf("wrote %s\nwant  %s", got, line)
	}
	t.Logf("lines: %d messages, %d markers, %d metas", len(messageLines), len(markerLines), len(metaLines))
}

// appended returns the lines that a call appends to a new session.
func appended(t *testing.T, call func(*sessionlog.Log) error) string {
	t.Helper()
	d, err := sessionlog.OpenDir(t.TempDir(), &sessionlog.Options{Sync: sessionlog.SyncNone})
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(call(l), l.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(l.Path())
	if err != nil {
		t.Fatal(err)
	}
	_, lines, _ := strings.Cut(string(b), "\n")
	return lines
}
