package sessionlog_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"crabmem/bm25/analysis"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
	"crabmem/sessionlog/search"
)

func startOf(id string) record.Work {
	kind, _ := record.SplitWorkID(id)
	return record.Work{ID: id, Op: record.WorkStart, Kind: kind, Agent: "helper", Session: "helper_work-user_1", Task: "run the <tests> \u2028"}
}

// delivers returns a user message that delivers outcomes.
func delivers(keys ...string) sessionlog.Message {
	m := user("results")
	m.Work = keys
	return m
}

// workOf returns the open work of a session: next branch and worker, and each item with
// the number of its delivered outcomes.
func workOf(t *testing.T, l *sessionlog.Log) string {
	t.Helper()
	o, err := l.OpenWork()
	noErr(t, err)
	s := fmt.Sprintf("%d,%d", o.Next.B, o.Next.W)
	for _, w := range o.Items {
		s += fmt.Sprintf(" %s.%d", w.ID, w.N)
	}
	return s
}

// TestOpenWork writes work, markers of this program and of another one, and compares the
// open work after each line, also after a restart (S36, S39). Each line of work is on
// disk when its write returns.
func TestOpenWork(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := get(d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}))
	asks := startOf("w2")
	asks.Interactive = true
	foreign := func() error {
		noErr(t, l.Close())
		b := text(t, m, l.Path())
		m.WriteFile(l.Path(), []byte(b+`{"compact":"of another program"}`+"\n"+`{"role":"user","content":"go on"}`+"\n"), 0o600)
		l = get(d.Open(l.ID()))
		return nil
	}
	for i, c := range []struct {
		add  func() error
		want string
		tail bool // the work is in the lines after the last marker
	}{
		{func() error { return l.Append(user("go")) }, "1,1", true},
		{func() error { return l.AppendWork(startOf("w1")) }, "1,2 w1.0", true},
		{func() error { return l.AppendWork(asks) }, "1,3 w1.0 w2.0", true},
		{func() error { return l.Compact("one") }, "1,3 w1.0 w2.0", true},
		{func() error { return l.AppendWork(startOf("b1")) }, "2,3 w1.0 w2.0 b1.0", true},
		{func() error { return l.Append(delivers("w2.1", "w1.1")) }, "2,3 w2.1 b1.0", true},
		{func() error { return l.Compact("two") }, "2,3 w2.1 b1.0", true},
		{foreign, "2,3 w2.1 b1.0", false},
		{func() error { return l.AppendWork(startOf("b2")) }, "3,3 w2.1 b1.0 b2.0", false},
		{func() error { return l.Compact("three") }, "3,3 w2.1 b1.0 b2.0", true},
		{func() error { return l.Append(delivers("b1.1", "b2.1")) }, "3,3 w2.1", true},
		{func() error {
			return l.AppendWork(record.Work{Op: record.WorkOpen, Next: &record.WorkNext{B: 3, W: 3}})
		}, "3,3", true},
		{func() error { return l.Compact("four") }, "3,3", true},
		{foreign, "3,3", false},
	} {
		noErr(t, c.add())
		if i > 0 {
			noErr(t, l.AddUptime(1)) // a line that is not synced
		}
		if got := workOf(t, l); got != c.want {
			t.Errorf("step %d: %s, want %s", i, got, c.want)
		}
		noErr(t, l.Close())
		l = get(d.Open(l.ID()))
		if got := workOf(t, l); got != c.want {
			t.Errorf("step %d, after a restart: %s, want %s", i, got, c.want)
		}
		noErr(t, l.Close())
		reads := 0
		l = get(d.Open(l.ID()))
		m.Hook = func(c faultfs.Call) error {
			if strings.HasPrefix(c.Op, "read") {
				reads++
			}
			return nil
		}
		workOf(t, l)
		m.Hook = nil
		if c.tail && reads > 0 {
			t.Errorf("step %d: the open work needs %d reads", i, reads)
		}
	}
	noErr(t, l.AppendWork(startOf("w3")))
	if n := unsynced(m); n > 0 {
		t.Errorf("%d unsynced changes after a start", n)
	}
	for _, w := range []record.Work{{Op: record.WorkRoute}, func() record.Work {
		w := startOf("w4")
		w.Scope = json.RawMessage(strings.Repeat("[", 200) + strings.Repeat("]", 200)) // no reader accepts the line (S5)
		return w
	}()} {
		if err := l.AppendWork(w); !errors.Is(err, sessionlog.ErrInvalid) {
			t.Errorf("an invalid record: %v", err)
		}
	}
	for _, bad := range []sessionlog.Message{delivers("W1"), {Role: "assistant", Work: []string{"w1.1"}}} {
		if err := l.Append(bad); !errors.Is(err, sessionlog.ErrInvalid) {
			t.Errorf("a message with the work %q: %v", bad.Work, err)
		}
	}
	noErr(t, d.Close())
}

// TestMendKeepsWork has a power cut after a durable record of work. Recovery does not
// truncate the file at a bad line before the record (S19).
func TestMendKeepsWork(t *testing.T) {
	end := record.Work{Op: record.WorkEnd, N: 1, State: record.Done, Reason: "outcome", Text: "12 passed"}
	for _, w := range []record.Work{startOf("w1"), end, {Op: record.WorkState, State: record.Running, Attempt: 2}, {Op: record.WorkRoute, N: 1, Text: "main"}} {
		m, d, warned := onMem(t, sessionlog.Options{})
		l := get(d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}))
		noErr(t, l.Append(user("go")))
		noErr(t, l.Append(sessionlog.Message{Role: "tool", Content: "result"}))
		noErr(t, l.AppendWork(w))
		b := text(t, m, l.Path())
		rotten := strings.Replace(b, `"result"`, `"result`, 1)
		m = m.Crash()
		m.WriteFile(l.Path(), []byte(rotten+"\x00\x00"), 0o600)
		noErr(t, m.Kill().SyncDir("/s"))
		after, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m, Warn: func(s string) { *warned = append(*warned, s) }})
		noErr(t, err)
		l = get(after.Open(l.ID()))
		if got := text(t, m, l.Path()); got != rotten {
			t.Errorf("%s: recovery left\n%s\nwarnings %q", w.Op, got, *warned)
		}
		noErr(t, after.Close())
	}
}

// TestWorkFormatExample reads the sessions of FORMAT.md, section Work, and writes their
// lines again.
func TestWorkFormatExample(t *testing.T) {
	doc, err := os.ReadFile("FORMAT.md")
	noErr(t, err)
	blocks := strings.Split(string(doc), "```jsonl\n")
	if len(blocks) != 4 {
		t.Fatalf("FORMAT.md has %d examples, want 3", len(blocks)-1)
	}
	dir, ops := t.TempDir(), map[string]int{}
	for i, name := range []string{"crab_user_1.jsonl", "helper_work-user_1.jsonl"} {
		lines, _, _ := strings.Cut(blocks[2+i], "```")
		writeSession(t, dir, name, strings.TrimSuffix(lines, "\n"))
	}
	d := openDir(t, dir)
	for _, id := range []string{"crab_user_1", "helper_work-user_1"} {
		s := get(d.Read(id))
		if s.ID != id || s.Meta.IsWork() != (id != "crab_user_1") {
			t.Errorf("%s has the ID %s and the meta line %+v", id, s.ID, s.Meta)
		}
		for l, err := range s.Lines(0) {
			noErr(t, err)
			var again []byte
			switch l.Kind {
			case record.KindMessage:
				l.Message.Work = record.WorkKeys(l.Raw)
				again = l.Message.AppendLine(nil)
			case record.KindUnknown:
				w, ok := record.ParseWork(l.Raw)
				if !ok {
					t.Errorf("%s is not a work record", l.Raw)
				}
				ops[w.Op]++
				again = get(w.AppendLine(nil))
			default:
				continue
			}
			if diff := cmp.Diff(string(l.Raw)+"\n", string(again)); diff != "" {
				t.Errorf("written differently: %s", diff)
			}
		}
		noErr(t, s.Close())
	}
	if len(ops) != 6 {
		t.Errorf("the examples have the records %v", ops)
	}
	if got := workOf(t, get(d.Open("crab_user_1"))); got != "1,2 w1.1" {
		t.Errorf("the parent has the work %s", got)
	}
}

// TestChildrenAreSkipped creates a child of a session. Lists, search, and the newest
// session of its sender do not see it, but ListAll, Read, and a purge do (S37).
func TestChildrenAreSkipped(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	x := get(search.NewIndex(d, &search.IndexOptions{Analyzer: analysis.Standard}))
	parent := get(d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user", Project: "p"}))
	of := parent.Meta()
	meta := of.WorkMeta(parent.ID(), "w1", "crab")
	if meta.CreatedBy != "work-user" || meta.Parent != "crab_user_1/w1" || meta.Project != "p" {
		t.Errorf("the child has the meta line %+v", meta)
	}
	meta.Request = "r"
	child := get(d.Create(meta))
	plain := get(d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "work-user", Request: "r"})) // a sender of that name
	for _, l := range []*sessionlog.Log{parent, child, plain} {
		noErr(t, l.Append(user("the lighthouse of "+l.ID())))
	}
	noErr(t, child.SetTitle("on the lighthouse"))
	if child.ID() != "crab_work-user_1" || plain.ID() != "crab_work-user_2" {
		t.Errorf("IDs %s and %s", child.ID(), plain.ID())
	}
	ids := func(infos []sessionlog.Info, err error) (ids []string) {
		noErr(t, err)
		for _, i := range infos {
			ids = append(ids, i.ID)
		}
		return ids
	}
	check := func(when string, x *search.Index) {
		t.Helper()
		if got := ids(d.List()); !slices.Equal(got, []string{"crab_user_1", "crab_work-user_2"}) {
			t.Errorf("%s: listed %q", when, got)
		}
		if got := ids(d.ListAll()); !slices.Equal(got, []string{"crab_user_1", "crab_work-user_1", "crab_work-user_2"}) {
			t.Errorf("%s: all are %q", when, got)
		}
		noErr(t, x.Refresh())
		r := get(x.Search(context.Background(), search.Query{Text: "lighthouse"}))
		var found []string
		for _, h := range r.Hits {
			found = append(found, h.ID)
		}
		if slices.Sort(found); !slices.Equal(found, []string{"crab_user_1", "crab_work-user_2"}) {
			t.Errorf("%s: found %q", when, found)
		}
	}
	check("in this process", x)
	fresh := get(sessionlog.OpenDir("/s", &sessionlog.Options{FS: m}))
	y := get(search.NewIndex(fresh, &search.IndexOptions{Analyzer: analysis.Standard}))
	check("in another process", y)
	noErr(t, plain.Close())
	noErr(t, d.Delete(plain.ID()))
	if id, err := d.Latest("crab", "work-user", ""); !errors.Is(err, sessionlog.ErrNotFound) {
		t.Errorf("the newest session is %q, %v", id, err)
	}
	if id, err := d.CreatedFor("crab", "work-user", "r"); !errors.Is(err, sessionlog.ErrNotFound) {
		t.Errorf("created for the request: %q, %v", id, err)
	}
	noErr(t, child.Close())
	if n, err := d.Purge("crab_work-user_1", "lighthouse"); n == 0 || err != nil {
		t.Errorf("purged %d lines, %v", n, err)
	}
	noErr(t, d.Delete("crab_work-user_1"))
	if got := ids(d.Trashed()); !slices.Equal(got, []string{"crab_work-user_2"}) {
		t.Errorf("in the trash: %q", got)
	}
	noErr(t, errors.Join(x.Close(), y.Close(), fresh.Close(), d.Close()))
}

// TestPurgeKeepsWork purges words that are also states, kinds, and keys of work.
func TestPurgeKeepsWork(t *testing.T) {
	_, d, _ := onMem(t, sessionlog.Options{})
	m := sessionlog.Meta{Agent: "crab", CreatedBy: "user"}
	l := get(d.Create(m.WorkMeta("crab_user_1", "w1", "done")))
	s := startOf("w1")
	s.Task = "it is done by a worker"
	noErr(t, l.AppendWork(s))
	noErr(t, l.Append(delivers("w1.1")))
	noErr(t, l.AppendWork(record.Work{Op: record.WorkEnd, N: 1, State: record.Done, Reason: "outcome", Text: "done with the outcome"}))
	id := l.ID()
	noErr(t, l.Close())
	if n, err := d.Purge(id, "done", "worker", "w1", "outcome", "start"); err != nil || n != 2 {
		t.Errorf("%d lines, %v", n, err)
	}
	r := get(d.Read(id))
	var got []string
	for l, err := range r.Lines(0) {
		noErr(t, err)
		got = append(got, string(l.Raw))
	}
	want := []string{
		`{"agent":"done","created_by":"work-user","created_at":"2026-04-14T12:00:00+00:00","title":"","uptime_secs":0,"parent":"crab_user_1/w1"}`,
		`{"work":{"id":"w1","op":"start","kind":"worker","agent":"helper","session":"helper_work-user_1","task":"[purged]"}}`,
		`{"role":"user","content":"results","work":["w1.1"]}`,
		`{"work":{"op":"end","n":1,"state":"done","reason":"outcome","text":"[purged]"}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	noErr(t, errors.Join(r.Close(), d.Close()))
}

// TestFlushes writes flushes between messages, and reads them again, also after a marker with
// a tail and a restart. A flush changes neither the messages nor the open work.
func TestFlushes(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := get(d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}))
	note := record.Note{Name: "tea", Content: "green <leaves>", Aliases: []string{}, Was: strings.Repeat("0", 64)}
	flush := func(n int, upto int64, notes ...record.Note) error {
		return l.AppendWork(record.Work{Op: record.WorkFlush, N: n, Upto: upto, Notes: notes})
	}
	check := func(flushes int, last int64, messages int) {
		t.Helper()
		s := get(d.Read(l.ID()))
		list, line, left, err := s.Flushes()
		noErr(t, errors.Join(err, s.Close()))
		if len(list) != flushes || line != last || left != messages {
			t.Errorf("%d flushes, last line %d, %d messages; want %d, %d, %d", len(list), line, left, flushes, last, messages)
		}
		if flushes > 0 && !cmp.Equal(list[0].Notes, []record.Note{note}) {
			t.Errorf("notes %+v", list[0].Notes)
		}
		if c := get(l.Context()); slices.ContainsFunc(c.Messages, func(m sessionlog.Message) bool { return strings.Contains(m.Content, "leaves") }) {
			t.Error("the context has a note")
		}
	}
	check(0, 1, 0)
	noErr(t, l.Append(user("a"), answer("b"), user("c")))
	check(0, 4, 3)
	noErr(t, errors.Join(flush(1, 3, note), l.Append(answer("d"))))
	check(1, 6, 2) // without results
	noErr(t, l.Append(sessionlog.Message{Role: "tool", Content: "found"}))
	check(1, 7, 2)
	if b := text(t, m.Crash(), l.Path()); !strings.Contains(b, "green <leaves>") {
		t.Error("the flush is not durable")
	}
	noErr(t, l.Compact("summary", answer("b"), user("c"), answer("d")))
	noErr(t, l.Append(user("e")))
	check(1, 13, 3)
	noErr(t, errors.Join(flush(2, 13), l.Close()))
	l = get(d.Open(l.ID()))
	check(2, 14, 0)
	if got := workOf(t, l); got != "1,1" {
		t.Errorf("open work %s", got)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("black\n")))
	noErr(t, errors.Join(flush(3, 14, record.Note{Name: "drink", Content: "now green", Was: sum}), l.Close()))
	if n, err := d.Purge(l.ID(), "leaves", "black", "drink", "flush", "upto"); err != nil || n != 2 {
		t.Errorf("purged %d lines, %v", n, err)
	}
	if b := text(t, m, l.Path()); strings.Contains(b, "leaves") || strings.Contains(b, sum) || !strings.Contains(b, `"notes":[{"name":"[purged]","content":"now green","was":"[purged]"}]`) {
		t.Errorf("after a purge: %s", b)
	}
	noErr(t, d.Close())
}

// TestQuestions writes questions, markers, and a marker of another program, and compares the
// open question after each line, also after a restart (S41). Each line is on disk when its
// write returns. A session without work and questions has no open record.
func TestQuestions(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := get(d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}))
	ask := func(n int) record.Work {
		return record.Work{Op: record.WorkAsk, N: n, Text: fmt.Sprint("tea ", n, "?"), To: "user"}
	}
	for i, c := range []struct {
		add  func() error
		want string
	}{
		{func() error {
			return l.AppendWork(record.Work{Op: record.WorkEnd, N: 1, State: record.Done, Reason: "outcome"})
		}, "0"},
		{func() error { return l.Compact("nothing") }, "0"},
		{func() error { return l.AppendWork(ask(1)) }, "1 tea 1?:"},
		{func() error { return l.Compact("one") }, "1 tea 1?:"},
		{func() error { return l.AppendWork(record.Work{Op: record.WorkAnswer, N: 1, Text: "green"}) }, "1 tea 1?:green"},
		{func() error { return l.Compact("two") }, "1 tea 1?:green"},
		{func() error { return l.Append(delivers("q1.1")) }, "1"},
		{func() error { return l.AppendWork(ask(2)) }, "2 tea 2?:"},
		{func() error {
			noErr(t, l.Close())
			m.WriteFile(l.Path(), []byte(text(t, m, l.Path())+`{"compact":"of another program"}`+"\n"), 0o600)
			l = get(d.Open(l.ID()))
			return nil
		}, "2 tea 2?:"},
		{func() error { return l.AppendWork(record.Work{Op: record.WorkUse, N: 2, Call: "x"}) }, "2"},
		{func() error { return l.Compact("three") }, "2"},
	} {
		noErr(t, c.add())
		restarted := get(sessionlog.OpenDir(d.Path(), &sessionlog.Options{FS: m.Crash()}))
		for _, l := range []*sessionlog.Log{l, get(restarted.Open(l.ID()))} {
			o := get(l.OpenWork())
			got := fmt.Sprint(o.Asks)
			if o.Ask != nil {
				got += " " + o.Ask.Text + ":" + o.Ask.Answer
			}
			if got != c.want {
				t.Errorf("step %d: %s, want %s", i, got, c.want)
			}
		}
		if file := text(t, m, l.Path()); i == 1 && strings.Contains(file, `"op":"open"`) {
			t.Error(file)
		}
	}
}
