package importer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"crabmem/crmem/vfs"
)

// Kinds are all kinds of sources.
var Kinds = []string{Crabmem, RFC0038, BasicMemory, Markdown, Obsidian, MemoryJSON, Mem0, ChatGPT, Claude, Transcripts, Engram, ClaudeMem, Walrus, Spacebot}

// Source is a path or a stream that an import reads.
type Source struct {
	FS     vfs.FS
	Path   string
	Stream io.Reader // nil: Path is read
	Rows   Rows      // reads SQLite databases
	// Bytes and Pages, if set, report progress: Bytes while a file, an archive, or an
	// export is read, Pages while a directory of Markdown is read.
	Bytes func(done, total int64)
	Pages func(done, total int)

	part string // of an export of Claude that Stream is
	Kind string // "" before Detect
}

// OpenError reports that a source cannot be opened, or that its kind cannot be
// detected.
type OpenError struct{ Err error }

func (e *OpenError) Error() string { return e.Err.Error() }
func (e *OpenError) Unwrap() error { return e.Err }

// FormatError reports that the contents of a source do not match its kind.
type FormatError struct{ Err error }

func (e *FormatError) Error() string { return e.Err.Error() }
func (e *FormatError) Unwrap() error { return e.Err }

func openError(err error) error {
	if err == nil {
		return nil
	}
	return &OpenError{err}
}

func formatError(err error) error {
	if err == nil {
		return nil
	}
	return &FormatError{err}
}

// Detect sets the kind of the source by its contents, unless it is set.
func (s *Source) Detect(ctx context.Context) (err error) {
	switch {
	case s.Stream != nil:
		in := bufio.NewReaderSize(s.Stream, headSize)
		head, _ := in.Peek(headSize)
		s.Stream, s.part = in, claudePart(head)
		if s.Kind == "" {
			s.Kind = detectJSON(head)
		}
	case s.Kind != "":
	default:
		s.Kind, err = Detect(ctx, s.FS, s.Path)
	}
	return openError(err)
}

// Lines reads the entries of a source of kind Crabmem or MemoryJSON. Each warning
// names a change or an omission. Lines returns the warnings with an error, too.
func (s *Source) Lines() (lines []Line, warnings []string, err error) {
	read := func(r io.Reader) {
		if s.Kind == MemoryJSON {
			lines, warnings, err = readMemoryJSON(r)
		} else {
			lines, err = readLines(r)
		}
	}
	if s.Stream != nil {
		read(s.Stream)
		return lines, warnings, err
	}
	f, err := s.FS.Open(s.Path)
	if err != nil {
		return nil, nil, openError(err)
	}
	c := &counter{progress: s.Bytes}
	if fi, err := f.Stat(); err == nil {
		c.total = fi.Size()
	}
	read(c.reader(f))
	return lines, warnings, errors.Join(err, f.Close())
}

// Memory reads the notes of a source whose kind has notes. It returns a *FormatError
// if the source contains no usable note.
func (s *Source) Memory(ctx context.Context) (m *Memory, err error) {
	switch s.Kind {
	case SQLite, Walrus, Spacebot, Engram, ClaudeMem:
		m, err = readSQLite(ctx, s.Rows, s.Kind, s.Path)
	case RFC0038:
		m, err = ReadRFC0038(s.FS, s.Path, s.Pages)
		err = openError(err)
	case BasicMemory, Markdown:
		m, err = ReadMarkdown(s.Kind, s.FS, s.Path, s.Pages)
		err = openError(err)
	case Obsidian:
		m, err = ReadVault(s.FS, s.Path, s.Pages)
		err = openError(err)
	case Claude:
		m, err = s.claudeNotes()
	default:
		_, err = s.each(func(r io.Reader) (err error) {
			m, err = ReadMem0(r)
			return formatError(err)
		})
	}
	if err == nil && len(m.Notes)+len(m.Exact) == 0 && len(m.Left) > 0 {
		err = formatError(fmt.Errorf("no entries to import: %s: %s", m.Left[0].Reason, strings.Join(m.Left[0].Where, ", ")))
	}
	return m, err
}

// Parts reports whether the source has conversations, and whether it has notes. Only a
// source of kind Claude can have both.
func (s *Source) Parts() (chats, notes bool, err error) {
	switch {
	case s.Kind != Claude:
		return IsChats(s.Kind), !IsChats(s.Kind), nil
	case s.Stream != nil:
		notes = s.part == partMemories || s.part == partProjects
		return !notes, notes, nil
	}
	f, err := Open(s.FS, s.Kind, s.Path)
	if err != nil {
		return false, false, openError(err)
	}
	return len(f.open) > 0, len(f.notes) > 0, f.Close()
}

// claudeNotes reads the memories and projects of an export of Claude.
func (s *Source) claudeNotes() (*Memory, error) {
	c := newClaudeNotes()
	if s.Stream != nil {
		err := formatError(c.read(s.part, s.Stream))
		return c.memory(), err
	}
	f, err := Open(s.FS, s.Kind, s.Path)
	if err != nil {
		return nil, openError(err)
	}
	count := newCounter(s.Bytes, f.notes[partProjects], f.notes[partMemories])
	for _, part := range []string{partProjects, partMemories} {
		if err == nil {
			err = each(f.notes[part], count, func(r io.Reader) error { return c.read(part, r) })
		}
	}
	m := c.memory()
	if len(f.open) == 0 { // else reading the conversations counts them
		m.Left = append(m.Left, f.Left...)
	}
	return m, formatError(errors.Join(err, f.Close()))
}

// Chats calls take with every conversation of a source of kind ChatGPT or Claude,
// and returns the omissions. It stops at an error of take and returns that error
// unchanged.
func (s *Source) Chats(take func(*Chat) error) ([]Left, error) {
	var left []Left
	more, err := s.each(func(r io.Reader) error {
		var failed error // error of take
		of, err := ReadChats(s.Kind, r, func(h *Chat) error {
			failed = take(h)
			return failed
		})
		left = append(left, of...)
		if failed != nil {
			return failed
		}
		return formatError(err)
	})
	return append(left, more...), err
}

// each calls read with every stream of the source, and returns the omissions of
// other files.
func (s *Source) each(read func(io.Reader) error) ([]Left, error) {
	if s.Stream != nil {
		return nil, read(s.Stream)
	}
	f, err := Open(s.FS, s.Kind, s.Path)
	if err != nil {
		return nil, openError(err)
	}
	err = f.Each(s.Bytes, read)
	if cerr := f.Close(); cerr != nil {
		err = errors.Join(err, formatError(cerr))
	}
	return f.Left, err
}
