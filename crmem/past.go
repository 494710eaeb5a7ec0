package crmem

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// readBase reads the base of a digest.
func readBase(fsys vfs.FS, dir string, d format.Digest, max int64) (*Snapshot, error) {
	path := filepath.Join(dir, format.BaseName(d))
	b, err := vfs.ReadFile(fsys, path, max)
	if err != nil {
		return nil, notAStore(err)
	}
	if got := format.DigestOf(b); got != d {
		return nil, &FormatError{Path: path, Entry: -1, Field: "digest", Msg: fmt.Sprintf("the file is %v", got)}
	}
	sn, err := Decode(b)
	return sn, inFile(err, path)
}

// link is a segment, or the log, whose operations lead to the present state.
type link struct {
	segment
	scanned *format.LogScan // of the log
	limit   uint64          // sequence number of the last operation that counts
	start   bool            // the operation before it is not in the history

	least int64 // least time of its operations, if timed is set
	timed bool
}

// noLimit is above every sequence number.
const noLimit = 1 << 63

// past is the history of a store and its log.
type past struct {
	fsys  vfs.FS
	dir   string
	max   int64
	files *files
	seq   uint64   // sequence number that the snapshot of files covers
	bound bool     // the snapshot of files is a point of the log
	links []link   // oldest first; the log, if it exists, is last
	bad   []error  // of segments that no link contains
	first uint64   // number of the oldest segment
	last  uint64   // number of the newest segment
	names []string // of the segments
	times []int64  // of the last links, newest first, as timeFrom returns

	unfinished unfinished
	listing    string // as listHistory returned before the segments were read
}

// readPast reads the log and then lists the segments. If they do not match, it reads
// them again, until two reads are equal (FORMAT.md, H9).
func readPast(fsys vfs.FS, path string, maxBytes int64) (*past, error) {
	var before *past
	for try := 1; ; try++ {
		p, ok, err := readPastOnce(fsys, path, maxBytes)
		if err != nil || ok || try == 20 || p.equal(before) {
			return p, err
		}
		before = p
		time.Sleep(5 * time.Millisecond)
	}
}

// readPastOnce is readPast, once. It returns false if log, snapshot, and segments do
// not match.
func readPastOnce(fsys vfs.FS, path string, maxBytes int64) (_ *past, ok bool, err error) {
	v, err := readFiles(fsys, path, maxBytes, true, false)
	if err != nil {
		return nil, false, err
	}
	return pastOf(fsys, path, maxBytes, v)
}

// pastOf lists the segments and compares them with the files v of a store. It returns
// false if they do not match.
func pastOf(fsys vfs.FS, path string, maxBytes int64, v *files) (_ *past, ok bool, err error) {
	p := &past{fsys: fsys, dir: path + historySuffix, max: maxLogFor(maxBytes), files: v, unfinished: v.findUnfinished(fsys, path)}
	p.listing = listHistory(fsys, p.dir)
	if p.files.scan != nil {
		p.seq, p.bound = p.files.point()
	}
	ok = p.bound || p.files.scan == nil
	segments, err := listSegments(fsys, p.dir)
	if err != nil {
		return nil, false, err
	}
	for i := range segments {
		p.first, p.last = segments[0].n, segments[i].n
		p.names = append(p.names, segments[i].path)
		if err := segments[i].readHead(fsys); errors.Is(err, fs.ErrNotExist) {
			ok = false
		}
	}
	found := p.chain(segments)
	for p.excludeOther(segments) {
		p.links = nil
		found = p.chain(segments)
	}
	for i := range segments {
		if segments[i].other && p.beganEmpty(segments[i].n) {
			continue // of a store that was removed before this one was created
		}
		if err := segments[i].err; err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.bad = append(p.bad, err)
		}
	}
	// A directory listing can omit a segment that a writer compresses concurrently.
	again, err := listSegments(fsys, p.dir)
	same := slices.EqualFunc(p.names, again, func(name string, g segment) bool { return name == g.path })
	return p, found && ok && same, err
}

// beganEmpty reports whether the history begins after segment n, with an empty store.
func (p *past) beganEmpty(n uint64) bool {
	if len(p.links) == 0 {
		return false
	}
	first := &p.links[0]
	h := first.header()
	return (first.scanned != nil || n < first.n) && h.Before == (format.Place{}) && h.Base.Len == format.HeaderSize
}

// excludeOther looks for a segment of another store in the links, newest first, and
// sets its err. A segment with another identity belongs to the store if the state
// after it is the base of the next link, because a new identity does not change the
// entries (FORMAT.md, H14). A purge may have removed that digest.
func (p *past) excludeOther(segments []segment) bool {
	for i := len(p.links) - 1; i > 0; i-- {
		l := &p.links[i-1]
		next := p.links[i].header()
		if l.head.Store == next.Store || next.Base == (format.Digest{}) {
			continue
		}
		from := i - 1
		for !p.links[from].start {
			from--
		}
		w := walker{past: &past{fsys: p.fsys, dir: p.dir, max: p.max, links: p.links[:i], unfinished: p.unfinished}}
		if err := w.walk(from); err == nil {
			w.t.sort()
			sn := Snapshot{NextID: w.nextID, t: w.t}
			if p.leadsTo(&sn, next.Base) {
				continue
			}
		}
		k := slices.IndexFunc(segments, func(g segment) bool { return g.n == l.n })
		segments[k].other = true
		segments[k].err = &FormatError{Path: l.path, Entry: -1, Field: "store", Msg: fmt.Sprintf("segment of store %v, not of %v", l.head.Store, next.Store)}
		return true
	}
	return false
}

// leadsTo reports whether a state equals the state of a base. During a purge, the digest may be
// of the base before or after it.
func (p *past) leadsTo(sn *Snapshot, base format.Digest) bool {
	var dig format.Digest
	if _, err := sn.WriteTo(&dig); err != nil {
		return false
	}
	if dig == base || p.unfinished.isEmpty() {
		return dig == base
	}
	other, err := p.base(base)
	if err != nil {
		return true // a purge may have removed it
	}
	var want format.Digest
	_, err = other.WriteTo(&want)
	return err == nil && dig == want
}

// header returns the header of the segment or log.
func (l *link) header() *format.LogHeader {
	if l.scanned != nil {
		return &l.scanned.LogHeader
	}
	return &l.head
}

// equal reports whether two reads found the same snapshot, log, and segments.
func (p *past) equal(before *past) bool {
	return before != nil && p.files.dig == before.files.dig && string(p.files.log) == string(before.files.log) && slices.Equal(p.names, before.names)
}

// chain sets the links, newest first and then in order. It returns false if the
// operation before the log is not in the segments.
func (p *past) chain(segments []segment) (found bool) {
	found = true
	end := len(segments)
	var next *format.LogHeader // of the link after
	if scan := p.files.scan; scan != nil && p.bound {
		p.links = append(p.links, link{scanned: scan, limit: noLimit})
		next = &scan.LogHeader
	}
	for {
		i, limit := before(segments[:end], next)
		if next != nil && i < 0 {
			last := &p.links[len(p.links)-1]
			last.start = true
			found = found && (len(p.links) > 1 || next.Before == format.Place{})
			i, limit = boundary(segments[:end], next)
		}
		if i < 0 {
			break
		}
		first, none := segments[i].head.Pruned()
		if none {
			break
		}
		p.links = append(p.links, link{segment: segments[i], limit: limit})
		if first {
			break
		}
		next, end = &segments[i].head, i
	}
	if n := len(p.links); n > 0 {
		p.links[n-1].start = true
	}
	slices.Reverse(p.links)
	return found
}

// before returns the segment with the operation before the log or segment of a
// header, and that operation's sequence number, or -1. Without a header, it returns
// the newest segment.
func before(segments []segment, h *format.LogHeader) (int, uint64) {
	for i := len(segments) - 1; i >= 0; i-- {
		g := &segments[i]
		switch {
		case g.err != nil:
		case h == nil:
			return i, noLimit
		case h.Before != format.Place{} && g.head.Epoch == h.Before.Epoch && g.head.Seq <= h.Before.Seq:
			return i, h.Before.Seq
		}
	}
	return -1, 0
}

// boundary returns the newest segment that the log or segment of a header does not
// replace (FORMAT.md, H4), and the last sequence number that counts in it, or -1.
func boundary(segments []segment, h *format.LogHeader) (int, uint64) {
	for i := len(segments) - 1; i >= 0; i-- {
		g := &segments[i]
		switch {
		case g.err != nil:
		case g.head.Epoch != h.Epoch:
			return i, noLimit
		case g.head.Seq < h.Seq:
			return i, h.Seq - 1
		}
	}
	return -1, 0
}

// timeFrom returns the least time of the operations of link i and of later ones, which
// is the effective time of the first of them, or format.NoTime. It reads a change index
// in place of a segment. It ignores damaged parts.
func (p *past) timeFrom(i int) (int64, error) {
	at := int64(format.NoTime)
	for k := len(p.links) - 1; k >= i; k-- {
		if n := len(p.links) - 1 - k; n < len(p.times) {
			at = p.times[n]
			continue
		}
		least, err := p.leastTime(&p.links[k])
		if err != nil && !isDamage(err) {
			return at, err
		}
		at = min(at, least)
		p.times = append(p.times, at)
	}
	return at, nil
}

// leastTime returns the least time of the operations of a link that count.
func (p *past) leastTime(l *link) (int64, error) {
	if l.timed {
		return l.least, nil
	}
	if l.scanned == nil {
		if x, err := openIndex(p.fsys, p.dir, &l.segment); err == nil {
			defer x.close()
			if x.LastSeq <= l.limit {
				return x.Time, nil
			}
		}
	}
	w := walker{past: p}
	scan, err := w.scanOf(l)
	if err != nil {
		return format.NoTime, err
	}
	return least(scan.Frames), nil
}
