package sessionlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/feed"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// Check is the result of reading a complete session file.
type Check struct {
	Lines       int64 // all lines, including blank and bad ones
	Messages    int   // those in bad lines included
	Markers     int
	MetaRecords int
	Unknown     int // records of other programs

	Damaged int             // bad lines, and line 1 if it is not a meta line
	Damage  []record.Damage // the first maxDamage of them
	// Torn is the number of bytes of the torn tail, from offset TornAt. The
	// next writer quarantines them.
	Torn     int64
	TornAt   int64
	TornLine int64 // line number of the torn tail; the last line's if the tail is part of that line
	// Identified reports that the file begins with a meta line, which may be in
	// a bad line.
	Identified bool
}

// Check reads the complete file. The error is that of the system.
func (s *Session) Check() (*Check, error) {
	c := &Check{}
	var scan line.Scanner
	var rec line.Record
	scan.Reset(s.file, 0, s.Size, s.maxLine)
	for scan.Next() {
		c.take(&scan, &rec)
	}
	if c.Lines == 0 && c.Torn == s.Size {
		c.damaged(record.Damage{Line: 1, Size: s.Size, Msg: "no meta line"})
	}
	return c, scan.Err
}

// take counts the current line.
func (c *Check) take(scan *line.Scanner, rec *line.Record) {
	l := &scan.Line
	scan.Decode(rec)
	if l.IsTorn(rec) {
		c.Torn, c.TornAt, c.TornLine = l.Size, l.Offset, scan.Number
		return
	}
	if !l.Glued {
		c.Lines++
	}
	if rec.Kind == record.KindBad {
		c.damaged(record.Damage{Line: scan.Number, Offset: l.Offset, Size: l.Size, Msg: rec.Reason()})
	} else if scan.Number == 1 && rec.Kind != record.KindMeta && !l.Glued {
		c.damaged(record.Damage{Line: 1, Size: l.Size, Msg: fmt.Sprintf("no meta line: line 1 is of kind %s", rec.Kind)})
	}
	switch rec.Kind {
	case record.KindMeta:
		c.Identified = true
	case record.KindMessage:
		c.Messages++
	case record.KindMarker:
		c.Markers++
	case record.KindMetaRecord:
		c.MetaRecords++
	case record.KindUnknown:
		c.Unknown++
	}
}

func (c *Check) damaged(d record.Damage) {
	c.Damaged++
	if len(c.Damage) < line.MaxDamage {
		c.Damage = append(c.Damage, d)
	}
}

// Repaired is the result of a repair.
type Repaired struct {
	Copy    string `json:"copy"`    // of the original file; "" if the file was valid
	Dropped int    `json:"dropped"` // lines that are only in the copy, a torn tail included
	Unglued int    `json:"unglued"` // complete records in bad lines, which are separate lines now
}

// Repair removes bad lines and a torn tail from a session, which can then be
// resumed. It copies the complete original file to .damaged. It returns
// ErrFormat for a session whose first line is not a meta line.
//
// Errors: [ErrNotFound], [ErrFormat], [ErrNotApplied], [ErrUnknown],
// *[vfs.LockedError], and the system's.
func (d *Dir) Repair(id string) (Repaired, error) {
	var did Repaired
	err := d.located(d.path, id, func(name string) error {
		m, err := d.readMetaLine(d.file(name))
		if err != nil {
			return err
		}
		id, _ := idOf(name, &m)
		lock, before, _, err := d.acquire(id, d.opts.LockWait)
		if err != nil {
			return err
		}
		did, err = d.repairLocked(id, name, lock, before)
		return errors.Join(err, lock.Unlock())
	})
	return did, err
}

func (d *Dir) repairLocked(id, name string, lock *sessionLock, before vfs.LockHolder) (did Repaired, err error) {
	f, err := d.fs.Open(d.file(name))
	if err != nil {
		return did, err
	}
	defer f.Close()
	s := Session{ID: id, File: name, Path: d.file(name), fs: d.fs, file: f, maxLine: d.opts.MaxLine}
	if err := s.Refresh(); err != nil {
		return did, err
	}
	info, err := f.Stat()
	if err != nil {
		return did, err
	}
	c, err := s.Check()
	valid := c.Damaged == 0 && c.Torn == 0
	if err != nil || valid && !d.maybeUnsynced(before, s.Size) { // it may be valid because of a repair that was not synced
		return did, err
	}
	if !valid {
		sum, err := checksum(f, s.Size)
		if err != nil {
			return did, err
		}
		did.Copy, err = d.setAside(damagedFolder, fmt.Sprintf("%s-%08x", shortSlug(id, maxAside), sum), f, 0, s.Size)
		if err != nil {
			return did, err
		}
	}
	err = d.replaceLocked(&s, lock, info, func(w io.Writer) (int64, error) { return s.writeGood(w, &did) })
	return did, err
}

// replaceLocked replaces the file of a session by the lines that write writes. write
// returns their size. The caller holds the session's lock.
func (d *Dir) replaceLocked(s *Session, lock *sessionLock, info fs.FileInfo, write func(io.Writer) (int64, error)) error {
	if err := lock.SetText(d.holder(-1).Text()); err != nil {
		return err
	}
	d.sweep(s.ID)
	size := int64(0)
	err := d.replace(s.Path, func(w io.Writer) (err error) {
		size, err = write(w)
		return err
	}, func(vfs.Pending) error { return d.check(lock, s.Path, info, s.Size) })
	if e := unkept(err); e != nil {
		d.keep(e, s.ID, s.file)
	}
	if err != nil {
		return err
	}
	if s.Path == d.file(s.File) {
		d.notify(func(w feed.Watcher) { w.Changed(s.File) })
	}
	_ = lock.SetText(d.holder(size).Text()) // without this text the next opener does not trust the file (S21)
	return nil
}

// writeGood writes the valid lines unchanged, and the complete records in bad
// lines.
func (s *Session) writeGood(w io.Writer, did *Repaired) (size int64, err error) {
	did.Dropped, did.Unglued = 0, 0
	var scan line.Scanner
	var rec line.Record
	scan.Reset(s.file, 0, s.Size, s.maxLine)
	for scan.Next() {
		l := &scan.Line
		scan.Decode(&rec)
		switch {
		case l.Pieces > 0:
			continue
		case l.Glued:
			did.Unglued++
		case rec.Kind == record.KindBad, l.IsTorn(&rec):
			did.Dropped++
			continue
		}
		n, err := w.Write(append(l.Bytes, '\n')) // the line's slice has no room: this copies it
		size += int64(n)
		if err != nil {
			return size, err
		}
	}
	return size, scan.Err
}
