package crmem

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/klauspost/compress/zstd"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// segment is a file of a history.
type segment struct {
	path  string // of the file that counts
	both  bool   // a compressed file exists, too; readers ignore it
	n     uint64
	head  format.LogHeader
	read  bool
	err   error // of the header
	other bool  // it is of another store
}

// listSegments returns the segments of a history, oldest first, or none if there
// is no history.
func listSegments(fsys vfs.FS, dir string) ([]segment, error) {
	list, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var segments []segment
	for _, e := range list {
		if n, ok := format.ParseSegmentName(e.Name()); ok {
			segments = append(segments, segment{path: filepath.Join(dir, e.Name()), n: n})
		}
	}
	sort.Slice(segments, func(i, j int) bool {
		a, b := &segments[i], &segments[j]
		return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.path, b.path)) < 0
	})
	counting := segments[:0]
	for _, g := range segments {
		if k := len(counting); k > 0 && counting[k-1].n == g.n {
			counting[k-1].both = true
			continue
		}
		counting = append(counting, g)
	}
	return counting, nil
}

// nextSegment returns the path of a new segment.
func nextSegment(dir string, segments []segment) string {
	n := uint64(1)
	if len(segments) > 0 {
		n = segments[len(segments)-1].n + 1
	}
	return filepath.Join(dir, format.SegmentName(n))
}

// compressed reports whether the file that counts is compressed.
func (g *segment) compressed() bool { return strings.HasSuffix(g.path, format.CompressedSuffix) }

// otherPath returns the path of the segment in its other form.
func (g *segment) otherPath() string {
	if plain, ok := strings.CutSuffix(g.path, format.CompressedSuffix); ok {
		return plain
	}
	return g.path + format.CompressedSuffix
}

// removeUnused removes a compressed file that readers ignore.
func (g *segment) removeUnused(fsys vfs.FS) error {
	if !g.both {
		return nil
	}
	g.both = false
	return fsys.Remove(g.otherPath())
}

// segmentFile is an open segment. Offsets and size are those of the decoded segment.
type segmentFile struct {
	file  vfs.File
	path  string
	size  int64       // of the segment
	bytes io.ReaderAt // the file, or its decoded content
}

// open opens the segment. The caller must close it.
func (g *segment) open(fsys vfs.FS) (*segmentFile, error) {
	file, err := fsys.Open(g.path)
	if errors.Is(err, fs.ErrNotExist) { // a writer may have compressed it since it was listed
		if other, oerr := fsys.Open(g.otherPath()); oerr == nil {
			file, err, g.path = other, nil, g.otherPath()
		}
	}
	if err != nil {
		return nil, notAStore(err)
	}
	f := &segmentFile{file: file, path: g.path, bytes: file}
	fi, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	f.size = fi.Size()
	if g.compressed() {
		c, err := format.OpenCompressed(file, f.size)
		if err != nil {
			file.Close()
			return nil, inFile(err, g.path)
		}
		f.bytes, f.size = c, c.Size()
	}
	return f, nil
}

func (f *segmentFile) Close() error { return f.file.Close() }

func (f *segmentFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.bytes.ReadAt(b, off)
	return n, inFile(err, f.path)
}

// readHead reads the header, once.
func (g *segment) readHead(fsys vfs.FS) error {
	if g.read {
		return g.err
	}
	g.read = true
	f, err := g.open(fsys)
	if err != nil {
		g.err = err
		return g.err
	}
	defer f.Close()
	b := make([]byte, format.LogHeaderSize)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		g.err = err
	} else if g.head, g.err = format.ReadLogHeader(b[:n]); g.err != nil {
		g.err = inFile(g.err, g.path)
	}
	return g.err
}

// readAll reads a segment of at most max bytes. If a compressed file is damaged, it
// returns the bytes before the damage and a *FormatError.
func (g *segment) readAll(fsys vfs.FS, max int64) ([]byte, error) {
	f, err := g.open(fsys)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.size > max {
		return nil, notAStore(&vfs.TooLargeError{Name: g.path, Size: f.size, Max: max})
	}
	step := f.size
	if g.compressed() { // do not trust the size before the frames are decoded
		step = min(step, 1<<20)
	}
	b := make([]byte, 0, min(f.size, 16<<20))
	for int64(len(b)) < f.size {
		k := int(min(step, f.size-int64(len(b))))
		b = slices.Grow(b, k)
		n, err := f.ReadAt(b[len(b):len(b)+k], int64(len(b)))
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, ErrFormat):
			return b, err
		case n == k:
		case err == nil || err == io.EOF:
			err = io.ErrUnexpectedEOF
			fallthrough
		default:
			return nil, &fs.PathError{Op: "read", Path: g.path, Err: fmt.Errorf("read %d of %d bytes: %w", len(b), f.size, err)}
		}
	}
	return b, nil
}

// scan reads the segment. With an error it returns the part before the error, or
// nil.
func (g *segment) scan(fsys vfs.FS, max int64) (*format.LogScan, error) {
	b, err := g.readAll(fsys, max)
	if len(b) == 0 && err != nil {
		return nil, err
	}
	scan, serr := format.ScanPrefix(b)
	if err == nil {
		return scan, inFile(serr, g.path)
	}
	if damage, ok := errors.AsType[*FormatError](err); ok && scan != nil {
		scan.Bad, scan.Why = damage.Offset, damage.Msg // in the compressed file
	}
	return scan, err
}

// replace writes b to the file N.log, even if the segment is compressed, and removes
// N.log.zst. An earlier N.log, whose removal may not be on disk after a failed sync,
// therefore cannot return. When the caller has synced the directory, no file contains
// the earlier bytes.
func (g *segment) replace(fsys vfs.FS, b []byte) error {
	if err := g.removeUnused(fsys); err != nil {
		return err
	}
	if !g.compressed() {
		return vfs.WriteFile(fsys, g.path, 0o600, b)
	}
	old := g.path
	g.path = g.otherPath()
	if err := vfs.WriteFile(fsys, g.path, 0o600, b); err != nil {
		return err
	}
	return fsys.Remove(old)
}

// writeCompressed writes the compressed file of a complete segment b. It compares the
// written file with b before it renames the file.
func writeCompressed(fsys vfs.FS, w *zstd.Encoder, path string, b []byte) error {
	scan, err := format.ScanLog(b)
	if err != nil {
		return err
	}
	z, err := scan.Compress(w, b)
	if err != nil {
		return err
	}
	return vfs.ReplaceChecked(fsys, path, 0o600, bytesTo(z), func(p vfs.Pending) error {
		c, err := format.OpenCompressed(p, int64(len(z)))
		if err != nil {
			return err
		}
		part := make([]byte, min(len(b), 1<<20))
		for at := int64(0); at < int64(len(b)); {
			n, err := c.ReadAt(part, at)
			if !bytes.HasPrefix(b[at:], part[:n]) || n == 0 || err != nil && err != io.EOF {
				return fmt.Errorf("%s does not read back as written: %w", p.Name(), cmp.Or(err, io.ErrUnexpectedEOF))
			}
			at += int64(n)
		}
		return nil
	})
}

// compressSegments compresses segments that are not appended to: the newest one, and
// a few others. It ignores errors, because the segments remain.
func (f *folder) compressSegments(segments []segment) {
	if len(segments) == 0 {
		return
	}
	var plain []*segment
	for i := range segments[:len(segments)-1] { // the newest one may be appended to
		if g := &segments[i]; !g.compressed() {
			plain = append(plain, g)
		}
	}
	plain = newestAndOthers(plain, 1, f.s.maxCompressed)
	if len(plain) == 0 {
		return
	}
	w, err := format.NewCompressor()
	if err != nil {
		return
	}
	for _, g := range plain {
		_ = f.compress(w, g)
	}
}

// compress replaces a complete segment by its compressed file. It overwrites an existing
// compressed file, which may be incomplete or outdated (FORMAT.md, H16).
func (f *folder) compress(w *zstd.Encoder, g *segment) error {
	fi, err := f.s.fs.Lstat(g.path)
	if err != nil || vfs.Identify(fi).Links > 1 {
		return err
	}
	b, err := g.readAll(f.s.fs, maxLogFor(f.s.opts.MaxBytes))
	if err != nil {
		return err
	}
	if err := writeCompressed(f.s.fs, w, g.otherPath(), b); err != nil {
		return err
	}
	now, changed, err := vfs.CheckName(f.s.fs, g.path, fi)
	if err == nil && (changed != "" || now.Size() != int64(len(b)) || !now.ModTime().Equal(fi.ModTime())) {
		err = &displacedError{path: g.path, why: cmp.Or(changed, "changed it")}
	}
	if err != nil {
		return err
	}
	return f.s.fs.Remove(g.path)
}

// newestAndOthers returns at most n segments of a list with the oldest first. The result
// begins with the newest ones, up to the given number. The others are in random order,
// so that segments that always fail do not block the rest.
func newestAndOthers(list []*segment, newest, n int) []*segment {
	if k := len(list) - newest; k > 0 {
		rand.Shuffle(k, func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	slices.Reverse(list)
	return list[:min(len(list), n)]
}
