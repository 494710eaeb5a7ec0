package crmem

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"crabmem/crmem/internal/format"
)

const rejoinedSuffix = ".rejoined-" // after walSuffix

// takeHeld renames the second link to the log's name, if the log is missing,
// unreadable, or has no operation of its own. It quarantines the replaced log.
func (r *repairer) takeHeld(v *files) (bool, error) {
	h := v.held
	if h == nil || v.ofOtherStore(h.scan) || v.scan != nil && !v.otherStore() && len((&files{dig: v.dig, scan: h.scan}).lacks(v.scan)) > 0 {
		return false, nil
	}
	if _, ok := h.scan.Covers(v.dig); !ok && r.db != nil && r.o.KeepLog == "" {
		return false, nil // it extends another snapshot
	}
	if r.log != nil {
		if err := r.asideLog(v, 0); err != nil {
			return false, err
		}
	}
	name := r.path + walSuffix
	if err := r.checkLock(); err != nil {
		return false, err
	}
	if err := r.fs.Rename(h.path, name); err != nil {
		return false, err
	}
	if err := r.fs.SyncDir(dirOf(name)); err != nil {
		return false, err
	}
	r.note("another program removed or replaced %s; repair restored it from the second link, which contains %v that the other log lacked", name, opCount(len(h.ops)))
	if err := v.readLog(r.fs, r.path, r.opts.MaxBytes); err != nil {
		return false, err
	}
	r.log, v.scan, v.others, r.logStat = v.log, nil, others{}, v.logStat
	return true, nil
}

// settle returns an error for logs with operations of their own, unless the
// options select an action. KeepDB and KeepLog quarantine such logs.
func (r *repairer) settle(v *files) error {
	err := v.refuse(r.path)
	if err == nil {
		return nil
	}
	if v.held != nil && v.ofOtherStore(v.held.scan) && !r.o.KeepDB && r.o.KeepLog == "" {
		return fmt.Errorf("%w: %s is a log of store %v, but %s identifies this store as %v: move one of the two files, or run crabmem repair --keep-db to quarantine the log",
			ErrForeign, v.held.path, v.held.scan.Store, r.path+idSuffix, v.id)
	}
	if r.o.Rejoin {
		return nil
	}
	if !r.o.KeepDB && r.o.KeepLog == "" {
		return fmt.Errorf("%w; this repair needs --rejoin, which adds the operations to the store, or --keep-db, which quarantines the log", err)
	}
	if l := v.held; l != nil {
		w := l.scan.Writer()
		kept, err := quarantine(r.fs, fmt.Sprintf("%s%s%s%d", r.path, walSuffix, damagedSuffix, w.Seq), l.bytes)
		if err != nil {
			return err
		}
		r.rep.Files = append(r.rep.Files, RepairedFile{File: l.path, Bytes: int64(len(l.bytes)), Recovered: 0, Aside: int64(len(l.bytes)), Kept: kept})
		if err := r.fs.Remove(l.path); err != nil {
			return err
		}
	}
	v.held, v.heldInfo = nil, nil
	return r.fs.SyncDir(dirOf(r.path))
}

// rejoin adds the second link's operations to the recovered store, and renames the link.
// It loses no text: if both changed a name, the store keeps its entry, and the link's
// entry gets a new name.
func (r *repairer) rejoin(v *files) error {
	l := v.held
	if l == nil {
		return nil
	}
	if v.scan == nil || r.log == nil {
		r.t, r.nextID = v.snap.t, v.snap.NextID
	}
	if !r.mergeChanges(v, l) {
		r.mergeEntries(l)
	}
	r.t.sort()
	end := int64(0)
	if v.scan != nil {
		end = v.scan.End
	}
	if err := r.write(v, end); err != nil {
		return err
	}
	if err := r.nameRejoined(l); err != nil {
		return err
	}
	r.linkHeld()
	return nil
}

// nameRejoined renames a log of which the store has the operations.
func (r *repairer) nameRejoined(l *sideLog) error {
	w := l.scan.Writer()
	name, err := r.moveToFree(l.path, fmt.Sprintf("%s%s%s%d", r.path, walSuffix, rejoinedSuffix, w.Seq-1))
	if err != nil {
		return err
	}
	n := int64(len(l.bytes))
	r.rep.Files = append(r.rep.Files, RepairedFile{File: l.path, Bytes: n, Recovered: n, Aside: 0, Kept: name})
	return r.fs.SyncDir(dirOf(r.path))
}

// mergeChanges applies the changes of a log that extends the present snapshot.
// It returns false if the log does not, or if its operations cannot be
// replayed. If the store changed an entry since then, the store keeps its text
// and the log's text gets a new name.
func (r *repairer) mergeChanges(v *files, l *sideLog) bool {
	seq, ok := l.scan.Covers(v.dig)
	if !ok {
		return false
	}
	base, _ := Decode(r.db) // run decoded r.db without an error
	side, _ := Decode(r.db)
	// The store and the log may have operations in common: they come first.
	lacks := map[*format.Frame]bool{}
	for _, f := range l.ops {
		lacks[f] = true
	}
	for i := range l.scan.Frames {
		f := &l.scan.Frames[i]
		if f.Type == format.FrameCheckpoint || f.Seq <= seq {
			continue
		}
		if !lacks[f] && applyFrame(f, &base.t, &base.NextID) != nil || applyFrame(f, &side.t, &side.NextID) != nil {
			return false
		}
	}
	for e := range base.t.all() {
		r.mergeChange(l, base.t.byID(e.ID), side.t.byID(e.ID))
	}
	for e := range side.t.all() {
		if base.t.byID(e.ID) == "" {
			r.add(e)
		}
	}
	r.nextID = max(r.nextID, side.NextID)
	r.note("%s: added %v", l.path, opCount(len(l.ops)))
	return true
}

// mergeChange makes one change of a log: from before to after, which is "" if
// the log removes the entry.
func (r *repairer) mergeChange(l *sideLog, before, after format.Record) {
	if after == before {
		return
	}
	have := r.t.byID(before.ID())
	switch same := r.t.byName(nameOr(after, before)); {
	case have == after:
	case have == before && after == "":
		r.t.remove(before.ID())
	case have == before && (same == "" || same.ID() == before.ID()):
		r.t.remove(before.ID())
		r.t.put(after)
	case after == "":
		r.note("%s removes %.80q, but the store changed the entry: kept it", l.path, before.Name())
	default:
		r.add(entryOf(after))
	}
}

// nameOr returns the name of r, or of other if r is "".
func nameOr(r, other format.Record) string {
	if r == "" {
		return other.Name()
	}
	return r.Name()
}

// mergeEntries adds the entries that the operations of a log produce.
func (r *repairer) mergeEntries(l *sideLog) {
	var t table
	next := uint64(1)
	removed, skipped := map[uint64]bool{}, 0
	for _, f := range l.ops {
		if len(f.Payload) < 8 { // not a valid operation: each begins with an ID
			skipped++
			continue
		}
		id := binary.LittleEndian.Uint64(f.Payload)
		if f.Type == format.FrameAlias || f.Type == format.FrameRename {
			if rec := r.t.byID(id); t.byID(id) == "" && rec != "" {
				t.put(rec)
			}
		}
		if f.Type == format.FrameRemove || f.Type == format.FramePurge {
			removed[id] = true
		}
		if salvageFrame(f, &t, &next) != nil && f.Type != format.FrameRemove {
			skipped++
		}
	}
	added, conflicts := 0, 0
	for e := range t.all() {
		delete(removed, e.ID)
		switch r.add(e) {
		case "added":
			added++
		case "conflict":
			conflicts++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(removed)) {
		if rec := r.t.byID(id); rec != "" {
			r.note("%s removes %.80q, but the store contains the entry: kept it", l.path, rec.Name())
		}
	}
	r.note("%s: added %d entries, renamed %d of them, skipped %d operations", l.path, added+conflicts, conflicts, skipped)
}

// add adds an entry of another log, unless the store has the same.
func (r *repairer) add(e Entry) string {
	result, name := "added", e.Name
	for n := 1; ; n++ {
		old := r.t.byName(e.Name)
		if old == "" {
			break
		}
		have := entryOf(old)
		if have.Content == e.Content && have.Kind == e.Kind && slices.Equal(have.Aliases, e.Aliases) {
			return "same" // also if an earlier repair, which a crash stopped, added it
		}
		e.Name, result = fmt.Sprintf("%s (rejoined %d)", name, n), "conflict"
	}
	if result == "conflict" {
		r.note("the store and a rejoined log both contain %.80q: renamed the log's entry to %.80q", name, e.Name)
	}
	if r.t.byID(e.ID) != "" || result == "conflict" {
		e.ID = r.nextID
	}
	r.t.put(recordOf(&e))
	r.nextID = max(r.nextID, e.ID+1)
	return result
}
