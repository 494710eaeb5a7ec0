package importer

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// copied returns the files of a fixture in memory, at /in, and the same files in the
// archive /in.zip.
func copied(t *testing.T, fixture string) *faultfs.Mem {
	t.Helper()
	m := faultfs.NewMem()
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	root := filepath.Join(fixtures, fixture)
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		w, err := z.Create(filepath.ToSlash(rel))
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			return err
		}
		name = filepath.ToSlash(filepath.Join("/in", rel))
		err = vfs.MkdirAll(m, filepath.Dir(name), 0o700)
		m.WriteFile(name, b, 0o600)
		return err
	})
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	m.WriteFile("/in.zip", archive.Bytes(), 0o600)
	return m
}

// readAll detects and reads a source, and returns its contents as a text.
func readAll(t *testing.T, in *Source) (string, error) {
	if err := in.Detect(t.Context()); err != nil {
		return "", err
	}
	text := in.Kind + "\n"
	if in.Kind == Crabmem || in.Kind == MemoryJSON {
		lines, warnings, err := in.Lines()
		return text + fmt.Sprintf("%+v %q", lines, warnings), err
	}
	chats, notes, err := in.Parts()
	if err != nil {
		return "", err
	}
	if chats {
		left, err := in.Chats(func(h *Chat) error {
			text += fmt.Sprintf("%+v\n", h)
			return nil
		})
		if text += fmt.Sprintln(left); err != nil {
			return "", err
		}
	}
	if notes {
		m, err := in.Memory(t.Context())
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("%+v\n%v\n", m.Notes, m.Left)
	}
	return text, nil
}

// TestReadFailures fails each call of an import in turn. The import returns the error,
// or the same contents: it never lacks a file that exists.
func TestReadFailures(t *testing.T) {
	failed := errors.New("sick disk")
	for _, source := range []string{"claude-account:", "claude-account:.zip", "claude-memories:", "claude-memories:/memories.json", "claude:/conversations.json", "chatgpt:", "basic-memory:", "obsidian:", "rfc0038:", "mem0.json:", "memory.jsonl:"} {
		t.Run(source, func(t *testing.T) {
			fixture, rest, _ := strings.Cut(source, ":")
			m := copied(t, fixture)
			want, err := readAll(t, &Source{FS: m, Path: "/in" + rest})
			if err != nil {
				t.Fatal(err)
			}
			if fi, err := m.Lstat("/in" + rest); err == nil && fi.Mode().IsRegular() && rest != ".zip" {
				b, err := vfs.ReadFile(m, "/in"+rest, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := readAll(t, &Source{Stream: bytes.NewReader(b)}); got != want || err != nil {
					t.Errorf("from a stream: %v\n%s\nwant\n%s", err, got, want)
				}
			}
			errs := 0
			for fail, calls := 1, 1; calls >= fail-1; fail++ {
				calls = 0
				var at faultfs.Call
				m.Hook = func(c faultfs.Call) error {
					if calls++; calls != fail {
						return nil
					}
					at = c
					return failed
				}
				got, err := readAll(t, &Source{FS: m, Path: "/in" + rest})
				m.Hook = nil
				if errs++; err == nil && got != want || err != nil && !errors.Is(err, failed) {
					t.Errorf("call %d, %s %s: %v\n%s", fail, at.Op, at.Name, err, got)
				}
			}
			t.Logf("%d calls", errs)
		})
	}
}
