package corrupt

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/fault"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

const sessions = "/d/sessions"

// sessionRun executes a fixed history on a session, and compares the lines that
// it reads.
type sessionRun struct {
	m        *faultfs.Mem
	step     string
	want     []string // the context after the history; nil = not compared
	messages []string // errors and warnings
	got      []string // the last context
	silent   string   // context that differs from want, without an error or a warning
}

func (r *sessionRun) options() *sessionlog.Options {
	return &sessionlog.Options{FS: r.m, Sync: sessionlog.SyncAll, Warn: func(w string) { r.messages = append(r.messages, w) }}
}

// do runs a step unless an earlier one failed.
func (r *sessionRun) do(step string, f func() error) {
	if r.step = step; len(r.messages) == 0 {
		if err := f(); err != nil {
			r.messages = append(r.messages, err.Error())
		}
	}
}

func sessionContext(c *sessionlog.Context) []string {
	list := []string{fmt.Sprintf("%+v", c.Meta)}
	for i := range c.Messages {
		list = append(list, fmt.Sprintf("%+v", c.Messages[i]))
	}
	return list
}

// play executes the history and returns the session ID.
func (r *sessionRun) play() (id string) {
	var d *sessionlog.Dir
	var l *sessionlog.Log
	open := func() (err error) {
		if d, err = sessionlog.OpenDir(sessions, r.options()); err == nil && id != "" {
			l, err = d.Open(id)
		}
		return err
	}
	add := func(step, role, text string) {
		r.do(step, func() error { return l.Append(sessionlog.Message{Role: role, Content: text}) })
	}
	r.do("open folder", open)
	r.do("create", func() (err error) {
		l, err = d.Create(sessionlog.Meta{Agent: "a", CreatedBy: "u", CreatedAt: "2026-04-14T10:23:45+00:00"})
		if err == nil {
			id = l.ID()
		}
		return err
	})
	add("first question", record.RoleUser, "first")
	r.do("compact", func() error { return l.Compact("summary") })
	add("long question", record.RoleUser, strings.Repeat("a long question; ", 200))
	add("answer", record.RoleAssistant, "answer")
	r.do("title", func() error { return l.SetTitle("title") })
	r.do("close", func() error { return l.Close() })
	r.do("close folder", func() error { return d.Close() })
	r.do("reopen", open)
	add("last question", record.RoleUser, "second")
	r.do("read", func() error { return r.compare(l) })
	return id
}

// check reads the session after a kill or a power cut.
func (r *sessionRun) check(m *faultfs.Mem, id string) {
	m.Hook, r.m = nil, m
	report := func(err error) {
		if err != nil {
			r.messages = append(r.messages, err.Error())
		}
	}
	d, err := sessionlog.OpenDir(sessions, r.options())
	report(err)
	if err != nil {
		return
	}
	l, err := d.Open(id)
	report(err)
	if err != nil {
		return
	}
	report(r.compare(l))
	report(l.Close())
	report(d.Close())
}

// compare compares the context of a session with want. It does not compare after
// an error, a warning, or a reported loss of lines.
func (r *sessionRun) compare(l *sessionlog.Log) error {
	c, err := l.Context()
	if err != nil || c.Torn > 0 || c.Damaged > 0 || len(r.messages) > 0 {
		return err
	}
	r.got = sessionContext(c)
	if r.want != nil && !slices.Equal(r.got, r.want) && r.silent == "" {
		r.silent = fmt.Sprintf("%.300q", r.got)
	}
	return nil
}

func newSessionRun(t *testing.T, want []string) *sessionRun {
	t.Helper()
	r := &sessionRun{m: faultfs.NewMem(), want: want}
	r.m.Now = func() time.Time { return time.Unix(1_776_162_225, 0) }
	if err := r.m.Mkdir("/d", 0o700); err != nil {
		t.Fatal(err)
	}
	return r
}

// A session file has no checksum. If a corruption leaves complete lines of valid
// JSON, a reader cannot detect it.
const validLines = "the lines are valid"

// undetectedInSessions lists the cases without an error or a warning. A key has the
// step and the corruption. The value is the reason.
var undetectedInSessions = map[string]string{
	"create | write, middle bit":              validLines,
	"last question | write, middle bit":       validLines,
	"long question | write, block twice":      validLines,
	"long question | write, blocks exchanged": validLines,
	"long question | write, middle bit":       validLines,
	"read | read, block twice":                validLines,
	"read | read, blocks exchanged":           validLines,
	"read | read, middle bit":                 validLines,
	"title | write, middle bit":               validLines,
}

// TestSessionCorruption corrupts one read or write of a session per run.
func TestSessionCorruption(t *testing.T) {
	r := newSessionRun(t, nil)
	r.play()
	want := r.got
	if len(r.messages) > 0 || len(want) != 5 {
		t.Fatalf("run without corruption: %q, %q", r.messages, want)
	}
	cases, detected, found := 0, 0, map[string]int{}
	for _, c := range fault.Corruptions() {
		for n := 1; ; n++ {
			f := &fault.Corrupting{}
			reported, silent, at := false, "", ""
			for _, end := range []func(*faultfs.Mem) *faultfs.Mem{(*faultfs.Mem).Kill, func(m *faultfs.Mem) *faultfs.Mem { return m.Crash() }} {
				*f = fault.Corrupting{Corruption: c, N: n}
				r := newSessionRun(t, want)
				r.m.Hook = func(k faultfs.Call) error {
					hit := f.Hit
					err := f.Hook(k)
					if f.Hit == n && hit < n {
						at = r.step
					}
					return err
				}
				id := r.play()
				r.check(end(r.m), id)
				reported = reported || len(r.messages) > 0
				silent += r.silent
			}
			if f.Hit < n {
				break
			}
			cases++
			if reported {
				detected++
			}
			if silent == "" {
				continue
			}
			key := at + " | " + c.Name
			found[key]++
			if undetectedInSessions[key] == "" {
				t.Errorf("%s of %s: no error and no warning: %s", key, f.At.Name, silent)
			}
		}
	}
	for key := range undetectedInSessions {
		if found[key] == 0 {
			t.Errorf("%q was detected: remove it from the list", key)
		}
	}
	t.Logf("corrupt calls: %d cases, %d reported, %d undetectable", cases, detected, len(found))
}
