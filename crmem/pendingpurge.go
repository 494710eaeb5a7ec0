package crmem

import (
	"slices"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// unfinished are the purges and redactions that are not complete. Readers show a
// history as if they were complete, because a writer may have rewritten some of its
// files and not yet others (FORMAT.md, H18).
type unfinished struct {
	ids        map[uint64]bool // of purged entries
	redactions []redaction
	at         int64 // when the redactions began, in nanoseconds
}

// isEmpty reports whether there is no purge and no redaction.
func (u *unfinished) isEmpty() bool { return len(u.ids)+len(u.redactions) == 0 }

// findUnfinished returns the unfinished purges and redactions of files that were read.
func (v *files) findUnfinished(fsys vfs.FS, path string) unfinished {
	s := newStore(&Options{FS: fsys})
	defer s.stop()
	s.path, s.id = path, v.id
	if v.idErr != nil && v.scan != nil {
		s.id = v.scan.Store
	}
	fi, err := fsys.Lstat(path + purgeSuffix)
	v.purge = err == nil
	s.notePurges(v)
	u := unfinished{ids: s.purging, redactions: s.unredacted()}
	if err == nil {
		u.at = fi.ModTime().UnixNano()
	}
	if v.snap == nil || u.isEmpty() {
		return u
	}
	for id := range u.ids { // an entry that exists was restored
		if v.present(id) != "" {
			delete(u.ids, id)
		}
	}
	u.redactions = slices.DeleteFunc(u.redactions, func(r redaction) bool { return r.isOf(v.present(r.id)) })
	return u
}

// present returns the record of an entry after the operations of the log, without
// aliases and names that operations set alone, or "".
func (v *files) present(id uint64) format.Record {
	r := v.snap.t.byID(id)
	seq, bound := v.point()
	if !bound {
		return r
	}
	for i := range v.scan.Frames {
		f := &v.scan.Frames[i]
		if f.Seq <= seq || f.Type == format.FrameCheckpoint || f.EntryID() != id {
			continue
		}
		switch f.Type {
		case format.FramePut:
			r = format.Record(format.View(f.Payload))
		case format.FrameRemove, format.FramePurge:
			r = ""
		}
	}
	return r
}

// hide removes the texts from the operations of a link, as a purge does.
func (u *unfinished) hide(frames []format.Frame) {
	for i := range frames {
		f := &frames[i]
		if u.ids[f.EntryID()] && f.Type != format.FramePurge && f.Type != format.FramePurged {
			f.Type, f.Payload = format.FramePurged, f.Payload[:8]
		}
		if f.Type != format.FramePut {
			continue
		}
		for _, r := range u.redactions {
			if r.isOf(format.Record(format.View(f.Payload))) {
				f.Payload = []byte(format.Record(f.Payload).WithoutContent())
				f.Context = format.WithRedacted(f.Context, []uint64{f.Seq}, u.at)
			}
		}
	}
}

// hideIn removes the texts from a base.
func (u *unfinished) hideIn(sn *Snapshot) {
	if u.isEmpty() {
		return
	}
	for id := range u.ids {
		if sn.t.byID(id) != "" {
			sn.t.remove(id)
		}
	}
	for _, r := range u.redactions {
		if old := sn.t.byID(r.id); r.isOf(old) {
			sn.t.put(old.WithoutContent())
		}
	}
	sn.t.sort()
}

// base reads the base of a digest, without the texts of unfinished purges.
func (p *past) base(d format.Digest) (*Snapshot, error) {
	sn, err := readBase(p.fsys, p.dir, d, p.max)
	if err == nil {
		p.unfinished.hideIn(sn)
	}
	return sn, err
}

// isStale reports whether a writer has rewritten or folded files since p was read.
func (p *past) isStale() bool { return p.listing != "" && p.listing != listHistory(p.fsys, p.dir) }

// PurgePending reports whether a purge or a redaction of the store at path is not
// complete. It takes no lock.
func PurgePending(fsys vfs.FS, path string, maxBytes int64) (bool, error) {
	if maxBytes == 0 {
		maxBytes = defaultMaxBytes
	}
	path, err := fsys.Resolve(path)
	if err != nil {
		return false, err
	}
	v, err := readFiles(fsys, path, maxBytes, true, false)
	if err != nil {
		return false, err
	}
	u := v.findUnfinished(fsys, path)
	return !u.isEmpty(), nil
}
