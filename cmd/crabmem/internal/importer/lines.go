package importer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/sessionlog/foreign"
)

// Bounds of the output of crabmem export. The store is in memory, and JSON is at
// most a few times its size. A line contains one entry, with up to six bytes for
// each byte. A file may contain an entry that exceeds the limits of new ones, so
// only a line that is not an object is limited to maxLine.
const (
	maxLines = 4 << 30
	maxLine  = 6*(crmem.MaxContent+2<<20) + 1<<16
)

// Line is an entry of a source, and the number of its line or record.
type Line struct {
	Number int
	Entry  crmem.Entry
	Timed  bool // the source states the creation time; else Entry has one for a new entry, or 0
	// Exported is set for a line with an ID and a creation time, as crabmem export
	// writes it. The entry was in a store, and may exceed the limits of new entries.
	Exported bool
}

// RecordError reports a line or record that the kind of the source does not
// allow.
type RecordError struct {
	Unit   string // "line" or "record"
	Number int
	Err    error
}

func (e *RecordError) Error() string { return fmt.Sprintf("%s %d: %v", e.Unit, e.Number, e.Err) }
func (e *RecordError) Unwrap() error { return e.Err }

// readLines reads the output of crabmem export. It returns a *RecordError at the
// first invalid line.
func readLines(r io.Reader) ([]Line, error) {
	var lines []Line
	n, size := 0, int64(0)
	formatError := func(err error) error { return &RecordError{"line", n, err} }
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 1<<16), math.MaxInt32)
	in.Split(splitLines)
	for in.Scan() {
		n++
		line := in.Text()
		if size += int64(len(line)); size > maxLines {
			return nil, formatError(fmt.Errorf("input is larger than %s, the limit", display.Size(maxLines)))
		}
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		l, err := parseLine(line)
		if err != nil {
			return nil, formatError(err)
		}
		l.Number = n
		lines = append(lines, l)
	}
	if n++; errors.Is(in.Err(), bufio.ErrTooLong) {
		return nil, formatError(fmt.Errorf("more than the limit of %s for an entry", display.Size(maxLine)))
	}
	return lines, in.Err()
}

// splitLines is [bufio.ScanLines] with the bound maxLine for a line that is not a
// JSON object.
func splitLines(data []byte, atEOF bool) (int, []byte, error) {
	if len(data) > maxLine && !bytes.HasPrefix(bytes.TrimLeft(data[:1<<10], " \t\r\ufeff"), []byte("{")) {
		return 0, nil, bufio.ErrTooLong
	}
	return bufio.ScanLines(data, atEOF)
}

// lineTypes describes the fields of a line.
var lineTypes = map[string]string{
	"id": "an integer", "created_at": "an integer number of seconds since 1970", "name": "a string", "kind": "a string",
	"content": "a string", "aliases": "an array of strings",
}

// EntryLine is a line of an export. crabmem export writes each key.
type EntryLine struct {
	ID        *uint64     `json:"id"`
	Name      *string     `json:"name"`
	Kind      *crmem.Kind `json:"kind"`
	CreatedAt *uint64     `json:"created_at"` // seconds since 1970
	Content   string      `json:"content"`
	Aliases   []string    `json:"aliases"`
}

// NewEntryLine returns the line of an entry.
func NewEntryLine(e *crmem.Entry) EntryLine {
	created := uint64(e.CreatedAt)
	return EntryLine{&e.ID, &e.Name, &e.Kind, &created, e.Content, append([]string{}, e.Aliases...)}
}

func parseLine(line string) (Line, error) {
	var l Line
	if !utf8.ValidString(line) {
		return l, errors.New("invalid UTF-8")
	}
	if i := foreign.LoneSurrogate(line); i >= 0 {
		return l, fmt.Errorf("unpaired surrogate at byte %d", i)
	}
	var v EntryLine
	dec := json.NewDecoder(bytes.NewReader([]byte(line)))
	if err := dec.Decode(&v); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field == "" {
			return l, fmt.Errorf("a JSON %s, want an object", e.Value)
		} else if ok {
			return l, fmt.Errorf("%q is a JSON %s, want %s", e.Field, e.Value, lineTypes[e.Field])
		}
		return l, err
	}
	if dec.More() {
		return l, errors.New("more than one value")
	}
	if v.Name == nil {
		return l, errors.New(`no "name"`)
	}
	l.Entry = crmem.Entry{Name: *v.Name, Content: v.Content, Aliases: v.Aliases}
	if v.ID != nil {
		l.Entry.ID = *v.ID
	}
	if v.Kind != nil {
		l.Entry.Kind = *v.Kind
	}
	if v.CreatedAt != nil {
		l.Entry.CreatedAt, l.Timed = crmem.UnixTime(*v.CreatedAt), true
	}
	l.Exported = v.ID != nil && l.Timed
	return l, nil
}

// validate returns an error if a store refuses the entry.
func (l *Line) validate() error {
	if !l.Exported {
		if err := validNew(l.Entry); err != nil {
			return err
		}
	}
	return crmem.Restore{Entry: l.Entry}.Validate()
}

// validNew returns an error if an entry exceeds the limits of new entries.
func validNew(e crmem.Entry) error {
	return crmem.Add{Name: e.Name, Content: e.Content, Aliases: e.Aliases, Kind: e.Kind}.Validate()
}

// FirstInvalid returns the number of the first line that a store refuses as invalid,
// and the error. If all lines are valid, it returns 0 and nil.
func FirstInvalid(lines []Line) (number int, err error) {
	for i := range lines {
		if err := lines[i].validate(); err != nil {
			return lines[i].Number, err
		}
	}
	return 0, nil
}
