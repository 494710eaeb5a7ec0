package sessionlog_test

import (
	"errors"
	"fmt"
	"maps"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
)

// TestImportIsLinear counts the file system calls of imports: the number per
// transcript must not depend on the number of transcripts.
func TestImportIsLinear(t *testing.T) {
	calls := func(n int, again bool) (all, lists int) {
		m, d, _ := onMem(t, sessionlog.Options{})
		run := func() {
			im, err := d.NewImporter(false)
			noErr(t, err)
			for i := range n {
				meta := importedMeta("")
				meta.Source = fmt.Sprint("codex:", i)
				did, err := im.Import(meta, []sessionlog.Item{{Message: user("a")}})
				noErr(t, err)
				if want := fmt.Sprint("codex_user_", i+1); did != (sessionlog.ImportResult{ID: want, Created: !again || all == 0}) {
					t.Fatalf("%+v, want %s", did, want)
				}
			}
			noErr(t, im.Close())
		}
		if again {
			run()
		}
		m.Hook = func(c faultfs.Call) error {
			all++
			if c.Op == "readdir" {
				lists++
			}
			return nil
		}
		all++
		run()
		return all, lists
	}
	for _, again := range []bool{false, true} {
		few, lists := calls(10, again)
		many, more := calls(100, again)
		if lists == 0 || more != lists || many > 11*few {
			t.Errorf("again %v: %d calls for 10, %d for 100; %d and %d listings", again, few, many, lists, more)
		}
	}
}

// TestImportCopies imports pairs of copies of a transcript in both orders: the session
// of a copy that the other extends has all its texts, and two copies that both have
// texts of their own stay two sessions.
func TestImportCopies(t *testing.T) {
	item := func(s string) sessionlog.Item { return sessionlog.Item{Message: user(s)} }
	said := func(s string) sessionlog.Item { return sessionlog.Item{Message: answer(s)} }
	call := func(id, name string) sessionlog.ToolCall {
		return sessionlog.ToolCall{ID: id, Function: sessionlog.Function{Name: name, Arguments: "{}"}}
	}
	calls := func(calls ...sessionlog.ToolCall) sessionlog.Item {
		return sessionlog.Item{Message: sessionlog.Message{Role: "assistant", Content: "look", ToolCalls: calls}}
	}
	result := func(id string) sessionlog.Item {
		return sessionlog.Item{Message: sessionlog.Message{Role: "tool", Content: "ok", ToolCallID: id}}
	}
	type items = []sessionlog.Item
	for name, c := range map[string]struct {
		old, newer items
		differ     bool
	}{
		"continued":                          {old: items{item("a")}, newer: items{item("a"), item("b")}},
		"compacted":                          {old: items{item("a")}, newer: items{item("a"), {Marker: true, Summary: "s"}}},
		"an answer has grown":                {old: items{item("a"), said("b")}, newer: items{item("a"), said("b\n\nc"), item("d")}},
		"a call joined an answered message":  {old: items{calls(call("1", "x")), result("1")}, newer: items{calls(call("1", "x"), call("2", "y")), result("1"), result("2")}},
		"the old version left a message out": {old: items{item("a"), said("b")}, newer: items{item("a"), item("queued"), said("b")}},
		"the new version splits a message":   {old: items{item("a notice\n\nb")}, newer: items{item("a notice"), item("b"), said("c")}},
		"purged":                             {old: items{item("[purged]"), said("b")}, newer: items{item("a key"), said("b"), item("c")}},
		"redacted":                           {old: items{item("use [redacted: token] here")}, newer: items{item("use 123 here"), said("c")}},
		"redacted now":                       {old: items{item("use 123 here")}, newer: items{item("use [redacted: token] here"), said("c")}},
		"two continued it":                   {old: items{item("a"), said("b"), item("c")}, newer: items{item("a"), said("b"), item("d"), said("a long answer")}, differ: true},
		"edited":                             {old: items{item("a"), said("b")}, newer: items{item("a!"), said("b"), item("c")}, differ: true},
		"the last paragraph changed":         {old: items{item("a"), said("b")}, newer: items{item("a"), said("b\nc")}, differ: true},
		"another":                            {old: items{item("a long one")}, newer: items{item("b"), item("c")}, differ: true},
		"another order":                      {old: items{item("a"), item("b")}, newer: items{item("b"), item("a"), item("c")}, differ: true},
		"the answer is the question":         {old: items{item("a")}, newer: items{said("a"), item("b")}, differ: true},
		"a call of another argument":         {old: items{calls(call("1", "x"))}, newer: items{calls(call("1", "y")), result("1")}, differ: true},
	} {
		for i, copies := range [][2]items{{c.old, c.newer}, {c.newer, c.old}} {
			_, d, _ := onMem(t, sessionlog.Options{})
			_, _, err := d.Import(importedMeta("one"), copies[0])
			noErr(t, err)
			im, err := d.NewImporter(false)
			noErr(t, err)
			got, err := im.Import(importedMeta("one"), copies[1])
			noErr(t, err)
			want := sessionlog.ImportResult{ID: "codex_user_1", Updated: i == 0, Older: i == 1}
			if c.differ {
				want = sessionlog.ImportResult{ID: "codex_user_2", Created: true, DiffersFrom: "codex_user_1"}
			}
			if got != want {
				t.Errorf("%s, order %d: %+v, want %+v", name, i, got, want)
			}
			for _, items := range copies {
				if again, err := im.Import(importedMeta("one"), items); again.Created || again.Updated || err != nil {
					t.Errorf("%s, order %d: a repeated import: %+v, %v", name, i, again, err)
				}
			}
			noErr(t, im.Close())
		}
	}
}

// TestImportKeepsPurge imports the unchanged original of a purged session, and of one
// with another title.
func TestImportKeepsPurge(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	items := []sessionlog.Item{{Message: user("my pet is a quokka")}, {Message: answer("b")}}
	id, _, err := d.Import(importedMeta("one"), items)
	noErr(t, err)
	_, err = d.Purge(id, "quokka")
	noErr(t, err)
	before := files(t, m, "/s")
	for _, title := range []string{"one", "two"} {
		if again, changed, err := d.Import(importedMeta(title), items); again != id || changed || err != nil {
			t.Errorf("%s, changed %v, %v", again, changed, err)
		}
	}
	if after := files(t, m, "/s"); !maps.Equal(before, after) {
		t.Errorf("it changed %q to %q", before, after)
	}
}

// TestImportOverDamage imports the original of a corrupt session: bad lines
// must not count for its length.
func TestImportOverDamage(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	items := []sessionlog.Item{{Message: user("a")}, {Message: answer("b")}}
	id, _, err := d.Import(importedMeta(""), items)
	noErr(t, err)
	whole := text(t, m, "/s/codex_user_1.jsonl")
	put(t, m, "/s/codex_user_1.jsonl", whole[:len(whole)-5]+"\x00\x00\x00\x00\x00\x00\x00\x00\n"+"no line\n")
	if again, changed, err := d.Import(importedMeta(""), items); again != id || !changed || err != nil {
		t.Errorf("%s, changed %v, %v", again, changed, err)
	}
	if got := text(t, m, "/s/codex_user_1.jsonl"); got != whole {
		t.Errorf("it holds %q", got)
	}
}

// TestOlderIsDurable imports an older copy where only the page cache has the
// newer one.
func TestOlderIsDurable(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	noErr(t, begin(t, d).Close())
	items := []sessionlog.Item{{Message: user("a")}, {Message: answer("b")}}
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "syncdir" && c.Name == "/s" {
			return syscall.EIO
		}
		return nil
	}
	if _, _, err := d.Import(importedMeta(""), items); !errors.Is(err, sessionlog.ErrUnknown) {
		t.Fatalf("import: %v", err)
	}
	m.Hook = nil
	_, _, err := d.Import(importedMeta(""), items[:1])
	noErr(t, err)
	s, err := dirOn(t, m.Crash(), sessionlog.Options{}).Read("codex_user_1")
	noErr(t, err)
	if i, err := s.Info(); i.Messages != 2 || err != nil {
		t.Errorf("%d messages, %v", i.Messages, err)
	}
	noErr(t, s.Close())
}

// TestImportDuringOtherChanges has another process delete, restore and create sessions
// between two imports of one listing.
func TestImportDuringOtherChanges(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	other := dirOn(t, m, sessionlog.Options{})
	item := []sessionlog.Item{{Message: user("a")}}
	meta := func(n int) sessionlog.Meta {
		m := importedMeta("title")
		m.Source = fmt.Sprint("codex:", n)
		return m
	}
	im, err := d.NewImporter(false)
	noErr(t, err)
	in := func(n int, want string) {
		t.Helper()
		if did, err := im.Import(meta(n), item); did.ID != want || err != nil {
			t.Errorf("imported as %s (%v), want %s", did.ID, err, want)
		}
	}
	in(1, "codex_user_1")
	in(2, "codex_user_2")
	noErr(t, other.Delete("codex_user_1"))
	in(1, "codex_user_3")
	if err := other.Restore("codex_user_1"); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("restored during an import: %v", err)
	}
	if _, _, err := other.Import(meta(3), item); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("imported during an import: %v", err)
	}
	l, err := other.Create(sessionlog.Meta{Agent: "codex", CreatedBy: "user", Title: "mine"})
	noErr(t, err)
	noErr(t, l.Close())
	in(4, "codex_user_5")
	put(t, m, "/s/codex_user_6.jsonl", `{"agent":"codex","created_by":"user","created_at":""}`+"\n") // without a lock
	in(5, "codex_user_7")
	noErr(t, im.Close())
	if list, err := d.List(); len(list) != 6 || err != nil {
		t.Errorf("%d sessions, %v", len(list), err)
	}
	noErr(t, other.Restore("codex_user_1"))
}

// TestImportIntoAnEmptiedFile imports a transcript again after its session lost all
// bytes.
func TestImportIntoAnEmptiedFile(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	im, err := d.NewImporter(false)
	noErr(t, err)
	items := []sessionlog.Item{{Message: user("a")}}
	_, err = im.Import(importedMeta(""), items)
	noErr(t, err)
	m.WriteFile("/s/codex_user_1.jsonl", nil, 0o600)
	got, err := im.Import(importedMeta(""), items)
	noErr(t, err)
	noErr(t, im.Close())
	if want := (sessionlog.ImportResult{ID: "codex_user_1", Updated: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
