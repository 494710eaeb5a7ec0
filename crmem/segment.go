package crmem

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// segment is a file of a history.
type segment struct {
	path  string
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
	slices.SortFunc(segments, func(a, b segment) int { return cmp.Compare(a.n, b.n) })
	return segments, nil
}

// nextSegment returns the path of a new segment.
func nextSegment(dir string, segments []segment) string {
	n := uint64(1)
	if len(segments) > 0 {
		n = segments[len(segments)-1].n + 1
	}
	return filepath.Join(dir, format.SegmentName(n))
}

// readHead reads the header, once.
func (g *segment) readHead(fsys vfs.FS) error {
	if g.read {
		return g.err
	}
	g.read = true
	f, err := fsys.Open(g.path)
	if err != nil {
		g.err = notAStore(err)
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

// scan reads the segment. With an error it returns the part before the error, or
// nil.
func (g *segment) scan(fsys vfs.FS, max int64) (*format.LogScan, error) {
	b, err := vfs.ReadFile(fsys, g.path, max)
	if err != nil {
		return nil, notAStore(err)
	}
	scan, err := format.ScanPrefix(b)
	return scan, inFile(err, g.path)
}
