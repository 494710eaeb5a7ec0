package space

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestDescribe describes spaces, also while other calls do, and after a damaged file.
func TestDescribe(t *testing.T) {
	r := newRig(t, 10, 10)
	if err := r.home().Create("team", 10); err != nil {
		t.Fatal(err)
	}
	if a, err := r.set.About("team"); err != nil || a.Title != "team" || a.CreatedAt.IsZero() || !a.ArchivedAt.IsZero() || a.Metadata == nil {
		t.Errorf("without a description: %+v, %v", a, err)
	}
	if _, err := r.set.About("missing"); !errors.Is(err, crmem.ErrNoStore) {
		t.Errorf("missing space: %v", err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := r.set.Describe("team", func(a *About) error {
				a.Metadata[fmt.Sprint(i)] = "x"
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	refused := errors.New("refused")
	if _, err := r.set.Describe("team", func(a *About) error { a.Title = "other"; return refused }); err != refused {
		t.Errorf("refused change: %v", err)
	}
	for _, bad := range []About{{}, {Title: "a\x00"}, {Title: strings.Repeat("é", 256)}, {Title: "x", Description: strings.Repeat("é", 1025)}, {Title: "x", Metadata: map[string]string{"": ""}}} {
		if _, err := r.set.Describe("team", func(a *About) error { *a = bad; return nil }); err == nil {
			t.Errorf("accepted %.40v", bad)
		}
	}
	at := time.Date(2026, 4, 14, 10, 0, 0, 5, time.UTC)
	if _, err := r.set.Describe("team", func(a *About) error {
		a.Title, a.Description, a.CreatedAt = strings.Repeat("é", 255), strings.Repeat("é", 1024), at
		return nil
	}); err != nil {
		t.Error(err)
	}
	a, err := r.set.About("team")
	if err != nil || len(a.Metadata) != 8 || a.Title != strings.Repeat("é", 255) || !a.CreatedAt.Equal(at) {
		t.Errorf("described: %+v, %v", a, err)
	}
	file := aboutFile(testHome, "team")
	if fi, err := r.fs.Lstat(file); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", file, fi, err)
	}
	r.fs.Hook = func(c faultfs.Call) error {
		if c.Op == "rename" {
			return syscall.EIO
		}
		return nil
	}
	if _, err := r.set.Describe("team", func(a *About) error { a.Title = "x"; return nil }); !errors.Is(err, syscall.EIO) {
		t.Errorf("failed rename: %v", err)
	}
	r.fs.Hook = nil
	if b, err := r.set.About("team"); err != nil || b.Title != a.Title {
		t.Errorf("after a failed change: %+v, %v", b, err)
	}
	if err := vfs.Replace(r.fs, file, 0o600, func(w io.Writer) error { _, err := io.WriteString(w, "{"); return err }); err != nil {
		t.Fatal(err)
	}
	if _, err := r.set.About("team"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("damaged file: %v", err)
	}
}

// TestSetRemove removes a space while calls use it and others begin. Afterwards none
// finds it, and no file remains.
func TestSetRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 10, 2)
		for _, name := range []string{"team", "other"} {
			if err := r.home().Create(name, 10); err != nil {
				t.Fatal(err)
			}
		}
		using, end := make(chan bool), make(chan bool)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := r.set.Use("team", true, func(s *crmem.Store) error {
				using <- true
				<-end
				return remember("late")(s)
			}); err != nil {
				t.Errorf("use before the removal: %v", err)
			}
		})
		<-using
		removed := make(chan error)
		go func() { removed <- r.set.Remove(r.home(), "team") }()
		synctest.Wait() // the removal waits for the use
		for range 4 {
			wg.Go(func() {
				if err := r.set.Use("team", true, remember("x")); !errors.Is(err, crmem.ErrNoStore) {
					t.Errorf("use during the removal: %v", err)
				}
			})
		}
		if err := r.set.Use("other", true, remember("x")); err != nil {
			t.Error(err)
		}
		close(end)
		if err := <-removed; err != nil {
			t.Error(err)
		}
		wg.Wait()
		if _, err := r.fs.Lstat(Dir(testHome, "team")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("directory: %v", err)
		}
		for _, name := range []string{"team", "main", "", "../x"} {
			if err := r.set.Remove(r.home(), name); err == nil {
				t.Errorf("removed %q", name)
			}
		}
		if err := r.set.Remove(r.home(), "other"); err != nil {
			t.Error(err)
		}
		if err := r.home().Create("team", 10); err != nil {
			t.Error(err)
		}
		if err := r.set.Use("team", true, remember("again")); err != nil {
			t.Error(err)
		}
	})
}
