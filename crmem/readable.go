package crmem

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// folded is the history after the last fold of a process.
type folded struct {
	files string           // as folder.listing returns; "" if unknown
	end   format.LogWriter // of the newest segment
}

// tail returns a writer for the end of the newest segment, which has size bytes. It
// returns false if the last operation of that segment is not f.prev, or if a reader
// cannot restore that operation. It reads the segments only if they changed
// since the last fold of this process.
func (f *folder) tail(size int64) (w format.LogWriter, ok bool) {
	was := &f.s.folded
	if was.files != "" && was.files == f.listing() {
		return was.end, was.end.Last == f.prev && was.end.End == size
	}
	scan := f.readable(was.files != "") // another program changed the files
	if scan == nil || scan.LogHeader != f.segments[len(f.segments)-1].head || scan.End != size || scan.Find(f.prev) != len(scan.Frames)-1 {
		return w, false
	}
	return scan.Writer(), true
}

// readable returns the segment with operation f.prev if a reader can restore that
// operation: if all segments from a base on are complete. Otherwise it returns nil.
// Unless all is set, it reads only the last 64 KiB of earlier segments, and not the
// base.
func (f *folder) readable(all bool) (found *format.LogScan) {
	next := f.prev
	for i := len(f.segments) - 1; i >= 0; i-- {
		g := &f.segments[i]
		if g.readHead(f.s.fs) != nil || g.head.Epoch != next.Epoch || g.head.Seq > next.Seq {
			continue // as past.chain
		}
		if found == nil || all || !g.endsWith(f.s.fs, next) {
			scan, err := g.scan(f.s.fs, maxLogFor(f.s.opts.MaxBytes))
			if err != nil || scan.Find(next) < 0 {
				return nil
			}
			found = cmp.Or(found, scan)
		}
		ok := hasBase(f.s.fs, f.dir, g.head.Base)
		if ok && all {
			_, err := readBase(f.s.fs, f.dir, g.head.Base, f.s.opts.MaxBytes)
			ok = err == nil
		}
		if ok {
			return found
		}
		next = g.head.Before
	}
	return nil
}

// endsWith reports whether an operation is in the last 64 KiB of the segment, and
// the last one.
func (g *segment) endsWith(fsys vfs.FS, last format.Place) bool {
	file, err := g.open(fsys)
	if err != nil {
		return false
	}
	defer file.Close()
	at := max(format.LogHeaderSize, file.size-64<<10)
	b := make([]byte, max(0, file.size-at))
	if n, _ := file.ReadAt(b, at); n < len(b) {
		return false
	}
	_, ok := g.head.Tail(b, at, last)
	return ok
}

// listing is listHistory of the folder's history.
func (f *folder) listing() string { return listHistory(f.s.fs, f.dir) }

// listHistory describes the segments and bases of a history, or returns "" if one cannot
// be described.
func listHistory(fsys vfs.FS, dir string) string {
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, e := range list {
		_, isSegment := format.ParseSegmentName(e.Name())
		if _, isBase := format.ParseBaseName(e.Name()); !isSegment && !isBase {
			continue
		}
		fi, err := fsys.Lstat(filepath.Join(dir, e.Name()))
		if err != nil {
			return ""
		}
		fmt.Fprintln(&b, e.Name(), fi.Mode(), fi.Size(), fi.ModTime().UnixNano(), vfs.Identify(fi).Ino)
	}
	return b.String()
}

// hasBase reports whether the history contains the base of a digest.
func hasBase(fsys vfs.FS, dir string, d format.Digest) bool {
	fi, err := fsys.Lstat(filepath.Join(dir, format.BaseName(d)))
	return err == nil && fi.Mode().IsRegular() && uint64(fi.Size()) == d.Len
}

// least returns the least time of operations, or format.NoTime.
func least(frames []format.Frame) int64 {
	at := int64(format.NoTime)
	for i := range frames {
		at = min(at, frames[i].Time())
	}
	return at
}
