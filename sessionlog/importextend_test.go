package sessionlog_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
)

// TestExtend appends to an imported session. A complete import then has the same texts. A
// session that anything else changed is refused.
func TestExtend(t *testing.T) {
	item := func(s string) sessionlog.Item { return sessionlog.Item{Message: user(s)} }
	type items = []sessionlog.Item
	m, d, _ := onMem(t, sessionlog.Options{})
	im, err := d.NewImporter(false)
	noErr(t, err)
	meta := importedMeta("")
	did, err := im.Import(meta, items{item("a")})
	noErr(t, err)
	size, err := im.Size(did.ID)
	noErr(t, err)
	later := meta
	end, _ := meta.End()
	later.SetEnd(end.Add(1e12))
	grown, err := im.Extend(did.ID, size, later, items{item("b"), item("c")})
	noErr(t, err)
	if now, err := im.Size(did.ID); now != grown || err != nil || grown <= size {
		t.Errorf("size %d, want %d, %v", now, grown, err)
	}
	list, err := d.List()
	noErr(t, err)
	if len(list) != 1 || list[0].Meta.UptimeSecs != later.UptimeSecs {
		t.Errorf("%+v", list)
	}
	for name, f := range map[string]func() error{
		"old size": func() error { _, err := im.Extend(did.ID, size, later, items{item("x")}); return err },
		"another source": func() error {
			other := later
			other.Source = "codex:other"
			_, err := im.Extend(did.ID, grown, other, items{item("x")})
			return err
		},
	} {
		if err := f(); !errors.Is(err, sessionlog.ErrDisplaced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := im.Extend("codex_user_9", size, later, items{item("x")}); !errors.Is(err, sessionlog.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no session: %v", err)
	}
	// A write that fails leaves a session that a complete import repairs.
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "datasync" {
			return errors.New("broken")
		}
		return nil
	}
	if _, err := im.Extend(did.ID, grown, later, items{item("d")}); !errors.Is(err, sessionlog.ErrUnknown) {
		t.Errorf("a failed sync: %v", err)
	}
	m.Hook = nil
	if _, err := im.Extend(did.ID, grown, later, items{item("d")}); !errors.Is(err, sessionlog.ErrDisplaced) {
		t.Errorf("after it: %v", err)
	}
	full, err := im.Import(later, items{item("a"), item("b"), item("c"), item("d")})
	if err != nil || full.ID != did.ID || full.Created {
		t.Errorf("a complete import: %+v, %v", full, err)
	}
	noErr(t, im.Close())
	s, err := d.Read(did.ID)
	noErr(t, err)
	if texts := strings.Join(textsOf(itemsOf(t, s)), " "); texts != "user:a user:b user:c user:d" {
		t.Errorf("%s", texts)
	}
	noErr(t, s.Close())
}
