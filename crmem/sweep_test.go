package crmem

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
)

// TestSweepRemovesTemporaries opens the store /brain next to other files. A
// plus marks those that remain.
func TestSweepRemovesTemporaries(t *testing.T) {
	const files = `.brain1 .brain123456789 .brain-id5 .brain-wal5 .brain-wal.torn-5 .brain-wal.torn-5.1 .brain-wal.torn-.
		+.brain +.brain-id +.brain-wal +.brain-wal.torn- +.brain1x +.brainx1 +.brain.1 +.brain-wal.torn +.brain-lock5 +.brain-wal5.1 +.brain-id-wal +.xbrain1
		.brain-id-wal5 +.brain-wal-id5
		+brain2 .brain2 +.brain21 +.brain234 .brain3 .brain12
		+brain4-lock .brain4 +.brain41 +.brain4123
		+brain5-wal .brain51
		+brain67 .brain6 .brain67 +.brain678 .brain61
		+.brain-wal.damaged-5 +brain1.txt +.brain-usage5 +.brain-index-plain5`
	for _, dir := range []string{"/", "/dir"} {
		m := faultfs.NewMem()
		if dir != "/" {
			noErr(t, m.Mkdir(dir, 0o700))
			dir += "/"
		}
		path := dir + "brain"
		s := opened(t, path, &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
		noErr(t, s.Apply(Add{Name: "a"}))
		noErr(t, s.Close())
		for name := range strings.FieldsSeq(files) {
			m.WriteFile(dir+strings.TrimPrefix(name, "+"), nil, 0o600)
		}
		noErr(t, m.Mkdir(dir+".brain7", 0o700))
		m.Symlink(path, dir+".brain8")
		before := opened(t, path, &Options{FS: m, ReadOnly: true}, 1) // a reader removes no file
		noErr(t, before.Close())
		if _, err := m.Lstat(dir + ".brain1"); err != nil {
			t.Error(err)
		}
		noErr(t, opened(t, path, &Options{FS: m}, 1).Close())
		for name := range strings.FieldsSeq(files + " +.brain7 +.brain8") {
			name, stays := strings.CutPrefix(name, "+")
			if _, err := m.Lstat(dir + name); (err == nil) != stays || err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v, want it to stay: %t", dir+name, err, stays)
			}
		}
	}
}
