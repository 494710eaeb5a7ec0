package crmem

import (
	"errors"
	"path/filepath"
	"slices"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// opIndex is an open change index and the segment that it describes.
type opIndex struct {
	format.IndexHeader
	g       *segment
	segment *segmentFile
	file    vfs.File
	block   [format.IndexBlock]byte // that read returned last
}

// errNoIndex reports that a segment has no valid change index, or that its frames do
// not agree with it.
var errNoIndex = errors.New("no change index")

// openIndex opens the change index of a segment whose header is read. It returns an
// error unless the index is that of the segment as it is now. The caller must close
// it.
func openIndex(fsys vfs.FS, dir string, g *segment) (*opIndex, error) {
	file, err := fsys.Open(filepath.Join(dir, format.IndexName(g.n)))
	if err != nil {
		return nil, err
	}
	of, err := g.open(fsys)
	if err != nil {
		file.Close()
		return nil, err
	}
	x := &opIndex{g: g, file: file, segment: of}
	if err := x.check(); err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

func (x *opIndex) close() {
	x.file.Close()
	x.segment.Close()
}

// check reads the header and compares it with the segment.
func (x *opIndex) check() error {
	fi, err := x.file.Stat()
	if err != nil {
		return err
	}
	if n, err := x.file.ReadAt(x.block[:], 0); n < len(x.block) {
		return errors.Join(errNoIndex, err)
	}
	var ok bool
	if x.IndexHeader, ok = format.ReadIndexHeader(x.block[:]); !ok || !x.IsOf(x.g.n, x.segment.size, &x.g.head) || x.FileSize() != fi.Size() {
		return errNoIndex
	}
	end := make([]byte, format.FrameHeader)
	if n, err := x.segment.ReadAt(end, x.LastOffset); n < len(end) || !x.EndsWith(end) {
		return errors.Join(errNoIndex, err)
	}
	return nil
}

// read reads and checks a block.
func (x *opIndex) read(n int64) ([]byte, error) {
	if k, err := x.file.ReadAt(x.block[:], n*format.IndexBlock); k < len(x.block) || !x.CheckBlock(n, x.block[:]) {
		return nil, errors.Join(errNoIndex, err)
	}
	return x.block[:], nil
}

// frame reads and checks an operation of the segment.
func (x *opIndex) frame(o *format.IndexOp) (format.Frame, error) {
	b := make([]byte, o.Length)
	if n, err := x.segment.ReadAt(b, o.Offset); n < len(b) {
		return format.Frame{}, errors.Join(errNoIndex, err)
	}
	f, ok := x.g.head.Frame(b, o)
	if !ok {
		return f, errNoIndex
	}
	return f, nil
}

// removeIndexes removes the change indexes of a history, except those of the segments
// for which keep returns true. If keep is nil, it removes all.
func removeIndexes(fsys vfs.FS, dir string, keep func(segment uint64) bool) error {
	list, err := fsys.ReadDir(dir)
	for _, e := range list {
		if n, ok := format.ParseIndexName(e.Name()); ok && (keep == nil || !keep(n)) {
			err = errors.Join(err, fsys.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// maxIndexed is the number of segments that a fold reads at most to write their change
// indexes.
const maxIndexed = 4

// seal writes change indexes of segments that are not appended to, and compresses these
// segments. It ignores errors: a later call continues.
func (f *folder) seal() {
	if segments, err := listSegments(f.s.fs, f.dir); err == nil {
		f.indexSegments(segments)
		f.compressSegments(segments)
	}
}

// indexSegments writes missing change indexes of the segments that are not appended to:
// those of the two newest ones, and of a few others. It ignores errors, because an
// index is derived.
func (f *folder) indexSegments(segments []segment) {
	_ = removeIndexes(f.s.fs, f.dir, func(n uint64) bool {
		return slices.ContainsFunc(segments, func(g segment) bool { return g.n == n })
	})
	var missing []*segment
	for i := range segments {
		g := &segments[i]
		if i == len(segments)-1 && !f.isFull(g) || g.readHead(f.s.fs) != nil {
			continue
		}
		if x, err := openIndex(f.s.fs, f.dir, g); err == nil {
			x.close()
		} else {
			missing = append(missing, g)
		}
	}
	for _, g := range newestAndOthers(missing, 2, maxIndexed) {
		_ = f.writeIndex(g)
	}
}

// isFull reports whether a segment is not appended to because of its size.
func (f *folder) isFull(g *segment) bool {
	fi, err := f.s.fs.Lstat(g.path)
	return err == nil && fi.Size() >= f.s.segmentLimit
}

// writeIndex writes the change index of a segment.
func (f *folder) writeIndex(g *segment) error {
	b, err := g.readAll(f.s.fs, maxLogFor(f.s.opts.MaxBytes))
	if err != nil {
		return err
	}
	scan, err := format.ScanLog(b)
	if err != nil {
		return err
	}
	index := format.NewIndex(g.n, int64(len(b)), scan)
	if index == nil {
		return errNoIndex
	}
	return vfs.WriteFile(f.s.fs, filepath.Join(f.dir, format.IndexName(g.n)), 0o600, index)
}
