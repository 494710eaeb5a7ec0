package crmem

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// unfinishedLines returns the lines of the file of unfinished purges and redactions.
func (s *Store) unfinishedLines() string {
	var lines strings.Builder
	for _, id := range s.unpurged() {
		fmt.Fprintln(&lines, id)
	}
	for _, r := range s.unredacted() {
		fmt.Fprintln(&lines, r.id, hex.EncodeToString(r.sum[:]))
	}
	return lines.String()
}

// writePurge makes lines of unfinishedLines durable in a file.
func (s *Store) writePurge(id format.ID, lines string) error {
	return vfs.WriteFile(s.fs, s.path+purgeSuffix, 0o600, []byte(format.IdentityText(id)+lines))
}

// readPurge adds the purges and redactions in the file of unfinished ones.
func (s *Store) readPurge() error {
	name := s.path + purgeSuffix
	b, err := vfs.ReadFile(s.fs, name, 1<<20)
	if err != nil {
		return err
	}
	rest, ok := strings.CutPrefix(string(b), format.IdentityText(s.id))
	if !ok {
		return fmt.Errorf("%s: not of this store", name)
	}
	for line := range strings.Lines(rest) {
		text, complete := strings.CutSuffix(line, "\n")
		first, sum, redacts := strings.Cut(text, " ")
		id, err := strconv.ParseUint(first, 10, 64)
		r := redaction{id: id}
		n, serr := hex.Decode(r.sum[:], []byte(sum[:min(len(sum), 2*len(r.sum))]))
		switch {
		case err != nil || id == 0 || !complete || redacts && (serr != nil || n < len(r.sum) || len(sum) > 2*n):
			return fmt.Errorf("%s: invalid id %.40q", name, line)
		case redacts:
			s.noteRedaction(r)
		default:
			s.notePurge(id, true)
		}
	}
	return nil
}

// pending returns the id of a purge or purged operation, and whether it begins a
// purge.
func pending(typ byte, payload format.Record) (id uint64, begins, ok bool) {
	if typ != format.FramePurge && typ != format.FramePurged || len(payload) != 8 {
		return 0, false, false
	}
	return binary.LittleEndian.Uint64([]byte(payload)), typ == format.FramePurge, true
}

// notePurges sets s.purging from the operations of the log and the file of an
// unfinished purge. The caller has exclusive use of the store.
func (s *Store) notePurges(v *files) {
	if v.scan != nil {
		for _, f := range v.scan.Frames {
			if id, begins, ok := pending(f.Type, format.Record(format.View(f.Payload))); ok {
				s.notePurge(id, begins)
			}
		}
	}
	if !v.purge {
		return
	}
	if err := s.readPurge(); err != nil {
		s.warn("%v: it names entries whose purged texts may remain in files of the store; purge them again, then remove this file", err)
	}
}

// notePurge records that a purge began or ended. The caller holds wmu.
func (s *Store) notePurge(id uint64, begins bool) {
	if s.purging == nil {
		s.purging = make(map[uint64]bool)
	}
	if begins {
		s.purging[id] = true
	} else {
		delete(s.purging, id)
	}
}

// unpurged returns the ids of entries whose purge is not complete. An entry that
// exists is not one: a person restored it, or a backup that contains it.
func (s *Store) unpurged() (ids []uint64) {
	for id := range s.purging {
		if s.t.byID(id) == "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// resumePurge completes the purge that an earlier process began. The caller has
// exclusive use of the store.
func (s *Store) resumePurge() {
	if len(s.purging)+len(s.redacting) == 0 {
		return
	}
	if s.unfinishedLines() == "" {
		s.fs.Remove(s.path + purgeSuffix) //nolint:errcheck // it names no text to remove
		return
	}
	s.interrupted = true
	deleted, err := s.finishPurge()
	if err == nil {
		err = s.checkpointLocked() // as after every recovery, the log is empty
	}
	s.reportPurge(deleted, err)
	if err != nil {
		s.retryPurge()
	}
}

// noteRedaction records that a redaction began. The caller holds wmu, or has exclusive
// use of the store.
func (s *Store) noteRedaction(r redaction) {
	if s.redacting == nil {
		s.redacting = make(map[redaction]bool)
	}
	s.redacting[r] = true
}

// unredacted returns the redactions that are not complete. An entry that has the content
// again keeps it.
func (s *Store) unredacted() (list []redaction) {
	for r := range s.redacting {
		if !r.isOf(s.t.byID(r.id)) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b redaction) int { return cmp.Or(cmp.Compare(a.id, b.id), bytes.Compare(a.sum[:], b.sum[:])) })
	return list
}

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
