package sessionlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// Session is a session that is open for reading. It holds no lock and reads the
// file up to its length at Read or Refresh.
type Session struct {
	ID   string
	File string // its name in the folder
	Path string
	Size int64 // bytes
	Meta Meta  // of the first line when the session was opened; zero if it is damaged

	fs      vfs.FS
	file    vfs.File
	maxLine int64
}

// Read opens a session for reading. An id that ends in .jsonl names the file.
// Errors: [ErrNotFound], [ErrAmbiguous], and the system's.
func (d *Dir) Read(id string) (*Session, error) {
	var name string
	var f vfs.File
	err := d.located(d.path, id, func(at string) (err error) {
		name = at
		f, err = d.fs.Open(d.file(at))
		return err
	})
	if err != nil {
		return nil, d.explain(id, err)
	}
	s := &Session{File: name, Path: d.file(name), fs: d.fs, file: f, maxLine: d.opts.MaxLine}
	if err := s.Refresh(); err != nil {
		f.Close()
		return nil, err
	}
	s.Meta, _ = readMetaLine(f, s.Path) // an empty meta line identifies a file by its name
	s.ID, _ = idOf(name, &s.Meta)
	return s, nil
}

// Refresh extends the session to the current length of the file.
func (s *Session) Refresh() error {
	fi, err := s.file.Stat()
	if err == nil {
		s.Size = fi.Size()
	}
	return err
}

// Close closes the file.
func (s *Session) Close() error { return s.file.Close() }

// Moved reports whether the file at Path was renamed, replaced, or deleted after
// it was opened.
func (s *Session) Moved() (bool, error) {
	held, err := s.file.Stat()
	if err != nil {
		return false, err
	}
	named, err := s.fs.Lstat(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	a, b := vfs.Identify(held), vfs.Identify(named)
	return a.Dev != b.Dev || a.Ino != b.Ino, nil
}

// Info describes the session, as [Dir.List] does.
func (s *Session) Info() (Info, error) {
	i := Info{ID: s.ID, File: s.File}
	err := i.read(&line.Counter{}, s.file, s.Size, s.maxLine)
	return i, err
}

// Context reads the messages with which the session resumes (FORMAT.md, S10 to
// S14). A bad line among them is a *[record.FormatError].
func (s *Session) Context() (*Context, error) { return s.context(false) }

// LenientContext is Context for display: it omits bad lines and lists them in
// Damage.
func (s *Session) LenientContext() (*Context, error) { return s.context(true) }

func (s *Session) context(lenient bool) (*Context, error) {
	c, err := line.ReadContext(s.file, s.Size, &line.ReadOptions{Lenient: lenient, MaxLine: s.maxLine})
	return c, inFile(err, s.Path)
}

// Lines yields the lines from an offset at which a line begins, including bad
// lines. An error is the system's and ends the sequence.
func (s *Session) Lines(from int64) iter.Seq2[Line, error] { return s.LinesFrom(from, 0) }

// LinesFrom is Lines if the number of the line at the offset is known.
func (s *Session) LinesFrom(from, number int64) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for l, err := range line.Numbered(s.file, from, number, s.Size, s.maxLine) {
			if l.Err != nil {
				l.Err.Path = s.Path
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// LastMarker returns the offset of the last compaction marker. ok is false if the
// file has no marker. It searches from the end of the file.
func (s *Session) LastMarker() (offset int64, ok bool, err error) {
	var back line.BackScanner
	var rec line.Record
	back.Reset(s.file, s.Size, s.maxLine)
	for back.Next() {
		if back.Decode(&rec); rec.Kind == record.KindMarker {
			return back.Line.Offset, true, nil
		}
	}
	return 0, false, back.Err
}

// LastLines returns the offset at which the last n lines begin. It counts a last
// line without \n.
func (s *Session) LastLines(n int) (int64, error) {
	end := s.Size
	if n <= 0 {
		return end, nil
	}
	buf := make([]byte, min(line.BackwardChunk, end))
	for end > 0 {
		b := buf[:min(int64(len(buf)), end)]
		end -= int64(len(b))
		if err := line.ReadFull(s.file, b, end); err != nil {
			return 0, err
		}
		for i := len(b) - 1; i >= 0; i-- {
			if i = bytes.LastIndexByte(b[:i+1], '\n'); i < 0 {
				break
			}
			if end+int64(i) == s.Size-1 { // the end of the last line
				continue
			}
			if n--; n == 0 {
				return end + int64(i) + 1, nil
			}
		}
	}
	return 0, nil
}

// Compaction is a marker and the lines that its summary replaced: those after the
// previous marker and its copies, or after the meta line.
type Compaction struct {
	N         int    `json:"n"`      // from 1
	Line      int64  `json:"line"`   // of the marker
	Offset    int64  `json:"offset"` // of the marker
	FirstLine int64  `json:"first_line"`
	LastLine  int64  `json:"last_line"` // before first_line if it replaced no line
	From      int64  `json:"from"`      // the bytes of those lines
	To        int64  `json:"to"`
	Messages  int    `json:"messages"` // among them
	Summary   string `json:"summary"`
}

// Compactions lists the session's compactions, oldest first.
func (s *Session) Compactions() ([]Compaction, error) {
	var all []Compaction
	var scan line.Scanner
	var rec line.Record
	c := Compaction{N: 1, FirstLine: 1}
	scan.Reset(s.file, 0, s.Size, s.maxLine)
	for scan.Next() {
		l := &scan.Line
		scan.Decode(&rec)
		if !l.Glued {
			c.LastLine, c.To = scan.Number-1, l.Offset
		}
		switch {
		case rec.Kind == record.KindMeta:
			c = compactionAfter(1, scan.Number, l)
		case rec.Kind == record.KindMarker:
			c.Line, c.Offset, c.Summary = scan.Number, l.Offset, rec.Summary()
			all = append(all, c)
			c = compactionAfter(c.N+1, scan.Number, l)
		default:
			if rec.Kind == record.KindMessage {
				c.Messages++
			}
			if rec.Kind == record.KindCopy && c.Messages == 0 { // its message is in an earlier range
				c.FirstLine, c.From = scan.Number+1, l.Next()
			}
			if l.Glued {
				c.LastLine, c.To = scan.Number, l.Next()
			}
		}
	}
	return all, scan.Err
}

// Span returns the numbers of the first and the last line that the next compaction
// replaces.
func (l *Log) Span() (first, last int64, err error) {
	s, err := l.dir.Read(l.ID())
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	from, _, err := s.LastMarker()
	if err != nil {
		return 0, 0, err
	}
	for n, err := range s.Lines(from) {
		if err != nil {
			return 0, 0, err
		}
		if first == 0 {
			first = n.Number + 1
		}
		last = n.Number
	}
	return first, last, nil
}

// compactionAfter returns the n-th compaction. Its range begins after line number.
func compactionAfter(n int, number int64, l *line.Raw) Compaction {
	if !l.Unended {
		number++
	}
	return Compaction{N: n, FirstLine: number, LastLine: number - 1, From: l.Next(), To: l.Next()}
}

// Expand writes the lines that a compaction replaced, as they are in the file.
func (s *Session) Expand(c Compaction, w io.Writer) error {
	if c.From < 0 || c.From > c.To || c.To > s.Size {
		return fmt.Errorf("%w: %s has no bytes %d to %d", ErrInvalid, s.Path, c.From, c.To)
	}
	_, err := io.Copy(w, io.NewSectionReader(s.file, c.From, c.To-c.From))
	return err
}
