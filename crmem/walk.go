package crmem

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"crabmem/crmem/internal/format"
)

// walker applies the operations of a history in order.
type walker struct {
	*past
	until Point
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
		if r.enc != "" && sn.t.byID(r.id) == "" && !w.yield(Change{Type: ChangeRemove, Before: entryOf(r.enc)}, nil) {
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
		if c.Type == ChangeAlias && !c.BeforeRedacted.Equal(c.AfterRedacted) { // the contents were different
			c.Type = ChangeUpdate
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
