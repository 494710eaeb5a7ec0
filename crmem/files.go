package crmem

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// files are the files of a store, read and decoded, but not yet compared.
type files struct {
	stat    fileStat // of the snapshot
	dig     format.Digest
	db      []byte // the file that snap is decoded from
	snap    *Snapshot
	log     []byte // nil without a log
	logStat fileStat
	scan    *format.LogScan // nil without a log
	file    *indexFile      // if set, db is nil, and snap reads through this file
	id      format.ID
	idErr   error // of the identity file; fs.ErrNotExist if it is missing
	others
}

// readFiles reads the snapshot and then the log. Without a log it computes the
// digest of the snapshot only if digested is set. If lazy is set and an index file
// describes the files, readFiles does not read the snapshot; the caller closes
// files.file.
func readFiles(fsys vfs.FS, path string, maxBytes int64, digested, lazy bool) (*files, error) {
	v := &files{}
	if lazy {
		v.useIndexFile(fsys, path, maxBytes)
	}
	if v.file != nil {
		err := v.readLog(fsys, path, maxBytes)
		if err == nil {
			v.scan, err = format.ScanLog(v.log)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		v.id, v.idErr = readIdentity(fsys, path)
		if err == nil {
			return v, nil
		}
		v.closeIndexFile()
		v = &files{}
	}
	b, err := v.readSnapshot(fsys, path, maxBytes)
	if err != nil {
		return nil, err
	}
	err = v.readLog(fsys, path, maxBytes)
	hasLog := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, notAStore(err)
	}
	v.id, v.idErr = readIdentity(fsys, path)
	// Compute the digest concurrently with decoding.
	var wg sync.WaitGroup
	if hasLog || digested {
		wg.Go(func() { v.dig = format.DigestOf(b) })
	}
	v.db = b
	v.snap, err = Decode(b)
	wg.Wait()
	if err != nil {
		if hasLog {
			v.scan, _ = format.ScanLog(v.log)
		}
		return nil, inFile(v.checkNewer(err), path)
	}
	if hasLog {
		if v.scan, err = format.ScanLog(v.log); err != nil {
			return nil, inFile(err, path+walSuffix)
		}
	}
	return v, nil
}

func (v *files) readSnapshot(fsys vfs.FS, path string, maxBytes int64) ([]byte, error) {
	b, fi, err := vfs.ReadFileInfo(fsys, path, maxBytes)
	v.stat.info = fi
	return b, notAStore(err)
}

func (v *files) readLog(fsys vfs.FS, path string, maxBytes int64) (err error) {
	v.log, v.logStat.info, err = vfs.ReadFileInfo(fsys, path+walSuffix, maxLogFor(maxBytes))
	return err
}

// notAStore adds the class to errors for a file that cannot be a store.
func notAStore(err error) error {
	var large *vfs.TooLargeError
	if errors.Is(err, vfs.ErrNotRegular) || errors.As(err, &large) {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return err
}

func inFile(err error, path string) error {
	var f *FormatError
	if errors.As(err, &f) {
		f.Path = path
	}
	return err
}

func dirOf(path string) string { return filepath.Dir(path) }

func maxLogFor(maxBytes int64) int64 { return maxBytes + 64<<20 }

// checkNewer checks an error of decoding the snapshot. If a log exists and does not
// name the snapshot, the snapshot changed after it was written. checkNewer then
// changes [ErrNewer] to the error for a corrupt file.
func (v *files) checkNewer(err error) error {
	if f, ok := errors.AsType[*FormatError](err); ok && f.Newer && v.scan != nil {
		if _, ok := v.point(); !ok {
			f.NotNewer()
		}
	}
	return err
}

// point returns the sequence number that the snapshot on disk covers, and false
// if the log does not name that snapshot or is of another store.
func (v *files) point() (seq uint64, ok bool) {
	if v.scan == nil || v.otherStore() {
		return 0, false
	}
	return v.scan.Covers(v.dig)
}
