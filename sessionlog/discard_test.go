package sessionlog_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
)

// TestDiscard discards sessions: only one that has no line but its meta line (S33)
// and no other user is removed.
func TestDiscard(t *testing.T) {
	lines := map[string]func(l *sessionlog.Log) error{
		"message":  func(l *sessionlog.Log) error { return l.Append(user("hi")) },
		"title":    func(l *sessionlog.Log) error { return l.SetTitle("t") },
		"failure":  func(l *sessionlog.Log) error { return l.AppendFailure("model", "no key") },
		"text":     func(l *sessionlog.Log) error { return l.AppendStreamed("half") },
		"run time": func(l *sessionlog.Log) error { return l.AddUptime(1) },
		"marker":   func(l *sessionlog.Log) error { return l.Compact("sum") },
		"nothing":  func(*sessionlog.Log) error { return nil },
	}
	for name, add := range lines {
		m, d, warnings := onMem(t, sessionlog.Options{})
		l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user", Title: "which port"})
		noErr(t, err)
		noErr(t, add(l))
		removed, err := l.Discard()
		noErr(t, err)
		if removed != (name == "nothing") {
			t.Errorf("%s: removed %v", name, removed)
		}
		infos, err := d.List()
		noErr(t, err)
		if left := len(infos); left != 1 && !removed || left != 0 && removed {
			t.Errorf("%s: %d sessions left", name, left)
		}
		if n := unsynced(m); n != 0 {
			t.Errorf("%s: %d changes are not on disk", name, n)
		}
		if err := l.Append(user("late")); !errors.Is(err, sessionlog.ErrClosed) {
			t.Errorf("%s: append after Discard: %v", name, err)
		}
		_, err = d.Open("crab_user_1")
		if removed && (!errors.Is(err, sessionlog.ErrNotFound) || strings.Contains(err.Error(), "lock file")) {
			t.Errorf("open after the removal: %v", err)
		}
		next := begin(t, d)
		if want := map[bool]string{true: "crab_user_1", false: "crab_user_2"}[removed]; next.ID() != want {
			t.Errorf("%s: the next session is %s", name, next.ID())
		}
		noErr(t, d.Close())
		if len(*warnings) > 0 {
			t.Errorf("%s: %q", name, *warnings)
		}
	}
}

// TestDiscardUsed discards a session that has another user, which keeps it.
func TestDiscardUsed(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	other := reopen(t, d, l.ID())
	if removed, err := l.Discard(); removed || err != nil {
		t.Fatalf("removed %v: %v", removed, err)
	}
	noErr(t, other.Append(user("hi")))
	noErr(t, other.Close())
	if got := text(t, m, "/s/crab_user_1.jsonl"); !strings.HasSuffix(got, `"content":"hi"}`+"\n") {
		t.Errorf("file: %s", got)
	}
}

// TestDiscardDisplaced replaces the file before it is discarded: the other program's
// file stays.
func TestDiscardDisplaced(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, m.Remove("/s/crab_user_1.jsonl"))
	m.WriteFile("/s/crab_user_1.jsonl", []byte(metaLine), 0o600)
	if removed, err := l.Discard(); removed || !errors.Is(err, sessionlog.ErrDisplaced) {
		t.Errorf("removed %v: %v", removed, err)
	}
	if got := text(t, m, "/s/crab_user_1.jsonl"); got != metaLine {
		t.Errorf("file: %q", got)
	}
}

// TestDiscardFails fails each call of Discard once. The session stays or is gone,
// and can be created or opened again.
func TestDiscardFails(t *testing.T) {
	for n := 0; ; n++ {
		m, d, _ := onMem(t, sessionlog.Options{})
		l := begin(t, d)
		calls, failed := 0, ""
		m.Hook = func(c faultfs.Call) error {
			if calls++; calls == n+1 {
				failed = c.Op
				return errors.New("sick disk")
			}
			return nil
		}
		removed, err := l.Discard()
		m.Hook = nil
		if failed == "" {
			if !removed || err != nil || n < 3 {
				t.Errorf("without a failure of %d calls: removed %v, %v", n, removed, err)
			}
			return
		}
		names, lerr := d.List()
		noErr(t, lerr)
		if removed && len(names) != 0 {
			t.Errorf("%s fails: removed, but the file exists", failed)
		}
		if !removed && len(names) == 1 {
			l := reopen(t, d, names[0].ID)
			noErr(t, l.Append(user("hi")))
		}
		l = begin(t, d)
		noErr(t, l.Append(user("hi")))
		noErr(t, l.Close())
		noErr(t, d.Close())
	}
}

// TestDiscardCrashes cuts the power before each call of Discard: the session without
// messages is there or not, and the next one can be created.
func TestDiscardCrashes(t *testing.T) {
	for _, outcome := range []faultfs.Outcome{faultfs.Lost, faultfs.Kept} {
		m, d, _ := onMem(t, sessionlog.Options{})
		l := begin(t, d)
		var left []*faultfs.Mem
		m.Hook = func(faultfs.Call) error {
			left = append(left, m.Crash(slices.Repeat([]faultfs.Outcome{outcome}, len(m.Unsynced()))...))
			return nil
		}
		if removed, err := l.Discard(); !removed || err != nil {
			t.Fatalf("removed %v: %v", removed, err)
		}
		m.Hook = nil
		gone := 0
		for _, m := range append(left, m.Crash()) {
			d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m})
			noErr(t, err)
			infos, err := d.List()
			noErr(t, err)
			switch len(infos) {
			case 0:
				gone++
			case 1:
				if infos[0].Damaged > 0 || infos[0].Torn > 0 || infos[0].Messages != 0 {
					t.Errorf("session %+v", infos[0])
				}
				noErr(t, reopen(t, d, infos[0].ID).Append(user("hi")))
			default:
				t.Errorf("sessions %+v", infos)
			}
			noErr(t, begin(t, d).Append(user("hi")))
			noErr(t, d.Close())
		}
		if gone == 0 || gone > len(left) {
			t.Errorf("%v: gone in %d of %d states", outcome, gone, len(left)+1)
		}
	}
}

// TestReplaceTitle replaces a title that is the expected one only.
func TestReplaceTitle(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	var got []bool
	for _, c := range [][2]string{{"", "first"}, {"", "late"}, {"other", "late"}, {"first", "second"}} {
		set, err := l.ReplaceTitle(c[0], c[1])
		noErr(t, err)
		got = append(got, set)
	}
	if want := []bool{true, false, false, true}; !slices.Equal(got, want) || l.Meta().Title != "second" {
		t.Errorf("set %v, title %q", got, l.Meta().Title)
	}
	if n := strings.Count(text(t, m, l.Path()), "\n"); n != 3 {
		t.Errorf("%d lines", n)
	}
}
