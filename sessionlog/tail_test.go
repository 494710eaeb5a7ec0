package sessionlog_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/sessionref"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
	"crabmem/sessionlog/search"

	"github.com/google/go-cmp/cmp"
)

const tailID = "crab_user_1"

// tailed returns a folder with a session of two markers. The second keeps the last four
// messages, one of which is a copy after the first. It also returns the size of the file
// before the second marker.
func tailed(t *testing.T) (m *faultfs.Mem, d *sessionlog.Dir, l *sessionlog.Log, before int) {
	t.Helper()
	m, d, _ = onMem(t, sessionlog.Options{})
	l = get(d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}))
	said := func(s string) sessionlog.Message { return sessionlog.Message{Role: record.RoleAssistant, Content: s} }
	noErr(t, l.AppendWork(startOf("w1")))
	asked := user("which port?")
	asked.Request, asked.Work = "r1", []string{"w1.1"}
	noErr(t, l.Append(user("hello"), said("hi"), asked, said("6688")))
	noErr(t, l.Compact("greeted", asked, said("6688")))
	noErr(t, l.Append(user("zanzibar"), sessionlog.Message{Role: record.RoleAssistant, ToolCalls: []sessionlog.ToolCall{{ID: "c1", Function: sessionlog.Function{Name: "bash", Arguments: "{}"}}}}))
	before = len(text(t, m, l.Path()))
	ms := messages(t, l)
	noErr(t, l.Compact("asked for the port", ms[len(ms)-4:]...))
	noErr(t, l.Close())
	return m, d, l, before
}

func messages(t *testing.T, l interface {
	Context() (*sessionlog.Context, error)
}) []sessionlog.Message {
	t.Helper()
	return get(l.Context()).Messages
}

// texts returns role and content of messages.
func texts(ms []sessionlog.Message) (out []string) {
	for _, m := range ms {
		out = append(out, m.Role+" "+m.Content)
	}
	return out
}

// TestTail compares the lines of a marker with a tail, and the context, with rule S42, and
// with the reader of the reference implementation.
func TestTail(t *testing.T) {
	m, d, l, before := tailed(t)
	file := text(t, m, l.Path())
	want := `{"compact":"asked for the port","keep":4}
{"meta":{"title":"","uptime_secs":0}}
{"work":{"op":"open","next":{"b":1,"w":2}}}
{"role":"assistant","content":"6688","again":true}
{"role":"user","content":"zanzibar","again":true}
{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{}"}}],"again":true}
{"role":"tool","content":"error: no result was recorded for this call","tool_call_id":"c1","again":true}
`
	if diff := cmp.Diff(want, file[before:]); diff != "" {
		t.Errorf("lines of the marker (-want +got):\n%s", diff)
	}
	s := get(d.Read(tailID))
	defer s.Close()
	contents := []string{"user asked for the port", "assistant 6688", "user zanzibar", "assistant ", "tool error: no result was recorded for this call"}
	if diff := cmp.Diff(contents, texts(messages(t, s))); diff != "" {
		t.Errorf("context (-want +got):\n%s", diff)
	}
	var ref []string
	for _, m := range get(sessionref.Read([]byte(file))).Context {
		ref = append(ref, m.Role+" "+m.Content)
	}
	if diff := cmp.Diff(contents, ref); diff != "" {
		t.Errorf("context of the reference (-want +got):\n%s", diff)
	}
	l = get(d.Open(tailID))
	defer l.Close()
	if got := workOf(t, l); got != "1,2" { // w1 was delivered, once
		t.Errorf("open work %q", got)
	}
	if a, ok, err := l.Request("r1"); err != nil || !ok || a.Answer != "6688" || a.Newest {
		t.Errorf("request %+v, %t, %v", a, ok, err)
	}
}

// TestTailOnce reads each message of a session with copies once: in the count, the
// compactions, the search, and a repeated import.
func TestTailOnce(t *testing.T) {
	_, d, _, _ := tailed(t)
	s := get(d.Read(tailID))
	defer s.Close()
	if i := get(s.Info()); i.Messages != 6 {
		t.Errorf("%d messages in the list", i.Messages)
	}
	if c := get(s.Check()); c.Messages != 6 || c.Damaged != 0 {
		t.Errorf("check: %+v", c)
	}
	all := get(s.Compactions())
	var ranges []string
	for _, c := range all {
		var b bytes.Buffer
		noErr(t, s.Expand(c, &b))
		ranges = append(ranges, fmt.Sprintf("%d %d-%d %d", c.Messages, c.FirstLine, c.LastLine, strings.Count(b.String(), `"role"`)))
	}
	if diff := cmp.Diff([]string{"4 2-6 4", "2 12-13 2"}, ranges); diff != "" {
		t.Errorf("compactions (-want +got):\n%s", diff)
	}
	x := get(search.NewIndex(d, nil))
	for _, q := range []string{"zanzibar", "6688"} {
		if r := get(x.Search(t.Context(), search.Query{Text: q})); slices.ContainsFunc(r.Hits, func(h search.Hit) bool { return h.Line > 13 }) || r.Hits[0].Line != map[string]int64{"zanzibar": 12, "6688": 6}[q] {
			t.Errorf("search for %s: %+v", q, r.Hits)
		}
	}
}

// TestTailTorn cuts the file of a session after each byte of the write of a marker with a
// tail. A reader finds the same context before and after the recovery, and the next writer
// completes the write. The same holds if a crash tears the recovery.
func TestTailTorn(t *testing.T) {
	m, _, l, before := tailed(t)
	file := text(t, m, l.Path())
	path := l.Path()
	var compacted []sessionlog.Message
	states := make(map[string]bool)
	for end := before; end <= len(file); end++ {
		m := m.Kill() // a copy
		m.WriteFile(path, []byte(file[:end]), 0o600)
		noErr(t, m.Remove("/s/.locks/"+tailID+".lock"))
		d := get(sessionlog.OpenDir("/s", &sessionlog.Options{FS: m}))
		s := get(d.Read(tailID))
		read := messages(t, s)
		s.Close()
		l := get(d.Open(tailID))
		if diff := cmp.Diff(read, messages(t, l)); diff != "" {
			t.Fatalf("%d bytes: context after the recovery (-before +after):\n%s", end-before, diff)
		}
		noErr(t, l.Close())
		got := text(t, m, path)
		states[strings.Join(texts(read), "\n")] = true
		switch {
		case read[0].Content == "greeted":
			if len(read) != 6 || got != file[:before] {
				t.Fatalf("%d bytes: context %q, file %q", end-before, texts(read), got[before:])
			}
		default:
			if compacted == nil {
				compacted = read
			}
			// A torn open record is not written again.
			rest := strings.Replace(file[before:], `{"work":{"op":"open","next":{"b":1,"w":2}}}`+"\n", "", 1)
			if diff := cmp.Diff(compacted, read); diff != "" || got != file && got[before:] != rest {
				t.Fatalf("%d bytes: file %q, context (-want +got):\n%s", end-before, got[before:], diff)
			}
		}
	}
	if len(states) != 2 || len(compacted) != 5 {
		t.Errorf("%d contexts, want the one before and the one after the marker; %q", len(states), texts(compacted))
	}
}

// TestTailOfOthers reads and completes a torn tail after which another program wrote.
func TestTailOfOthers(t *testing.T) {
	m, d, l, before := tailed(t)
	file := text(t, m, l.Path())
	lines := strings.SplitAfter(file[before:], "\n")
	torn := file[:before] + strings.Join(lines[:4], "") + `{"role":"user","content":"later"}` + "\n"
	m.WriteFile(l.Path(), []byte(torn), 0o600)
	noErr(t, m.Remove("/s/.locks/"+tailID+".lock"))
	want := []string{"user asked for the port", "assistant 6688", "user zanzibar", "assistant ", "tool error: no result was recorded for this call", "user later"}
	s := get(d.Read(tailID))
	read := texts(messages(t, s))
	s.Close()
	l = get(d.Open(tailID))
	after := texts(messages(t, l))
	noErr(t, l.Close())
	if !slices.Equal(read, want) || !slices.Equal(after, want) {
		t.Errorf("contexts\n%q\n%q\nwant\n%q", read, after, want)
	}
	if got := text(t, m, l.Path()); got != torn+strings.Join(lines[4:], "") {
		t.Errorf("file ends with %q", got[len(torn):])
	}
}

// TestTailPurged purges a text of a message and of its copy.
func TestTailPurged(t *testing.T) {
	m, d, l, _ := tailed(t)
	_, err := d.Purge(tailID, "zanzibar")
	noErr(t, err)
	if got := text(t, m, l.Path()); strings.Contains(got, "zanzibar") || strings.Count(got, `"content":"[purged]"`) != 2 || strings.Count(got, record.Copied) != 6 {
		t.Errorf("purged file:\n%s", got)
	}
}

// TestTailLimits refuses a tail that could not be read back.
func TestTailLimits(t *testing.T) {
	_, d, _ := onMem(t, sessionlog.Options{MaxLine: 200})
	l := get(d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}))
	defer l.Close()
	long := user(strings.Repeat("x", 200-len(`{"role":"user","content":""}`)))
	noErr(t, l.Append(long))
	for _, tail := range [][]sessionlog.Message{{long}, {{Role: ""}}, {{Role: record.RoleTool}, user("a")}, make([]sessionlog.Message, record.MaxKept+1)} {
		if err := l.Compact("s", tail...); err == nil {
			t.Errorf("a tail of %d messages was accepted", len(tail))
		}
	}
	if got := messages(t, l); len(got) != 1 {
		t.Errorf("context %q", texts(got))
	}
}
