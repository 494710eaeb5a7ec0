package crmem

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"crabmem/crmem/internal/format"
)

// redaction is a content of an entry to remove from the files of a store.
type redaction struct {
	id  uint64
	sum [sha256.Size]byte // of the content
}

// isOf reports whether a record has the content. The record may be empty.
func (r redaction) isOf(rec format.Record) bool {
	if rec == "" || rec.ID() != r.id {
		return false
	}
	content, _ := rec.Content()
	return sha256.Sum256([]byte(content)) == r.sum
}

// Redact removes the content of an entry after change seq from every file of the store,
// also from other versions of the entry with the same content. The change and the other
// fields remain. deleted are as for [Store.Purge], whose notes on writers and on copies
// hold here. If the content was redacted before, Redact has no effect.
//
// Errors: [ErrNotFound] if the history has no such change, or if it removed the entry;
// [ErrCurrent] if the entry has the content now; those of [Store.Apply]. After any
// other error, the next open for writing completes the redaction.
func (s *Store) Redact(id, seq uint64) (deleted []string, err error) {
	if err := s.beginPurge(); err != nil {
		return nil, err
	}
	defer s.bg.Done()
	c, err := s.changeOf(id, seq)
	if err != nil {
		return nil, err
	}
	defer s.excludeWriters()()
	if err := s.writable(); err != nil {
		return nil, err
	}
	if !c.AfterRedacted.IsZero() {
		if len(s.redacting) == 0 {
			return nil, nil
		}
		return s.finishOrRetry() // other files may still contain the text
	}
	if err := s.ready(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	if err := s.loadLocked(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	r := redaction{id, sha256.Sum256([]byte(c.After.Content))}
	if r.isOf(s.t.byID(id)) {
		return nil, &nameError{ErrCurrent, c.After.Name, ""}
	}
	if err := s.beginRedaction(r); err != nil {
		return nil, err
	}
	return s.finishOrRetry()
}

// beginRedaction makes a redaction durable that the next open for writing completes.
// The caller holds wmu.
func (s *Store) beginRedaction(r redaction) error {
	old := maps.Clone(s.redacting)
	s.noteRedaction(r)
	p, err := s.fs.Pending(s.path+purgeSuffix, 0o600)
	if err == nil {
		if _, err = io.WriteString(p, format.IdentityText(s.id)+s.unfinishedLines()); err == nil {
			err = p.Sync()
		}
		if err != nil {
			err = errors.Join(err, p.Discard())
		}
	}
	if err != nil {
		s.redacting = old
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	// The durable name of the file is the commit point.
	if err := p.Commit(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, s.fail(errors.Join(err, p.Discard())))
	}
	if err := s.fs.SyncDir(dirOf(s.path)); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, s.fail(err))
	}
	return nil
}

// changeOf returns change seq of the entry with an ID, which the change did not remove.
func (s *Store) changeOf(id, seq uint64) (Change, error) {
	var found Change
	var damage error
	for c, err := range s.ChangesOfID(id) {
		switch {
		case err != nil && !isDamage(err):
			return found, fmt.Errorf("%w: read the history: %w", ErrNotApplied, err)
		case err != nil:
			damage = err
		case c.Seq == seq && seq > 0 && c.After.ID == id:
			found = c // a later epoch may use the number again
		}
	}
	if found.Seq == 0 && damage != nil {
		return found, fmt.Errorf("%w: change %d of entry %d: %w", ErrNotFound, seq, id, damage)
	}
	if found.Seq == 0 {
		return found, fmt.Errorf("%w: the history has no change %d of entry %d that sets a text", ErrNotFound, seq, id)
	}
	return found, nil
}

// redacts reports whether a frame contains a redacted content.
func (p *purger) redacts(f *format.Frame) bool {
	return f.Type == format.FramePut && p.ofRedaction(f.EntryID()) &&
		slices.ContainsFunc(p.redactions, func(r redaction) bool { return r.isOf(format.Record(format.View(f.Payload))) })
}

// ofRedaction reports whether a redaction concerns an entry.
func (p *purger) ofRedaction(id uint64) bool {
	return slices.ContainsFunc(p.redactions, func(r redaction) bool { return r.id == id })
}

// redact removes the redacted contents from the operations of a batch, and reports
// whether there was one.
func (p *purger) redact(epoch format.ID, batch []format.Frame) bool {
	var seqs []uint64
	marked := false // also by an interrupted redaction
	for i := range batch {
		f := &batch[i]
		id := f.EntryID()
		if !p.ofRedaction(id) {
			continue
		}
		switch {
		case p.redacts(f):
			f.Payload = []byte(format.Record(f.Payload).WithoutContent())
			seqs = append(seqs, f.Seq)
			p.removed[id] = place{}
		case f.RedactedAt() != 0:
			p.removed[id], marked = place{}, true
		case f.Type == format.FramePut || f.Type == format.FrameRemove || f.Type == format.FramePurge:
			p.removed[id] = place{epoch, f.Seq}
		}
	}
	if len(seqs) == 0 && !marked {
		return false
	}
	now := p.s.opts.Now().UnixNano()
	for i := range batch {
		if len(seqs) > 0 {
			batch[i].Context = format.WithRedacted(batch[i].Context, seqs, now)
		}
		p.stubs[place{epoch, batch[i].Seq}] = batch[i].RecordCRC()
	}
	return len(seqs) > 0
}

// Redacted returns when the content of the entry that [Change.Entry] returns was removed,
// or zero.
func (c *Change) Redacted() time.Time {
	if c.After.ID == 0 {
		return c.BeforeRedacted
	}
	return c.AfterRedacted
}

// dropRedacted forgets redactions of contents that a base does not continue.
func (w *walker) dropRedacted(sn *Snapshot) {
	maps.DeleteFunc(w.redacted, func(id uint64, _ time.Time) bool {
		r := sn.t.byID(id)
		if r == "" {
			return true
		}
		content, _ := r.Content()
		return content != ""
	})
}

// noteRedacted records whether the content that an operation sets was redacted. It
// returns when the content before was, or zero.
func (w *walker) noteRedacted(f *format.Frame) time.Time {
	id := f.EntryID()
	before := w.redacted[id]
	if f.Type != format.FramePut {
		return before // a remove may be followed by a put of the same entry
	}
	delete(w.redacted, id)
	if at := f.RedactedAt(); at != 0 {
		if w.redacted == nil {
			w.redacted = make(map[uint64]time.Time)
		}
		w.redacted[id] = time.Unix(0, at)
	}
	return before
}
