package crmem

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"crabmem/crmem/history"
	"crabmem/crmem/internal/format"
)

// Change is a change of one entry, from the history or the log of a store.
type Change struct {
	Seq    uint64    // sequence number; 0 if another program changed the store's file
	Time   time.Time // effective time (FORMAT.md, H11); zero if unknown
	By     history.Actor
	Type   history.Type
	Before Entry // ID 0 if the change created the entry
	After  Entry // ID 0 if the change removed the entry

	// When [Store.Redact] removed the content of Before or After; zero: it did not.
	BeforeRedacted, AfterRedacted time.Time
}

// Entry returns the entry after the change or, if the change removed it, before.
func (c *Change) Entry() *Entry {
	if c.After.ID == 0 {
		return &c.Before
	}
	return &c.After
}

// Changes returns every change of the store, oldest first, with the part of the
// history that exists. It reads the files, also while a writer uses them, and needs
// no lock. An error with a zero Change reports a damaged part; later changes
// follow. A store in RAM has no changes.
func (s *Store) Changes() iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		var shown place // of the last change that was yielded
		for try := 1; ; try++ {
			p, err := s.past()
			if err != nil {
				yield(Change{}, err)
				return
			}
			if p == nil {
				return
			}
			again := false
			w := walker{past: p, skip: shown}
			w.yield = func(c Change, err error) bool {
				if err != nil && try < maxReads && p.isStale() {
					again = true
					return false
				}
				if w.skip != (place{}) { // yielded before
					return true
				}
				if err == nil && c.Seq > 0 {
					shown = place{w.epoch, c.Seq}
				}
				return yield(c, err)
			}
			w.all()
			if again {
				continue
			}
			if w.skip != (place{}) && !w.done {
				yield(Change{}, fmt.Errorf("%s: another process changed the history after change %d was read: read it again", p.dir, shown.seq))
			}
			return
		}
	}
}

// maxReads is how often a history is read that changes meanwhile.
const maxReads = 20

// past reads the history. It returns nil without an error if the store has no
// files.
func (s *Store) past() (*past, error) {
	s.mu.RLock()
	path := s.path
	s.mu.RUnlock()
	if path == "" {
		return nil, nil
	}
	p, err := readPast(s.fs, path, s.opts.MaxBytes)
	if err != nil && s.NextID() == 1 && s.Len() == 0 {
		if absent, _ := s.absence(); absent {
			return nil, nil
		}
	}
	return p, err
}

// At returns the store as it was after a point.
//
// Errors: [ErrNotFound] if the history begins after the point or ends before it, and
// those of [Store.Changes].
func (s *Store) At(point history.Point) (*Snapshot, error) {
	for try := 1; ; try++ {
		p, err := s.past()
		if err != nil {
			return nil, err
		}
		if p == nil || len(p.links) == 0 {
			return nil, fmt.Errorf("%w: the store has no history", ErrNotFound)
		}
		sn, err := p.at(point)
		if err == nil || try == maxReads || !p.isStale() {
			return sn, err
		}
	}
}

// at is At for a history that was read.
func (p *past) at(point history.Point) (*Snapshot, error) {
	err := fmt.Errorf("%w: the history begins after %v", ErrNotFound, point)
	for i := len(p.links) - 1; i >= 0; i-- {
		w := walker{past: p, until: point}
		begins, berr := w.beginsBefore(i)
		if berr != nil || !begins {
			continue
		}
		if err = w.walk(i); err != nil {
			continue // an earlier base may lead to the point without the damaged part
		}
		if !w.done && w.applied < point.Seq {
			return nil, fmt.Errorf("%w: the history ends before %v", ErrNotFound, point)
		}
		w.t.sort()
		return &Snapshot{NextID: w.nextID, t: w.t}, nil
	}
	return nil, err
}

// walker applies the operations of a history in order.
type walker struct {
	*past
	until history.Point
	yield func(Change, error) bool // nil: only until counts

	t      table
	nextID uint64
	begun  bool // t is the state before the next operation

	redacted map[uint64]time.Time // when the content of an entry in t was removed

	epoch   format.ID // of the present link
	skip    place     // operations up to this one are not yielded
	applied uint64    // sequence number of the last operation of the present link
	done    bool      // the walk ended before the end of the history
}

// errDone ends a walk.
var errDone = errors.New("done")

// scanOf returns the operations of a link that count, in complete batches.
func (w *walker) scanOf(l *link) (*format.LogScan, error) {
	scan := l.scanned
	if scan == nil {
		var err error
		if scan, err = l.scan(w.fsys, w.max); scan == nil {
			return nil, err
		}
	}
	kept := *scan
	kept.Frames = make([]format.Frame, 0, len(scan.Frames))
	for _, f := range scan.Frames {
		if f.Type != format.FrameCheckpoint && f.Seq <= l.limit {
			kept.Frames = append(kept.Frames, f)
		}
	}
	if !w.unfinished.isEmpty() {
		w.unfinished.hide(kept.Frames)
	}
	return &kept, nil
}

// beginsBefore reports whether link i begins with a state that is not after until.
func (w *walker) beginsBefore(i int) (bool, error) {
	l := &w.links[i]
	if !l.start && (l.scanned != nil || !hasBase(w.fsys, w.dir, l.head.Base)) {
		return false, nil
	}
	if w.until.Seq > 0 {
		return l.header().Seq <= w.until.Seq+1, nil
	}
	until := w.until.Time.UnixNano()
	if l.scanned != nil && l.scanned.Ops() == 0 { // the snapshot, which did not change since its time
		if info := w.files.stat.info; info == nil || info.ModTime().After(w.until.Time) {
			return false, nil
		}
		if i == 0 {
			return true, nil
		}
		before, err := w.scanOf(&w.links[i-1])
		if err != nil {
			return false, err
		}
		n := len(before.Frames)
		return n > 0 && before.Frames[n-1].Time() <= until, nil
	}
	at, err := w.timeFrom(i)
	return at <= until, err
}

// all yields the errors of segments that cannot be read, and then every change.
func (w *walker) all() {
	for _, err := range w.bad {
		if !w.yield(Change{}, err) {
			return
		}
	}
	w.walk(0)
}

// walk applies the links from number i on. The result is an error of a damaged part
// if yield is nil.
func (w *walker) walk(i int) error {
	for first := i; i < len(w.links); i++ {
		if i > first && w.begun && w.until.Seq > 0 && w.applied == w.until.Seq {
			return nil
		}
		err := w.follow(i, i == first)
		if err == errDone {
			w.done = true
			return nil
		}
		if err != nil {
			w.begun = false
			if w.yield == nil {
				return err
			}
			if !w.yield(Change{}, err) {
				return nil
			}
		}
	}
	if w.yield != nil && w.begun && !w.bound {
		w.yieldOthers(w.files.snap)
	}
	return nil
}

// follow applies link i. first is set for the first link of a walk.
func (w *walker) follow(i int, first bool) error {
	l := &w.links[i]
	scan, err := w.scanOf(l)
	if err != nil {
		return err
	}
	if !l.start && !first && !w.begun && l.scanned == nil && !hasBase(w.fsys, w.dir, scan.Base) {
		return nil // the error of an earlier link says so
	}
	w.applied, w.epoch = scan.Seq-1, scan.Epoch
	if l.start || first || !w.begun {
		if err := w.takeBase(l, scan, first); err != nil {
			return err
		}
	}
	var times []int64
	if w.yield != nil || !w.until.Time.IsZero() {
		after, err := w.timeFrom(i + 1)
		if err != nil && w.yield == nil {
			return err
		}
		times = format.EffectiveTimes(scan.Frames, after)
	}
	for frames := scan.Frames; len(frames) > 0; {
		n := 1 + slices.IndexFunc(frames, func(f format.Frame) bool { return !f.More })
		if n == 0 {
			return &FormatError{Path: l.path, Offset: frames[0].Offset, Entry: -1, Field: "frame", Msg: "the next segment begins inside this batch"}
		}
		at := int64(format.NoTime)
		if times != nil {
			at = times[len(times)-len(frames)]
		}
		if err := w.batch(frames[:n], at); err != nil {
			return inFile(err, l.path)
		}
		w.applied = frames[n-1].Seq
		frames = frames[n:]
	}
	if n := len(scan.Frames); l.limit != noLimit && (n == 0 || scan.Frames[n-1].Seq != l.limit) {
		if scan.Verdict == format.Clean {
			return &FormatError{Path: l.path, Offset: scan.End, Entry: -1, Field: "frame",
				Msg: fmt.Sprintf("changes %d to %d are missing: the segment ends before them", w.applied+1, l.limit)}
		}
		return &FormatError{Path: l.path, Offset: scan.Bad, Entry: -1, Field: "frame",
			Msg: fmt.Sprintf("the segment ends before operation %d: damaged (%s)", l.limit, scan.Why)}
	}
	return nil
}

// takeBase sets the state before a link from its base. It yields the changes that
// another program made since the state before.
func (w *walker) takeBase(l *link, scan *format.LogScan, first bool) error {
	sn, err := w.base(scan.Base)
	if err != nil && l.scanned != nil { // the snapshot has some operations of the log
		sn, err = w.files.snap, nil
		w.unfinished.hideIn(sn)
		scan.Frames = slices.DeleteFunc(scan.Frames, func(f format.Frame) bool { return f.Seq <= w.seq })
	}
	if err != nil {
		return fmt.Errorf("%w: the state before operation %d, the first in %s: %w", ErrNotFound, scan.Seq, l.path, err)
	}
	if w.begun && !first && w.yield != nil && !w.yieldOthers(sn) {
		return errDone
	}
	w.t, w.nextID, w.begun = sn.t, sn.NextID, true
	w.dropRedacted(sn)
	return nil
}

// yieldOthers yields the differences between the present state and a base.
func (w *walker) yieldOthers(sn *Snapshot) bool {
	w.t.sort()
	for _, r := range w.t.recs {
		if r.enc != "" && sn.t.byID(r.id) == "" && !w.yield(Change{Type: history.Remove, Before: entryOf(r.enc)}, nil) {
			return false
		}
	}
	for _, r := range sn.t.recs {
		if old := w.t.byID(r.id); r.enc != "" && old != r.enc && !w.yield(changeOf(old, r.enc), nil) {
			return false
		}
	}
	return true
}

// batch applies a batch with an effective time, and yields its changes. A remove that
// is followed by a put of the same entry is one change.
func (w *walker) batch(frames []format.Frame, at int64) error {
	_, by := frames[len(frames)-1].Origin()
	timed := at != format.NoTime
	if w.until.Seq > 0 && frames[0].Seq > w.until.Seq || timed && !w.until.Time.IsZero() && at > w.until.Time.UnixNano() {
		return errDone
	}
	removed := map[uint64]format.Record{} // to be put again in this batch
	for i := range frames {
		f := &frames[i]
		id := f.EntryID()
		before := w.t.byID(id)
		if err := applyFrame(f, &w.t, &w.nextID); err != nil {
			return err
		}
		after := w.t.byID(id)
		beforeRedacted := w.noteRedacted(f)
		if f.Type == format.FramePurged { // a stub may be of the operation that added it
			w.nextID = max(w.nextID, id+1)
		}
		if w.yield == nil {
			continue
		}
		if w.skip != (place{}) {
			if w.skip.epoch == w.epoch && f.Seq >= w.skip.seq {
				w.skip = place{}
			}
			continue
		}
		if after == "" && slices.ContainsFunc(frames[i+1:], func(g format.Frame) bool { return g.Type == format.FramePut && g.EntryID() == id }) {
			removed[id] = before
			continue
		}
		if old, ok := removed[id]; ok {
			before = old
			delete(removed, id)
		}
		if before == "" && after == "" { // a purge of an entry that was removed
			continue
		}
		if before == "" && reserves(frames[i:]) { // see Store.reserveIDs
			w.t.remove(id)
			break
		}
		c := changeOf(before, after)
		c.Seq, c.By = f.Seq, by
		c.BeforeRedacted, c.AfterRedacted = beforeRedacted, w.redacted[id]
		if c.Type == history.Alias && !c.BeforeRedacted.Equal(c.AfterRedacted) { // the contents were different
			c.Type = history.Update
		}
		if timed {
			c.Time = time.Unix(0, at)
		}
		if !w.yield(c, nil) {
			return errDone
		}
	}
	return nil
}

// reserves reports whether frames begin with the two operations that reserve IDs.
func reserves(frames []format.Frame) bool {
	return len(frames) == 2 && frames[0].Type == format.FramePut && frames[1].Type == format.FrameRemove && frames[0].EntryID() == frames[1].EntryID() &&
		frames[1].Seq == frames[0].Seq+1 && !frames[1].More // a batch of ChangesOf omits operations of other entries
}

// changeOf returns the change between two records of an entry, of which one may be
// empty.
func changeOf(before, after format.Record) (c Change) {
	if before != "" {
		c.Before = entryOf(before)
	}
	if after != "" {
		c.After = entryOf(after)
	}
	switch {
	case before == "":
		c.Type = history.Add
	case after == "":
		c.Type = history.Remove
	case c.Before.Name != c.After.Name:
		c.Type = history.Rename
	case c.Before.Content == c.After.Content && c.Before.Kind == c.After.Kind && c.Before.CreatedAt == c.After.CreatedAt:
		c.Type = history.Alias
	default:
		c.Type = history.Update
	}
	return c
}

// Undo restores the entry of change seq to its state before the change, with its ID
// and its time. It returns the change that it made. first is as for
// [Store.Overwrite].
//
// Errors: [ErrNotFound] if the history has no such change; [ErrStale] if the entry
// changed since; [ErrExists] if another entry has its name; those of
// [Store.Apply].
func (s *Store) Undo(seq uint64, first ...Op) (Change, error) {
	found := Change{}
	for c, err := range s.Changes() {
		if err == nil && c.Seq == seq {
			found = c // a later epoch may use the number again
		}
	}
	if found.Seq == 0 || seq == 0 {
		return Change{}, fmt.Errorf("%w: the history has no change %d", ErrNotFound, seq)
	}
	if !found.BeforeRedacted.IsZero() {
		return Change{}, fmt.Errorf("%w: the text before change %d was redacted", ErrNotFound, seq)
	}
	if err := s.Apply(append(slices.Clip(first), revert{found.After, found.Before})...); err != nil {
		return Change{}, err
	}
	return changeOf(recordIf(found.After), recordIf(found.Before)), nil
}

// recordIf encodes e, or returns "" if e has no ID.
func recordIf(e Entry) format.Record {
	if e.ID == 0 {
		return ""
	}
	return recordOf(&e)
}
