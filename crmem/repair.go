package crmem

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

const damagedSuffix = ".damaged-"

// repairer is one active repair.
type repairer struct {
	*Store
	o   *RepairOptions
	rep *RepairResult
	db  []byte // nil: missing
	log []byte // nil: missing
}

// Repair makes a store valid. It destroys no bytes: it moves invalid bytes to
// quarantine files next to the store, and reports them. It does not change a
// valid store.
//
// Errors: [ErrForeign] if log and snapshot do not match and neither KeepDB nor
// KeepLog selects one; [ErrNewer] if a newer program wrote the store and
// QuarantineNewer is not set; [ErrNewer] or [ErrOlder] for a log of another version,
// which only KeepDB quarantines; [vfs.ErrLocked]; [ErrNoStore].
func Repair(path string, o *RepairOptions) (*RepairResult, error) {
	if o == nil {
		o = &RepairOptions{}
	}
	s := newStore(&Options{FS: o.FS, LockWait: o.LockWait, Command: o.Command, MaxBytes: o.MaxBytes, History: HistoryOff})
	defer s.stop()
	resolved, err := s.fs.Resolve(path)
	if err != nil {
		return nil, err
	}
	s.path = resolved
	r := &repairer{Store: s, o: o, rep: &RepairResult{Path: resolved, Files: []RepairedFile{}, Notes: []string{}}}
	s.opts.Warn = func(line string) { r.note("%s", line) }
	if err := r.exists(); err != nil {
		return nil, err
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if _, _, err := s.acquire(); err != nil {
		return nil, err
	}
	err = r.run()
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
	}
	if err == nil && s.dirty {
		err = s.markClean(s.w.End)
	}
	err = errors.Join(err, s.lock.Unlock())
	if err != nil {
		return nil, err
	}
	return r.rep, nil
}

func (r *repairer) exists() error {
	_, err1 := r.fs.Lstat(r.path)
	_, err2 := r.fs.Lstat(r.path + walSuffix)
	_, err3 := r.fs.Lstat(r.path + walSuffix + heldSuffix)
	if errors.Is(err1, fs.ErrNotExist) && errors.Is(err2, fs.ErrNotExist) && errors.Is(err3, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s does not exist", ErrNoStore, r.path)
	}
	return nil
}

func (r *repairer) note(format string, args ...any) {
	r.rep.Notes = append(r.rep.Notes, fmt.Sprintf(format, args...))
}

func (r *repairer) run() error {
	v, missing, err := r.read()
	if err != nil {
		return err
	}
	readable, why := r.readLog(v)
	if err := v.findOthers(r.fs, r.path, r.opts.MaxBytes); err != nil {
		return err
	}
	if !r.o.KeepDB || readable { // otherwise the log becomes a quarantine file
		v.noteVersion(why, r.path+walSuffix)
	}
	if v.version != nil {
		return fmt.Errorf("%w; nothing was changed", v.version)
	}
	if err := r.takeIdentity(v); err != nil {
		return err
	}
	if taken, err := r.takeHeld(v); err != nil {
		return err
	} else if taken {
		readable, why = r.readLog(v)
		if err := v.findOthers(r.fs, r.path, r.opts.MaxBytes); err != nil {
			return err
		}
	}
	if v.held == nil { // otherwise it has operations that the store lacks
		r.heldInfo = v.heldInfo
	}
	if err := r.settle(v); err != nil {
		return err
	}
	switch {
	case r.o.KeepLog != "":
		return r.keepLog(v)
	case missing:
		return r.fromLogAlone(v)
	}
	var derr error
	v.snap, derr = Decode(r.db)
	switch {
	case errors.Is(v.checkNewer(derr), ErrNewer) && !r.o.QuarantineNewer:
		return keptNewer(inFile(derr, r.path))
	case derr != nil:
		return r.salvage(v, inFile(derr, r.path))
	}
	if r.log == nil {
		r.rep.Entries = v.snap.Len()
		if r.o.Rejoin {
			return r.rejoin(v)
		}
		return nil
	}
	seq, ok := uint64(0), false
	if readable {
		seq, ok = v.point()
	}
	switch {
	case !readable && !ok:
		r.note("%s: %v", r.path+walSuffix, why)
		return r.dropLog(v, 0)
	case !ok && v.scan.Ops() > 0 && !r.o.KeepDB && v.otherStore():
		return v.checkIdentity(r.path)
	case !ok && v.scan.Ops() > 0 && !r.o.KeepDB:
		return fmt.Errorf("%w: log %s has %v for the snapshot %v, but %s is %v: run crabmem repair --keep-db to quarantine the log, or crabmem repair --keep-log BASE to use the snapshot that the log extends",
			ErrForeign, r.path+walSuffix, opCount(v.scan.Ops()), v.scan.Base, r.path, v.dig)
	case !ok:
		return r.dropLog(v, 0)
	}
	if err := r.replayPrefix(v, seq, why); err != nil || !r.o.Rejoin {
		return err
	}
	if len(r.rep.Files) > 0 {
		r.note("repaired the corrupt log: run crabmem repair --rejoin again")
		return nil
	}
	return r.rejoin(v)
}

// read reads the files. missing reports that the snapshot is missing.
func (r *repairer) read() (v *files, missing bool, err error) {
	v = &files{}
	r.db, err = v.readSnapshot(r.fs, r.path, r.opts.MaxBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	if missing = err != nil; !missing {
		if err := r.oneName(); err != nil {
			return nil, false, err
		}
		v.dig = format.DigestOf(r.db)
	}
	err = v.readLog(r.fs, r.path, r.opts.MaxBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, notAStore(err)
	}
	r.log = v.log
	v.id, v.idErr = readIdentity(r.fs, r.path)
	r.dbDig, r.dbStat, r.logStat = v.dig, v.stat, v.logStat
	return v, missing, nil
}

// readLog scans the log. For an invalid log why is the reason and v.scan is the
// valid prefix. It returns false if the prefix is empty.
func (r *repairer) readLog(v *files) (bool, error) {
	if r.log == nil {
		return false, nil
	}
	scan, err := format.ScanPrefix(r.log)
	if scan == nil {
		return false, err
	}
	if err == nil && scan.Verdict != format.Clean {
		err = v.reason(scan)
	}
	v.scan = scan
	return true, err
}

func (v *files) reason(scan *format.LogScan) error {
	return fmt.Errorf("%v at offset %d: %s", scan.Verdict, scan.Bad, scan.Why)
}

// replayPrefix recovers the snapshot and the operations before the corruption.
func (r *repairer) replayPrefix(v *files, seq uint64, why error) error {
	end := v.scan.End
	t, next := &v.snap.t, v.snap.NextID
	for i := range v.scan.Frames {
		f := &v.scan.Frames[i]
		if f.Type == format.FrameCheckpoint || f.Seq <= seq {
			continue
		}
		if err := applyFrame(f, t, &next); errors.Is(err, ErrNewer) && !r.o.QuarantineNewer {
			return keptNewer(inFile(err, r.path+walSuffix))
		} else if err != nil {
			end, why = r.batchStart(v.scan, i), err
			v.scan, _ = format.ScanLog(r.log[:end])
			// The batch may have been applied in part: begin again without it.
			v.snap, _ = Decode(r.db)
			t, next = &v.snap.t, v.snap.NextID
			if _, err := v.replay(t, &next, seq); err != nil {
				return inFile(err, r.path+walSuffix)
			}
			break
		}
	}
	t.sort()
	r.t, r.nextID = *t, next
	r.rep.Entries = t.live
	if end == int64(len(r.log)) {
		return nil
	}
	r.note("%s: %v", r.path+walSuffix, why)
	if err := r.asideLog(v, end); err != nil {
		return err
	}
	return r.write(v, end)
}

// batchStart returns the offset of the batch that frame i belongs to.
func (r *repairer) batchStart(s *format.LogScan, i int) int64 {
	for i > 0 && s.Frames[i-1].More {
		i--
	}
	return s.Frames[i].Offset
}

// asideLog keeps the log's bytes from end on.
func (r *repairer) asideLog(v *files, end int64) error {
	seq := uint64(0)
	if v.scan != nil {
		w := v.scan.Writer()
		seq = w.Seq
	}
	kept, err := quarantine(r.fs, fmt.Sprintf("%s%s%s%d", r.path, walSuffix, damagedSuffix, seq), r.log[end:])
	r.rep.Files = append(r.rep.Files, RepairedFile{File: r.path + walSuffix, Bytes: int64(len(r.log)), Recovered: end, Aside: int64(len(r.log)) - end, Kept: kept})
	return err
}

// write makes the recovered state the store's: the good part of the log, in a
// new file, names the new snapshot before it appears.
func (r *repairer) write(v *files, end int64) error {
	if err := r.markDirty(); err != nil {
		return err
	}
	b := r.log[:end]
	if v.scan == nil || end < format.LogHeaderSize {
		h, err := r.newHeader(1, format.Place{})
		if err != nil {
			return err
		}
		b = h.Append(nil)
		v.scan, _ = format.ScanLog(b)
	}
	if err := r.replaceLog(b, v.scan.Writer()); err != nil {
		return err
	}
	if v.scan.Ops() > 0 && r.replays(v) {
		name, err := r.linkLog(v.scan.Base)
		if err != nil {
			r.note("%s keeps its changes, which the next checkpoint moves to the history: %v", r.path+walSuffix, err)
			r.rep.Entries = r.t.live
			return nil
		}
		r.note("the history has the log as %s", name)
	}
	r.distrust = true
	r.w.Epoch = format.ID{} // the state may differ from that after the log's operations
	r.rep.Entries = r.t.live
	return r.checkpointLocked()
}

// dropLog quarantines the complete log and uses the snapshot unchanged.
func (r *repairer) dropLog(v *files, end int64) error {
	if err := r.asideLog(v, end); err != nil {
		return err
	}
	if err := r.markDirty(); err != nil {
		return err
	}
	if err := r.syncSnapshot(); err != nil {
		return err
	}
	r.rep.Entries = v.snap.Len()
	return r.newLog(r.newestSeq(), nil, format.Place{})
}

// asideDB quarantines the complete snapshot.
func (r *repairer) asideDB(recovered int64) error {
	name := fmt.Sprintf("%s%s%08x", r.path, damagedSuffix, crc32.Checksum(r.db, format.Castagnoli()))
	kept, err := quarantine(r.fs, name, r.db)
	r.rep.Files = append(r.rep.Files, RepairedFile{File: r.path, Bytes: int64(len(r.db)), Recovered: recovered, Aside: int64(len(r.db)) - recovered, Kept: kept})
	return err
}

// keepLog uses another file as the snapshot that the log extends.
func (r *repairer) keepLog(v *files) error {
	base, err := r.fs.Resolve(r.o.KeepLog)
	if err != nil {
		return err
	}
	b, err := vfs.ReadFile(r.fs, base, r.opts.MaxBytes)
	if err != nil {
		return err
	}
	if v.scan == nil {
		return fmt.Errorf("%w: %s has no readable log", ErrForeign, r.path)
	}
	sn, err := Decode(b)
	if err != nil {
		return inFile(err, base)
	}
	bv := &files{dig: format.DigestOf(b), scan: v.scan}
	seq, ok := v.scan.Covers(bv.dig)
	if !ok {
		return fmt.Errorf("%w: %s has the digest %v, but the log extends %v", ErrForeign, base, bv.dig, v.scan.Base)
	}
	if _, err := bv.replay(&sn.t, &sn.NextID, seq); err != nil {
		return inFile(err, r.path+walSuffix)
	}
	if base != r.path {
		if r.db != nil {
			if err := r.asideDB(0); err != nil {
				return err
			}
		}
		if err := r.putDB(b); err != nil {
			return err
		}
	}
	if v.scan.End < int64(len(r.log)) {
		if err := r.asideLog(v, v.scan.End); err != nil {
			return err
		}
	}
	r.t, r.nextID = sn.t, sn.NextID
	return r.write(v, v.scan.End)
}
