package crmem

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// history removes the texts from the bases and segments (FORMAT.md, H12). New
// bases come first and old ones go last, so that every segment has its base after
// a crash.
func (p *purger) history() error {
	p.s.folding.Lock()
	defer p.s.folding.Unlock()
	p.bases, p.stubs, p.removed = make(map[format.Digest]format.Digest), make(map[place]uint32), make(map[uint64]place)
	segments, err := listSegments(p.s.fs, p.dir)
	if err != nil {
		return err
	}
	if err := p.otherFiles(); err != nil {
		return err
	}
	if err := removeIndexes(p.s.fs, p.dir, nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p.s.folded = folded{}
	for i := range segments {
		if err := p.segment(&segments[i], segments[i+1:]); err != nil {
			return err
		}
	}
	for _, name := range p.unused {
		if err := p.s.fs.Remove(name); err != nil {
			return err
		}
	}
	if _, err := p.s.fs.Lstat(p.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return p.syncDir(p.dir)
}

// otherFiles rewrites the bases, and removes temporary files.
func (p *purger) otherFiles() error {
	list, err := p.s.fs.ReadDir(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		name := filepath.Join(p.dir, e.Name())
		d, isBase := format.ParseBaseName(e.Name())
		switch {
		case !e.Type().IsRegular():
		case strings.HasPrefix(e.Name(), "."):
			err = p.s.fs.Remove(name)
		case isBase:
			err = p.base(name, d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// base writes a base without the entries, if it contains one.
func (p *purger) base(name string, d format.Digest) error {
	sn, err := readBase(p.s.fs, p.dir, d, p.s.opts.MaxBytes)
	if errors.Is(err, ErrFormat) {
		return p.remove(name)
	}
	if err == nil && p.again && !p.has(sn) {
		_, err = saveBase(p.s.fs, p.dir, sn)
	}
	if err != nil || !p.has(sn) {
		return err
	}
	u := unfinished{ids: p.ids, redactions: p.redactions}
	u.hideIn(sn)
	if p.bases[d], err = saveBase(p.s.fs, p.dir, sn); err != nil {
		return err
	}
	p.unused = append(p.unused, name)
	return nil
}

// saveBase writes a snapshot as a base, and returns its digest.
func saveBase(fsys vfs.FS, dir string, sn *Snapshot) (format.Digest, error) {
	var dig format.Digest
	if _, err := sn.WriteTo(&dig); err != nil {
		return dig, err
	}
	return dig, vfs.Replace(fsys, filepath.Join(dir, format.BaseName(dig)), 0o600, func(w io.Writer) error {
		_, err := sn.WriteTo(w)
		return err
	})
}

// segment rewrites a segment if it contains a text, or a checksum of one. It drops
// the bytes after the last operation that can be read. later are the newer segments.
func (p *purger) segment(g *segment, later []segment) error {
	if err := g.removeUnused(p.s.fs); err != nil {
		return err
	}
	b, err := g.readAll(p.s.fs, maxLogFor(p.s.opts.MaxBytes))
	if err != nil && !errors.Is(err, ErrFormat) {
		return err
	}
	scan, serr := format.ScanPrefix(b)
	serr = cmp.Or(serr, err)
	if scan == nil {
		return p.remove(g.path)
	}
	h := scan.LogHeader
	change := p.again || serr != nil || scan.End < int64(len(b))
	if serr != nil || scan.End < int64(len(b)) && !p.continues(scan, later) {
		p.deleted = append(p.deleted, fmt.Sprintf("%s from offset %d on", g.path, scan.End))
	}
	if d, ok := p.bases[h.Base]; ok {
		h.Base, change = d, true
		for id := range p.ids {
			p.removed[id] = place{}
		}
		for _, r := range p.redactions {
			p.removed[r.id] = place{}
		}
	} else if hasBase(p.s.fs, p.dir, h.Base) {
		clear(p.removed)
	} else if h.Base != (format.Digest{}) && (p.again || p.covers(&h)) {
		h.Base, change = format.Digest{}, true // there is no base of this digest
	}
	if crc, ok := p.stubs[place{h.Before.Epoch, h.Before.Seq}]; ok && h.Before.CRC != crc {
		h.Before.CRC, change = crc, true
	}
	kept, stubbed := p.stub(scan)
	if !change && !stubbed {
		return nil
	}
	return writeSegment(p.s.fs, g, h, kept)
}

// continues reports whether a later segment or the log begins at or before the end of
// a scan, so that the bytes after it are a torn tail (FORMAT.md, H7).
func (p *purger) continues(scan *format.LogScan, later []segment) bool {
	w := scan.Writer()
	return len(later) == 0 || slices.ContainsFunc(later, func(g segment) bool {
		return g.readHead(p.s.fs) == nil && g.head.Epoch == w.Epoch && g.head.Seq <= w.Seq
	})
}

// covers reports whether the state before a segment may contain an entry, so that
// its digest is one of the text.
func (p *purger) covers(h *format.LogHeader) bool {
	for _, at := range p.removed {
		if at.epoch != h.Epoch || h.Seq <= at.seq {
			return true
		}
	}
	return false
}

// stub returns the frames of a segment with stubs in place of the operations on
// the entries, and without redacted contents. It reports whether that changes the
// segment.
func (p *purger) stub(scan *format.LogScan) (kept []format.Frame, changed bool) {
	for _, f := range scan.Frames {
		if f.Type == format.FrameCheckpoint { // only in a log that became a segment
			changed = changed || len(p.removed) > 0
			continue
		}
		id := f.EntryID()
		if p.ids[id] {
			p.removed[id] = place{} // also for a stub, which an interrupted purge wrote
			if f.Type == format.FrameRemove || f.Type == format.FramePurge {
				p.removed[id] = place{scan.Epoch, f.Seq}
			}
			if p.concerns(&f) { // the stub has the context, which is that of the batch
				f.Type, f.Payload = format.FramePurged, f.Payload[:8]
				changed = true
			}
			p.stubs[place{scan.Epoch, f.Seq}] = f.RecordCRC()
		}
		kept = append(kept, f)
	}
	for rest := kept; len(rest) > 0; {
		n := 1 + slices.IndexFunc(rest, func(f format.Frame) bool { return !f.More })
		if n == 0 { // a torn batch
			n = len(rest)
		}
		changed = p.redact(scan.Epoch, rest[:n]) || changed
		rest = rest[n:]
	}
	return kept, changed
}

// writeSegment replaces a segment by one with the frames.
func writeSegment(fsys vfs.FS, g *segment, h format.LogHeader, frames []format.Frame) error {
	h.Salt = rand.Uint64()
	b := h.Append(nil)
	w := h.Writer()
	start := w.End
	for i := range frames {
		b = w.AppendCopy(b, &frames[i], start)
	}
	return g.replace(fsys, b)
}
