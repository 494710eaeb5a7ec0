package crmem

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// Suffixes of derived files (FORMAT.md, X1) and of their lock.
const (
	usageSuffix         = "-usage"
	indexPlainSuffix    = "-index-plain"
	indexStandardSuffix = "-index-standard"
	vectorsSuffix       = "-vectors"
	derivedLockSuffix   = "-derived-lock"
)

var derivedSuffixes = []string{usageSuffix, indexPlainSuffix, indexStandardSuffix, vectorsSuffix}

// derivedWait is how long a purge waits for a process that writes a derived file.
// Tests change it.
var derivedWait = 10 * time.Second

// basis identifies the snapshot and the log that a derived file is computed from.
type basis struct {
	snapshot fileStat
	salt     uint64 // of the log; 0 without a log
}

// isCurrent reports whether the names lead to the same snapshot and the same log as
// when they were read. The log may have more records. isCurrent takes no lock.
func (b basis) isCurrent(fsys vfs.FS, path string) bool {
	fi, err := fsys.Lstat(path)
	if err != nil || !b.snapshot.is(fi) {
		return false
	}
	salt, err := readSalt(fsys, path+walSuffix)
	return err == nil && salt == b.salt
}

// readSalt returns the salt in the header of a log, or 0 if the log is missing.
func readSalt(fsys vfs.FS, name string) (salt uint64, err error) {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	var b [8]byte
	if _, err = f.ReadAt(b[:], 8); err == nil {
		salt = binary.LittleEndian.Uint64(b[:])
	}
	return salt, errors.Join(err, f.Close())
}

// writeDerived creates or replaces the derived file path+suffix, which will have
// about size bytes, with the output of write (FORMAT.md, X3 and X4). It never waits.
// It returns false if the file was not written: without an error if another process
// writes derived files, a purge is running, or isCurrent returns false, and otherwise
// with the reason, for example a full disk or a read-only directory.
//
// writeDerived calls isCurrent and write under the lock of the derived files, which a
// purge waits for. So they must not lock a Store.
//
// Nothing is synced: after a power cut the file may have any bytes, which its reader
// must detect.
func writeDerived(fsys vfs.FS, path, suffix string, size int64, isCurrent func() bool, write func(io.Writer) error) (written bool, err error) {
	lock, err := fsys.Lock(path + derivedLockSuffix)
	if errors.Is(err, vfs.ErrLocked) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	mayWrite := func() (bool, error) {
		_, err := fsys.Lstat(path + purgeSuffix)
		if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		return isCurrent(), nil
	}
	if ok, err := mayWrite(); !ok {
		return false, err
	}
	if err := sweepDerived(fsys, path); err != nil {
		return false, err
	}
	return vfs.WriteDerived(fsys, path+suffix, size, write, mayWrite)
}

// sweepDerived removes the temporary files of derived files. The caller holds the
// lock of the derived files.
func sweepDerived(fsys vfs.FS, path string) error {
	return sweepTemporary(fsys, path, func(rest string) (stem, number, digits string) {
		for _, suffix := range derivedSuffixes {
			if number, ok := strings.CutPrefix(rest, suffix); ok {
				return suffix, number, "0123456789"
			}
		}
		return "", "", ""
	})
}

// derived removes the derived files and their temporary files, except for the counts of
// reads of the other entries. Afterwards no process writes a derived file of a state before the checkpoint of the purge (FORMAT.md, X4).
func (p *purger) derived() error {
	fsys, path := p.s.fs, p.s.path
	lock, err := vfs.Acquire(fsys, path+derivedLockSuffix, derivedWait)
	if err != nil {
		return err
	}
	err = sweepDerived(fsys, path)
	counts, _ := readUsage(fsys, path, p.s.id)
	for _, suffix := range derivedSuffixes {
		// A directory is not a derived file (X2).
		if fi, lerr := fsys.Lstat(path + suffix); lerr != nil || !fi.IsDir() {
			err = errors.Join(err, removeIfExists(fsys, path+suffix))
		}
	}
	counts = slices.DeleteFunc(counts, func(u format.Usage) bool { return p.s.t.byID(u.ID) == "" })
	if err == nil && len(counts) > 0 {
		// They contain no text. If this fails, the counts are lost.
		_ = vfs.WriteFile(fsys, path+usageSuffix, 0o600, format.EncodeUsage(p.s.id, counts))
	}
	return errors.Join(err, lock.Unlock())
}

func removeIfExists(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
