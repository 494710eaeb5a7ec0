package crmem

import (
	"encoding/binary"
	"fmt"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// salvage recovers the readable entries of a snapshot, and applies the
// operations of the log to them.
func (r *repairer) salvage(v *files, why error) error {
	r.note("%v", why)
	recs, next, recovered := format.Salvage(r.db)
	if len(recs) == 0 && !format.WasStore(r.db) {
		return fmt.Errorf("%w; salvage: no entries found: move the file", why)
	}
	t := table{}
	t.init(len(recs))
	for _, rc := range recs {
		t.append(rc)
	}
	skipped := 0
	if v.scan != nil {
		for i := range v.scan.Frames {
			f := &v.scan.Frames[i]
			// An effect is self-contained, so all of them are applied, even
			// those that the snapshot contains already.
			if f.Type == format.FramePut && len(f.Payload) >= format.MinRecord {
				next = max(next, binary.LittleEndian.Uint64(f.Payload)+1)
			}
			if f.Type != format.FrameCheckpoint && salvageFrame(f, &t, &next) != nil {
				skipped++
			}
		}
	}
	t.sort()
	r.note("recovered %d entries from the corrupt snapshot, %d after replaying the log", len(recs), t.live)
	if skipped > 0 {
		r.note("%d operations of the log change entries that could not be read", skipped)
	}
	if err := r.asideDB(recovered); err != nil {
		return err
	}
	end := int64(0)
	if v.scan != nil {
		end = v.scan.End
	}
	if end < int64(len(r.log)) {
		if err := r.asideLog(v, end); err != nil {
			return err
		}
	}
	r.t, r.nextID = t, next
	return r.write(v, end)
}

// salvageFrame applies a frame to a table that may lack the entry, or may
// already contain the change.
func salvageFrame(f *format.Frame, t *table, next *uint64) error {
	if f.Type == format.FramePut && len(f.Payload) >= format.MinRecord {
		id := binary.LittleEndian.Uint64(f.Payload)
		if old := t.byID(id); old != "" {
			t.remove(id)
			if err := applyFrame(f, t, next); err != nil {
				t.put(old)
				return err
			}
			return nil
		}
	}
	return applyFrame(f, t, next)
}

// replays reports whether the snapshot on disk and every operation of the log lead to
// a state.
func (r *repairer) replays(v *files) bool {
	b, err := vfs.ReadFile(r.fs, r.path, r.opts.MaxBytes)
	seq, ok := v.scan.Covers(format.DigestOf(b))
	if err != nil || !ok {
		return false
	}
	if format.DigestOf(b) == v.scan.Base { // the log becomes a segment from its first operation on
		seq = v.scan.Seq - 1
	}
	sn, err := Decode(b)
	if err != nil {
		return false
	}
	_, err = v.replay(&sn.t, &sn.NextID, seq)
	return err == nil
}

// keptNewer returns the error with which Repair refuses a file of a newer program:
// the repair would remove entries from it.
func keptNewer(err error) error {
	return fmt.Errorf("%w; nothing was changed; if the file is corrupt, run crabmem repair --quarantine-newer", err)
}

// fromLogAlone recovers a store without a snapshot. This requires a log that
// began with the empty store.
func (r *repairer) fromLogAlone(v *files) error {
	empty, err := NewSnapshot(1, nil)
	if err != nil {
		return err
	}
	b, err := empty.AppendBinary(nil)
	if err != nil {
		return err
	}
	if v.scan == nil || v.scan.Base != format.DigestOf(b) {
		return fmt.Errorf("%w: %s is missing, and its log does not begin with an empty store: use --keep-log BASE, where BASE is a copy of the snapshot",
			ErrForeign, r.path)
	}
	if _, err := v.replay(&empty.t, &empty.NextID, v.scan.Seq-1); err != nil {
		return inFile(err, r.path+walSuffix)
	}
	if v.scan.End < int64(len(r.log)) {
		if err := r.asideLog(v, v.scan.End); err != nil {
			return err
		}
	}
	r.note("%s was missing; recovered all entries from its log", r.path)
	if err := r.putDB(b); err != nil {
		return err
	}
	r.t, r.nextID = empty.t, empty.NextID
	return r.write(v, v.scan.End)
}

// putDB puts the snapshot back that the log extends.
func (r *repairer) putDB(b []byte) error {
	if err := r.markDirty(); err != nil {
		return err
	}
	if err := vfs.WriteFile(r.fs, r.path, 0o600, b); err != nil {
		return err
	}
	fi, err := r.fs.Lstat(r.path)
	if err != nil {
		return err
	}
	r.dbDig, r.dbStat = format.DigestOf(b), fileStat{fi}
	return nil
}
