package sessionlog_test

import (
	"errors"
	"fmt"
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

// TestImportCopies imports copies of a transcript in every order: the newest
// stays.
func TestImportCopies(t *testing.T) {
	item := func(s string) sessionlog.Item { return sessionlog.Item{Message: user(s)} }
	for name, copies := range map[string][][]sessionlog.Item{
		"continued":                {{item("a")}, {item("a"), item("b")}, {item("a"), item("b"), {Marker: true, Summary: "s"}}},
		"the last line was grown":  {{item("a"), item("b")}, {item("a"), item("b\nc")}},
		"another, of more":         {{item("a long one")}, {item("b"), item("c")}},
		"a long line was left out": {{item("a"), item("bbbbbbbbbbb")}, {item("a"), item("c"), item("d")}},
	} {
		for i := range copies {
			for j := range copies {
				_, d, _ := onMem(t, sessionlog.Options{})
				_, _, err := d.Import(importedMeta("one"), copies[i])
				noErr(t, err)
				im, err := d.NewImporter(false)
				noErr(t, err)
				got, err := im.Import(importedMeta("one"), copies[j])
				noErr(t, err)
				noErr(t, im.Close())
				want := sessionlog.ImportResult{ID: got.ID, Updated: j > i, Older: j < i}
				s, err := d.Read(got.ID)
				noErr(t, err)
				c, err := s.Info()
				noErr(t, err)
				noErr(t, s.Close())
				messages := 0
				for _, i := range copies[max(i, j)] {
					if !i.Marker {
						messages++
					}
				}
				if got != want || c.Messages != messages {
					t.Errorf("%s: copy %d and then %d: %+v with %d messages, want %+v with %d", name, i, j, got, c.Messages, want, messages)
				}
			}
		}
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
