package sessionref_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// TestBytes checks that sessionlog writes the same bytes as serde_json, except that
// it also writes empty arguments.
func TestBytes(t *testing.T) {
	meta := sessionlog.Meta{Agent: "crab"}
	for _, c := range messageLines {
		m := toSessionlog(c.message)
		if got := string(m.AppendLine([]byte("x"))); got != "x"+c.line+"\n" {
			t.Errorf("wrote %s\nwant  %s", got, c.line)
		}
		for _, line := range []string{c.line, c.bug} {
			if line == "" {
				continue
			}
			back := lastLine(t, string(meta.AppendLine(nil))+line+"\n")
			if diff := cmp.Diff(m, back.Message); diff != "" || back.Kind != record.KindMessage {
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
		if back := lastLine(t, c.line+"\n"); back.Kind != record.KindMeta || back.Meta != m {
			t.Errorf("%s: read as %v, %v", c.line, back.Kind, back.Meta)
		}
	}
	const title = `{"meta":{"title":"Which port","uptime_secs":12}}` + "\n"
	if got := appended(t, func(l *sessionlog.Log) error { return errors.Join(l.AddUptime(12), l.SetTitle("Which port")) }); !strings.HasSuffix(got, "\n"+title) {
		t.Errorf("wrote %s\nwant  %s", got, title)
	}

	// Check the defaults, and the fields that are not written.
	m := sessionlog.Message{Role: "user", Content: "x", Sender: "tg:1", Injected: true, ToolCalls: []sessionlog.ToolCall{{}}}
	const line = `{"role":"user","content":"x","tool_calls":[{"type":"function","function":{"arguments":""}}]}` + "\n"
	if got := string(m.AppendLine(nil)); got != line {
		t.Errorf("wrote %s\nwant  %s", got, line)
	}
	t.Logf("lines: %d messages, %d markers, %d metas", len(messageLines), len(markerLines), len(metaLines))
}

// lastLine reads the last line of a session.
func lastLine(t *testing.T, file string) (last sessionlog.Line) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "crab_user_1.jsonl"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := sessionlog.OpenDir(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Read("crab_user_1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for l, err := range s.Lines(0) {
		if err != nil {
			t.Fatal(err)
		}
		last = l
	}
	return last
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
