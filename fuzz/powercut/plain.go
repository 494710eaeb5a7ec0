//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/kill/history"
)

// plain replaces one file repeatedly and uses no store. It shows that powercut
// detects a missing sync.
var plain = workload{
	write: func(r run, fsys vfs.FS, dir string, mark func([]byte) error) error {
		for n := 1; n <= 12; n++ {
			if err := mark(history.Issued(0, n)); err != nil {
				return err
			}
			err := vfs.WriteFile(fsys, filepath.Join(dir, "value"), 0o600, []byte(value(n)))
			if err != nil {
				return err
			}
			if err := mark(history.Acked(0, n)); err != nil {
				return err
			}
		}
		return nil
	},
	checker: func(run) func(string, []byte) error {
		return func(dir string, marks []byte) error {
			p := history.NewProgress(1)
			if err := p.Read(bytes.NewReader(marks)); err != nil {
				return err
			}
			b, err := vfs.ReadFile(vfs.OS{}, filepath.Join(dir, "value"), 1<<20)
			if errors.Is(err, fs.ErrNotExist) && p.Acked[0] == 0 {
				return nil
			}
			if err != nil {
				return err
			}
			for n := max(1, p.Acked[0]); n <= p.Issued[0]; n++ {
				if string(b) == value(n) {
					return nil
				}
			}
			return fmt.Errorf("%d replacements acknowledged, %d started, but the file starts with %.20q and has %d bytes", p.Acked[0], p.Issued[0], b, len(b))
		}
	},
}

func value(n int) string { return strings.Repeat(fmt.Sprintf("value %d. ", n), 100*n) }
