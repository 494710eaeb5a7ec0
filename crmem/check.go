package crmem

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// Check checks a complete store without a lock and without changes. The error
// is that of the system; the report contains the problems of the store.
// maxBytes is as in [Options]; 0 is the default.
func Check(fsys vfs.FS, path string, maxBytes int64) (*CheckReport, error) {
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
	var r *CheckReport
	for try := range 20 {
		if r, err = check(fsys, path, link, maxBytes); err != nil || r.Err() == nil {
			break
		}
		// A checkpoint may run between the reads of the two files, as for any
		// reader. Corruption persists.
		if try > 0 && !errors.Is(r.Err(), ErrForeign) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return r, err
}

// checker collects the problems of one read of a store.
type checker struct {
	fsys       vfs.FS
	path, link string // link is the symbolic link that leads to path, or ""
	maxBytes   int64
	v          files
	r          *CheckReport
}

// The fixes of invalid snapshots and logs.
const (
	fixSnapshot = "run crabmem repair to recover the readable entries and quarantine the file"
	fixLog      = "run crabmem repair to keep the operations before this offset and quarantine the rest"
)

// check is Check, once.
func check(fsys vfs.FS, path, link string, maxBytes int64) (*CheckReport, error) {
	c := &checker{fsys: fsys, path: path, link: link, maxBytes: maxBytes, r: &CheckReport{Path: path, Problems: []Problem{}}}
	defer c.addKept()
	defer c.settleNewer()
	if more, err := c.checkSnapshot(); err != nil {
		return nil, err
	} else if !more {
		return c.r, nil
	}
	err := c.v.readLog(fsys, path, maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return c.r, c.addOthers()
	}
	if more, err := c.checkLog(err); err != nil {
		return nil, err
	} else if more {
		u := c.v.findUnfinished(fsys, path)
		c.r.PurgePending = !u.isEmpty()
		c.checkReplay()
		c.checkHistory()
	}
	return c.r, nil
}

// checkHistory reads the complete history, if the store itself has no problem.
func (c *checker) checkHistory() {
	if c.r.Err() != nil {
		return
	}
	dir := c.path + historySuffix
	if _, err := listSegments(c.fsys, dir); err != nil {
		c.add("history", dir, 0, 0, err, "make the directory readable, or move the file: the entries are complete, but the history cannot be read or written")
		return
	}
	for try := 1; ; try++ {
		p, err := readPast(c.fsys, c.path, c.maxBytes)
		if err != nil {
			return // a checkpoint ran between
		}
		found := len(c.r.Problems)
		c.walkHistory(p)
		if len(c.r.Problems) == found || try == maxReads || !p.isStale() {
			return
		}
		c.r.Problems = c.r.Problems[:found]
	}
}

// walkHistory adds the problems of a history.
func (c *checker) walkHistory(p *past) {
	w := walker{past: p, yield: func(_ Change, err error) bool {
		if err == nil {
			return true
		}
		file := p.dir
		if f, ok := errors.AsType[*FormatError](err); ok {
			file = f.Path
		}
		c.add("history", file, format.OffsetOf(err), 0, err, "no action is required: the entries are complete, but some earlier states cannot be shown; crabmem prune --history --older-than AGE removes the history before them")
		return len(c.r.Problems) < maxHistoryProblems
	}}
	w.all()
}

// maxHistoryProblems limits the problems that a report lists for a history.
const maxHistoryProblems = 20

// settleNewer decides, after the log was read, whether a snapshot with kind 2 is
// corrupt or a newer program wrote it. It updates message and fix of the problem.
func (c *checker) settleNewer() {
	for i := range c.r.Problems {
		p := &c.r.Problems[i]
		if p.File == c.path && errors.Is(p.Err, ErrNewer) {
			p.Message = c.v.checkNewer(p.Err).Error()
		}
		switch {
		case errors.Is(p.Err, ErrNewer):
			p.Remedy = FixNewer
		case errors.Is(p.Err, ErrOlder):
			p.Remedy = FixOlder
		}
	}
}

func (c *checker) add(kind, file string, off, n int64, err error, remedy string) {
	c.r.Problems = append(c.r.Problems, Problem{Kind: kind, File: file, Offset: off, Length: n,
		Message: err.Error(), Remedy: remedy, Err: err})
}

// addKept adds the kept copies of this store.
func (c *checker) addKept() {
	own := ownCopies(c.fsys, c.path)
	if c.link != "" {
		own = append(own, ownCopies(c.fsys, c.link)...)
	}
	for _, name := range own {
		c.add("kept", name, 0, 0, fmt.Errorf("%w: %v", ErrForeign, keptCopy(name)), keptCopyFix)
	}
}

// checkSnapshot reads and decodes the snapshot. more is false if the log cannot
// be judged without it.
func (c *checker) checkSnapshot() (more bool, err error) {
	v := &c.v
	b, err := v.readSnapshot(c.fsys, c.path, c.maxBytes)
	v.id, v.idErr = readIdentity(c.fsys, c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.addMissing()
		return false, nil
	case errors.Is(err, ErrFormat):
		c.add("format", c.path, 0, 0, err, "set --db to the store's file")
		return false, nil
	case err != nil:
		return false, err
	}
	c.r.SnapshotBytes = int64(len(b))
	v.dig = format.DigestOf(b)
	if v.snap, err = Decode(b); err != nil {
		err = inFile(err, c.path)
		off := format.OffsetOf(err)
		c.add("format", c.path, off, int64(len(b))-off, err, fixSnapshot)
	} else {
		c.r.Entries = v.snap.Len()
	}
	return true, nil
}

// addMissing adds the problem of a store without a snapshot.
func (c *checker) addMissing() {
	if _, err := c.fsys.Lstat(c.path + walSuffix); err == nil {
		c.add("missing", c.path, 0, 0, fmt.Errorf("%w: open %s: file missing but its log exists", ErrForeign, c.path),
			"restore the file next to its log, or run crabmem repair")
		return
	}
	if err := missingSnapshot(c.fsys, c.path, c.maxBytes); err != nil {
		c.add("missing", c.path, 0, 0, err, "run crabmem repair")
		return
	}
	c.add("missing", c.path, 0, 0, fmt.Errorf("%w: %s does not exist", ErrNoStore, c.path), "set the store's file with --db, CRABMEM_DB, --home, or CRABTALK_HOME")
}

// checkLog judges the log, which was read with err, and compares the other files
// with it. more is false if it cannot be replayed.
func (c *checker) checkLog(err error) (more bool, _ error) {
	v, log := &c.v, c.path+walSuffix
	if err != nil {
		if err := notAStore(err); errors.Is(err, ErrFormat) {
			c.add("format", log, 0, 0, err, "move the file if it is not the store's log")
			return false, nil
		}
		return false, err
	}
	c.r.LogBytes = int64(len(v.log))
	if v.scan, err = format.ScanLog(v.log); err != nil {
		err = inFile(err, log)
		off := format.OffsetOf(err)
		kind := "rot"
		if isOtherVersion(err) {
			kind = "format"
		}
		c.add(kind, log, off, int64(len(v.log))-off, err, fixLog)
		return false, nil
	}
	if err := c.addOthers(); err != nil {
		return false, err
	}
	c.r.LogOps = v.scan.Ops()
	tail := int64(len(v.log)) - v.scan.End
	switch v.scan.Verdict {
	case format.Corrupt:
		c.add("rot", log, v.scan.Bad, tail, v.corrupt(c.path), fixLog)
	case format.TornTail:
		c.add("torn", log, v.scan.Bad, tail, fmt.Errorf("%s: offset %d: torn tail of %d bytes, not acknowledged: %s",
			log, v.scan.Bad, tail, v.scan.Why), "nothing to do: the next write moves the bytes to a quarantine file")
	}
	return v.snap != nil, nil
}

// checkReplay applies the log to the snapshot.
func (c *checker) checkReplay() {
	v := &c.v
	seq, ok := v.point()
	if !ok {
		c.addForeign()
		return
	}
	if _, err := v.replay(&v.snap.t, &v.snap.NextID, seq); err != nil {
		err = inFile(err, c.path+walSuffix)
		off := format.OffsetOf(err)
		c.add("rot", c.path+walSuffix, off, int64(len(v.log))-off, err, fixLog)
		return
	}
	c.r.Entries = v.snap.Len()
}

// addOthers adds the problems of V10 to V12 and V14 (FORMAT.md).
func (c *checker) addOthers() error {
	v := &c.v
	if err := v.findOthers(c.fsys, c.path, c.maxBytes); err != nil {
		return err
	}
	v.findLinked(c.fsys, c.link, c.maxBytes)
	if v.idErr != nil && !errors.Is(v.idErr, fs.ErrNotExist) {
		c.add("format", c.path+idSuffix, 0, 0, v.idErr, "nothing to do: the next write restores the identity file")
	}
	if err := v.refuse(c.path); err != nil {
		file, remedy := c.path+walSuffix, "move the log that the message names"
		if v.held != nil {
			file, remedy = v.held.path, "run crabmem repair to use the log with all operations, or crabmem repair --rejoin to merge both logs"
		}
		c.add("foreign", file, 0, 0, err, remedy)
	}
	text, err := vfs.ReadFile(c.fsys, c.path+lockSuffix, 1<<16)
	if err == nil {
		warning, err := v.checkSalt(c.path, vfs.ParseLockHolder(string(text)), c.fsys.BootID())
		if err == nil && warning != "" && v.scan == nil {
			err = fmt.Errorf("%w: %s", ErrForeign, warning)
		}
		if err != nil {
			c.add("foreign", c.path+walSuffix, 0, 0, err, "restore the log, or run crabmem repair")
		}
	}
	return nil
}

func (c *checker) addForeign() {
	v, log := &c.v, c.path+walSuffix
	if v.otherStore() {
		c.add("foreign", log, 0, v.logStat.size(), fmt.Errorf("%w: %s is the log of store %v, but this is store %v",
			ErrForeign, log, v.scan.Store, v.id), "restore the log of this store, or run crabmem repair --keep-db")
		return
	}
	err := fmt.Errorf("%w: %s has the digest %v, but its log extends %v", ErrForeign, c.path, v.dig, v.scan.Base)
	remedy := "if another program wrote the file on purpose, run crabmem checkpoint to accept it; otherwise its content is corrupt: restore a backup"
	if v.scan.Ops() > 0 {
		remedy = "run crabmem repair --keep-db to quarantine the log, or crabmem repair --keep-log BASE to use the snapshot that the log extends"
	}
	c.add("foreign", c.path, 0, int64(v.dig.Len), err, remedy)
}

// corrupt is the refusal of a log that is damaged before its end.
func (v *files) corrupt(path string) error {
	return &FormatError{Path: path + walSuffix, Offset: v.scan.Bad, Entry: -1, Field: "frame",
		Msg: v.scan.Why + ": a later frame proves that this frame was synced: corruption, not a torn write"}
}
