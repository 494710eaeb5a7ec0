package agenthook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs"
)

// TestLogBounded writes more lines than the log may have. The last ones stay.
func TestLogBounded(t *testing.T) {
	h := Home{vfs.OS{}, t.TempDir()}
	if line, _, err := h.LastError(); line != "" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	now := time.Date(2026, 4, 14, 10, 23, 45, 0, time.UTC)
	for i := range 200 {
		h.Log(now, "stop", fmt.Errorf("%d\nline %s", i, strings.Repeat("x", 2000)))
	}
	fi, err := os.Stat(h.LogFile())
	if err != nil || fi.Size() > maxLog || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	line, at, err := h.LastError()
	if !strings.HasPrefix(line, "2026-04-14T10:23:45Z stop: 199 line xxx") || !at.Equal(now) || err != nil {
		t.Errorf("%q, %v, %v", line, at, err)
	}
	b, _ := os.ReadFile(h.LogFile())
	if first, _, _ := strings.Cut(string(b), "\n"); !strings.HasPrefix(first, "2026-") {
		t.Errorf("the first line is %q", first)
	}
	// Another program's long file, and an empty one.
	for _, text := range []string{strings.Repeat("y", maxLog+1), ""} {
		if err := os.WriteFile(h.LogFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h.Log(now, "stop", errors.New("last"))
		if line, _, _ := h.LastError(); line != "2026-04-14T10:23:45Z stop: last" {
			t.Errorf("%.100q", line)
		}
	}
}

// TestRecordsIgnoreOthers lists only valid records under their names.
func TestRecordsIgnoreOthers(t *testing.T) {
	h := Home{vfs.OS{}, t.TempDir()}
	file := filepath.Join(h.Dir, "t.jsonl")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	set := func(r *Record) error { r.Session = "s"; return nil }
	if err := h.Update(file, 0, set); err != nil {
		t.Fatal(err)
	}
	if err := h.Update(file, 0, func(*Record) error { return errors.New("called for an unchanged file") }); err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{"x.json": `{"transcript":"/a"}`, "y.json": "{", filepath.Base(h.recordFile("/b")): `{"transcript":"/c"}`} {
		if err := os.WriteFile(filepath.Join(h.Dir, "hooks", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := h.Records()
	if err != nil || len(list) != 1 || list[0].Session != "s" || list[0].Transcript != file {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := h.Changed(h.Dir); !errors.Is(err, vfs.ErrNotRegular) {
		t.Error(err)
	}
	if err := errors.Join(h.Remove(file), os.Remove(file)); err != nil {
		t.Error(err)
	}
	if _, err := h.Changed(file); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
