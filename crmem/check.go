package crmem

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/repair"
	"crabmem/crmem/vfs"
)

// Check reads a store and judges all of it, without a lock and without
// changing anything. The error is of the system; what is wrong with the store
// is in the report. maxBytes is as in [Options]; 0 is the default.
func Check(fsys vfs.FS, path string, maxBytes int64) (*repair.Report, error) {
	if maxBytes == 0 {
		maxBytes = defaultMaxBytes
	}
	link := ""
	if fi, err := fsys.Lstat(path); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		link = path
	}
	path, err := fsys.Resolve(path)
	if err != nil {
		return nil, err
	}
	var r *repair.Report
	for try := range 20 {
		if r, err = check(fsys, path, link, maxBytes); err != nil || r.Err() == nil {
			break
		}
		// A checkpoint may stand between the reads of the two files, as for
		// any reader. Damage stays.
		if try > 0 && !errors.Is(r.Err(), ErrForeign) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return r, err
}

// check is Check, once. link is the symbolic link that leads to path, or "".
func check(fsys vfs.FS, path, link string, maxBytes int64) (*repair.Report, error) {
	r := &repair.Report{Path: path, Problems: []repair.Problem{}}
	add := func(kind, file string, off, n int64, err error, remedy string) {
		r.Problems = append(r.Problems, repair.Problem{Kind: kind, File: file, Offset: off, Length: n,
			Message: err.Error(), Remedy: remedy, Err: err})
	}
	defer func() {
		own := ownCopies(fsys, path)
		if link != "" {
			own = append(own, ownCopies(fsys, link)...)
		}
		for _, name := range own {
			add("kept", name, 0, 0, fmt.Errorf("%w: %v", ErrForeign, keptCopy(name)), keptCopyFix)
		}
	}()
	v := &files{}
	b, err := v.readSnapshot(fsys, path, maxBytes)
	v.id, v.idErr = readIdentity(fsys, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, lerr := fsys.Lstat(path + walSuffix); lerr == nil {
			add("missing", path, 0, 0, fmt.Errorf("%w: %s is missing, and its log is there", ErrForeign, path),
				"put the file back beside its log, or: crabmem repair")
			return r, nil
		}
		if err := missingSnapshot(fsys, path, maxBytes); err != nil {
			add("missing", path, 0, 0, err, "crabmem repair")
			return r, nil
		}
		add("missing", path, 0, 0, fmt.Errorf("%w: %s does not exist", ErrNoStore, path), "check --db")
		return r, nil
	case errors.Is(err, ErrFormat):
		add("format", path, 0, 0, err, "name the store's file")
		return r, nil
	case err != nil:
		return nil, err
	}
	r.SnapshotBytes = int64(len(b))
	v.dig = format.DigestOf(b)
	if v.snap, err = Decode(b); err != nil {
		err = inFile(err, path)
		off := format.OffsetOf(err)
		add("format", path, off, int64(len(b))-off, err, "crabmem repair salvages what can be read and sets the file aside whole")
	} else {
		r.Entries = v.snap.Len()
	}
	err = v.readLog(fsys, path, maxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, v.addOthers(fsys, path, link, maxBytes, add)
	case err != nil:
		if err := notAStore(err); errors.Is(err, ErrFormat) {
			add("format", path+walSuffix, 0, 0, err, "move it away, if it is not the log")
			return r, nil
		}
		return nil, err
	}
	r.LogBytes = int64(len(v.log))
	if v.scan, err = format.ScanLog(v.log); err != nil {
		err = inFile(err, path+walSuffix)
		off := format.OffsetOf(err)
		add("rot", path+walSuffix, off, int64(len(v.log))-off, err, "crabmem repair sets the log aside from here on")
		return r, nil
	}
	if err := v.addOthers(fsys, path, link, maxBytes, add); err != nil {
		return nil, err
	}
	r.LogOps = v.scan.Ops()
	tail := int64(len(v.log)) - v.scan.End
	switch v.scan.Verdict {
	case format.Corrupt:
		add("rot", path+walSuffix, v.scan.Bad, tail, v.corrupt(path), "crabmem repair keeps what stands before and sets the rest aside")
	case format.TornTail:
		add("torn", path+walSuffix, v.scan.Bad, tail, fmt.Errorf("%s: offset %d: %d bytes of a write that was not acknowledged: %s",
			path+walSuffix, v.scan.Bad, tail, v.scan.Why), "nothing is lost; the next write cuts them off and keeps a copy")
	}
	if v.snap == nil {
		return r, nil
	}
	seq, ok := v.point()
	if !ok {
		v.addForeign(path, add)
		return r, nil
	}
	if _, err := v.replay(&v.snap.t, &v.snap.NextID, seq); err != nil {
		err = inFile(err, path+walSuffix)
		off := format.OffsetOf(err)
		add("rot", path+walSuffix, off, int64(len(v.log))-off, err, "crabmem repair keeps what stands before and sets the rest aside")
		return r, nil
	}
	r.Entries = v.snap.Len()
	return r, nil
}

// addOthers adds the problems of V10 to V12 and V14 (FORMAT.md).
func (v *files) addOthers(fsys vfs.FS, path, link string, maxBytes int64, add func(string, string, int64, int64, error, string)) error {
	if err := v.findOthers(fsys, path, maxBytes); err != nil {
		return err
	}
	v.findLinked(fsys, link, maxBytes)
	if v.idErr != nil && !errors.Is(v.idErr, fs.ErrNotExist) {
		add("format", path+idSuffix, 0, 0, v.idErr, "the next write restores it")
	}
	if err := v.refuse(path); err != nil {
		file, remedy := path+walSuffix, "move the log that the message names"
		if side := v.sideLogs(); len(side) > 0 {
			file, remedy = side[0].path, "crabmem repair takes the log with all operations; crabmem repair --rejoin merges two logs"
		}
		add("foreign", file, 0, 0, err, remedy)
	}
	text, err := vfs.ReadFile(fsys, path+lockSuffix, 1<<16)
	if err == nil {
		warning, err := v.checkSalt(path, vfs.ParseLockHolder(string(text)), fsys.BootID())
		if err == nil && warning != "" && v.scan == nil {
			err = fmt.Errorf("%w: %s", ErrForeign, warning)
		}
		if err != nil {
			add("foreign", path+walSuffix, 0, 0, err, "put the log back, or: crabmem repair")
		}
	}
	return nil
}

func (v *files) addForeign(path string, add func(string, string, int64, int64, error, string)) {
	if v.otherStore() {
		add("foreign", path+walSuffix, 0, v.logStat.size(), fmt.Errorf("%w: %s is the log of the store %v, and this is %v",
			ErrForeign, path+walSuffix, v.scan.Store, v.id), "put the right log back, or: crabmem repair --keep-db")
		return
	}
	err := fmt.Errorf("%w: %s is %v, its log extends %v", ErrForeign, path, v.dig, v.scan.Base)
	remedy := "if another program wrote it on purpose, crabmem checkpoint accepts it; if not, it is damaged inside a text: restore a copy"
	if v.scan.Ops() > 0 {
		remedy = "crabmem repair --keep-db sets the log aside; --keep-log BASE takes the snapshot that the log extends"
	}
	add("foreign", path, 0, int64(v.dig.Len), err, remedy)
}

// corrupt is the refusal of a log that is damaged before its end.
func (v *files) corrupt(path string) error {
	return &FormatError{Path: path + walSuffix, Offset: v.scan.Bad, Entry: -1, Field: "frame",
		Msg: v.scan.Why + ": a later frame says that this was synced, so it is damage and not a crash"}
}
