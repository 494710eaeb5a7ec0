package sessionlog_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"

	"github.com/google/go-cmp/cmp"
)

const purgedSecret = "the code of the \"vault\"\nis 47x11"

// forms are strings with the secret.
var forms = []string{purgedSecret, "I know: " + purgedSecret + ".", `{"query":"the code of the \"vault\"\nis 47x11","limit":5}`,
	`[{"n":1},"{\"inner\":\"the code\\u0020of the \\\"vault\\\"\\nis 47x11\"}"]`}

// TestPurge purges random sessions. Afterwards no file contains the secret in any form
// of JSON, each other line is the same, and so are roles, IDs, and calls.
func TestPurge(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := faultfs.NewMem()
		d := get(sessionlog.OpenDir("/s", &sessionlog.Options{FS: m, Sync: sessionlog.SyncNone}))
		planted := 0
		text := func() string {
			switch r.IntN(4) {
			case 0:
				planted++
				return forms[r.IntN(len(forms))]
			case 1:
				return `{"a":"<b>\u00e9"}`
			}
			return fmt.Sprint("text \u2028", r.Uint32())
		}
		l := get(d.Create(sessionlog.Meta{Agent: "a", CreatedBy: "b", Title: strings.Split(text(), "\n")[0]}))
		for i := range r.IntN(12) {
			id := fmt.Sprint("call", i)
			var err error
			switch r.IntN(6) {
			case 0:
				err = l.Append(sessionlog.Message{Role: "user", Content: text()})
			case 1:
				err = l.Append(sessionlog.Message{Role: "assistant", ReasoningContent: text(), ToolCalls: []sessionlog.ToolCall{{ID: id, Function: sessionlog.Function{Name: "bash", Arguments: text()}}}},
					sessionlog.Message{Role: "tool", Content: text(), ToolCallID: id})
			case 2:
				err = l.Compact(text())
			case 3:
				err = l.AppendFailure("model", text())
			case 4:
				err = l.AppendStreamed(text())
			case 5: // in two text records, which the next message replaces
				planted++
				if err = l.AppendStreamed("so the code of the "); err == nil {
					err = l.AppendStreamed("\"vault\"\nis 47x11.")
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		id := l.ID()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		before := sessionLines(t, m, d, id)
		lines, err := d.Purge(id, purgedSecret, "not in it")
		if err != nil || lines > 0 && planted == 0 {
			t.Fatalf("seed %d: %d lines of %d texts: %v", seed, lines, planted, err)
		}
		after := sessionLines(t, m, d, id)
		changed := 0
		for i := range before {
			if before[i] != after[i] {
				changed++
			}
		}
		if len(after) != len(before) || changed != lines {
			t.Fatalf("seed %d: %d lines changed, want %d:\n%s", seed, changed, lines, cmp.Diff(before, after))
		}
		for _, line := range after {
			if strings.Contains(line, "47x11") && strings.Contains(line, "vault") || strings.Contains(line, "is 47x11") {
				t.Fatalf("seed %d: %s", seed, line)
			}
		}
		s := get(d.Read(id))
		if found, err := s.Contains(purgedSecret); found || err != nil {
			t.Errorf("seed %d: the session contains the text: %v", seed, err)
		}
		c := get(s.Check())
		if c.Damaged > 0 || c.Torn > 0 {
			t.Errorf("seed %d: %+v", seed, c)
		}
		s.Close()
		if n, err := d.Purge(id, purgedSecret); n != 0 || err != nil {
			t.Errorf("seed %d: the second purge changed %d lines: %v", seed, n, err)
		}
		l = get(d.Open(id))
		if _, err := l.Context(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if err := l.Append(sessionlog.Message{Role: "user", Content: "next"}); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// sessionLines returns the lines of a session's file.
func sessionLines(t *testing.T, m *faultfs.Mem, d *sessionlog.Dir, id string) []string {
	t.Helper()
	s := get(d.Read(id))
	defer s.Close()
	return strings.Split(string(get(vfs.ReadFile(m, s.Path, 1<<20))), "\n")
}

// TestPurgeCopies purges the trash, and removes other copies.
func TestPurgeCopies(t *testing.T) {
	const meta = `{"agent":"a","created_by":"b","created_at":"2026-04-14T10:23:45+00:00","title":"","uptime_secs":0}` + "\n"
	m := faultfs.NewMem()
	files := map[string]string{
		"/s/.trash/a_b_1.jsonl":         meta + `{"role":"user","content":"a planted text"}` + "\n",
		"/s/.trash/a_b_2.jsonl":         meta + `{"role":"user","content":"another text"}` + "\n",
		"/s/.torn/a_b_3-9.jsonl":        `{"role":"user","content":"a planted te\u0078t, torn: a planted text`,
		"/s/.damaged/a_b_3-0a.jsonl":    meta + "no JSON, a planted text\n",
		"/s/.damaged/a_b_4-0a.jsonl":    meta + "no JSON\n",
		"/s/.kept/a_b_3_kept-0a.jsonl":  meta + `{"role":"tool","content":"{\"r\":\"a planted\\u0020text\"}","tool_call_id":"1"}` + "\n",
		"/s/.kept/a_b_3_lines-0a.jsonl": `{"compact":"a planted text"}` + "\n",
	}
	for name, text := range files {
		if err := vfs.MkdirAll(m, name[:strings.LastIndex(name, "/")], 0o700); err != nil {
			t.Fatal(err)
		}
		m.WriteFile(name, []byte(text), 0o600)
	}
	d := get(sessionlog.OpenDir("/s", &sessionlog.Options{FS: m}))
	want := []string{"/s/.trash/a_b_1.jsonl", "/s/.torn/a_b_3-9.jsonl", "/s/.damaged/a_b_3-0a.jsonl", "/s/.kept/a_b_3_kept-0a.jsonl", "/s/.kept/a_b_3_lines-0a.jsonl"}
	for _, dry := range []bool{true, false} {
		got, err := d.PurgeCopies(dry, "a planted text")
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%v: %q %v", dry, got, err)
		}
		for name, text := range files {
			b, err := vfs.ReadFile(m, name, 1<<20)
			switch {
			case dry || name == "/s/.trash/a_b_2.jsonl" || name == "/s/.damaged/a_b_4-0a.jsonl":
				if string(b) != text || err != nil {
					t.Errorf("%v: %s is %q, %v", dry, name, b, err)
				}
			case name == "/s/.trash/a_b_1.jsonl":
				if string(b) != meta+`{"role":"user","content":"[purged]"}`+"\n" {
					t.Errorf("%s is %q", name, b)
				}
			case err == nil:
				t.Errorf("%s exists: %q", name, b)
			}
		}
	}
	if err := d.Restore("a_b_1"); err != nil {
		t.Error(err)
	}
}

// TestPurgeCrashes stops the machine before each call of a purge. The session is then
// purged or unchanged, and the next purge completes.
func TestPurgeCrashes(t *testing.T) {
	m := faultfs.NewMem()
	d := get(sessionlog.OpenDir("/s", &sessionlog.Options{FS: m}))
	l := get(d.Create(sessionlog.Meta{Agent: "a", CreatedBy: "b"}))
	if err := l.Append(sessionlog.Message{Role: "user", Content: purgedSecret}, sessionlog.Message{Role: "assistant", Content: "yes"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	m.WriteFile("/s/"+sessionlog.VectorFile, []byte("vectors of the text"), 0o600)
	old := sessionLines(t, m, d, "a_b_1")
	var machines []*faultfs.Mem
	m.Hook = func(faultfs.Call) error {
		machines = append(machines, m.Kill(), m.Crash())
		return nil
	}
	if n, err := d.Purge("a_b_1", purgedSecret); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	m.Hook = nil
	purged := sessionLines(t, m, d, "a_b_1")
	if _, err := m.Lstat("/s/" + sessionlog.VectorFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the purge left the vectors of the text: %v", err)
	}
	for i, m := range machines {
		d := get(sessionlog.OpenDir("/s", &sessionlog.Options{FS: m}))
		if got := sessionLines(t, m, d, "a_b_1"); !cmp.Equal(got, old) && !cmp.Equal(got, purged) {
			t.Errorf("crash %d: %q", i, got)
		}
		if _, err := d.Purge("a_b_1", purgedSecret); err != nil {
			t.Errorf("crash %d: %v", i, err)
		}
		if got := sessionLines(t, m, d, "a_b_1"); !cmp.Equal(got, purged) {
			t.Errorf("crash %d: after the next purge %q", i, got)
		}
		list, err := m.ReadDir("/s")
		list = slices.DeleteFunc(list, func(e fs.DirEntry) bool { return e.Name() == sessionlog.VectorFile })
		if err != nil || len(list) != 2 {
			t.Errorf("crash %d: files %v %v", i, list, err)
		}
	}
	if len(machines) < 40 {
		t.Errorf("%d crashes", len(machines))
	}
}

// TestPurgeOpen refuses to purge a session that another process has open.
func TestPurgeOpen(t *testing.T) {
	m := faultfs.NewMem()
	d := get(sessionlog.OpenDir("/s", &sessionlog.Options{FS: m}))
	l := get(d.Create(sessionlog.Meta{Agent: "a", CreatedBy: "b"}))
	defer l.Close()
	if err := l.Append(sessionlog.Message{Role: "user", Content: purgedSecret}); err != nil {
		t.Fatal(err)
	}
	other := get(sessionlog.OpenDir("/s", &sessionlog.Options{FS: m}))
	for _, d := range []*sessionlog.Dir{other, d} {
		if _, err := d.Purge("a_b_1", purgedSecret); err == nil || !strings.Contains(err.Error(), "lock") {
			t.Errorf("%v", err)
		}
	}
	if got := sessionLines(t, m, d, "a_b_1"); !strings.Contains(got[1], "47x11") {
		t.Errorf("%q", got)
	}
}

// TestPurgeStructure purges a text that is also a key, an ID, and in the title. Keys
// and IDs stay, and the file gets another name.
func TestPurgeStructure(t *testing.T) {
	const text = "tool_call_id"
	d := get(sessionlog.OpenDir("/s", &sessionlog.Options{FS: faultfs.NewMem()}))
	l := get(d.Create(sessionlog.Meta{Agent: text, CreatedBy: "b", Title: "the tool_call_id"}))
	if err := l.Append(sessionlog.Message{Role: "assistant", ToolCalls: []sessionlog.ToolCall{{ID: text, Function: sessionlog.Function{Name: "f", Arguments: text}}}},
		sessionlog.Message{Role: "tool", ToolCallID: text, Content: text}); err != nil {
		t.Fatal(err)
	}
	id := l.ID()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Purge(id, text); n != 3 || err != nil {
		t.Error(n, err)
	}
	s := get(d.Read(id))
	defer s.Close()
	c := get(s.Context())
	m := c.Messages
	if s.File != id+"_purged.jsonl" || c.Meta.Title != "[purged]" || c.Meta.Agent != text || len(m) != 2 ||
		m[0].ToolCalls[0].ID != text || m[0].ToolCalls[0].Function.Arguments != "{}" || m[1].ToolCallID != text || m[1].Content != "[purged]" {
		t.Errorf("%s: %+v", s.File, c)
	}
}

// get returns a value, and panics on an error.
func get[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
