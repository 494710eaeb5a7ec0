package importer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"crabmem/sessionlog/foreign"
)

// sqliteMagic begins every SQLite database.
const sqliteMagic = "SQLite format 3\x00"

// maxRowLine bounds a line of the rows of a database.
const maxRowLine = 256 << 20

// database describes the SQLite database of another program. The importer recognizes
// it by columns that exist in all versions of that program.
type database struct {
	kind  string
	table string
	has   []string // columns of table
	read  func(d *databaseReader)
	// use lists the columns of each table that become part of a note. The importer
	// counts all other columns as omissions.
	use map[string][]string
}

var databases = []*database{walrus, spacebot, engram, claudeMem}

// sqliteTables returns the tables of all formats.
func sqliteTables() []string {
	names := make(map[string]bool)
	for _, d := range databases {
		for t := range d.use {
			names[t] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Rows returns the rows of some tables of the SQLite database in a file, as the
// program crabmem-sqlite prints them.
type Rows func(ctx context.Context, file string, tables []string) (io.ReadCloser, error)

var errIncomplete = errors.New("output of crabmem-sqlite: incomplete")

// databaseReader reads the rows of a database as notes.
type databaseReader struct {
	noteSet
	format *database
	rows   map[string][]object
	others []string
}

// readSQLite reads the notes of a database. It returns a *FormatError if the program
// of the database is unknown, or if the database cannot be read.
func readSQLite(ctx context.Context, rows Rows, kind, file string) (*Memory, error) {
	r, err := rows(ctx, file, sqliteTables())
	if err != nil {
		return nil, err
	}
	d, err := parseRows(r)
	if cerr := r.Close(); cerr != nil && (err == nil || err == errIncomplete) {
		err = cerr // states why
	}
	if err != nil {
		return nil, formatError(err)
	}
	if kind != SQLite && kind != d.format.kind {
		return nil, formatError(fmt.Errorf("a database of %s, not of %s", d.format.kind, kind))
	}
	return d.notes(), nil
}

// parseRows reads the output of crabmem-sqlite.
func parseRows(r io.Reader) (*databaseReader, error) {
	in := bufio.NewScanner(io.LimitReader(r, 2*maxSource))
	in.Buffer(make([]byte, 1<<16), maxRowLine)
	d := &databaseReader{noteSet: newNoteSet(""), rows: make(map[string][]object)}
	for n := 1; in.Scan(); n++ {
		var line struct {
			Schema map[string][]string
			Others []string
			Table  string
			Row    object
			End    *struct{ Rows int }
		}
		if err := json.Unmarshal(bytes.ToValidUTF8(in.Bytes(), []byte("\uFFFD")), &line); err != nil {
			return nil, fmt.Errorf("output of crabmem-sqlite: line %d: %w", n, err)
		}
		switch {
		case n == 1:
			if d.others = line.Others; line.Schema == nil {
				return nil, errors.New("output of crabmem-sqlite: no schema")
			}
			if err := d.recognize(line.Schema); err != nil {
				return nil, err
			}
		case line.End != nil:
			if line.End.Rows != n-2 {
				return nil, fmt.Errorf("output of crabmem-sqlite: %d rows, want %d", n-2, line.End.Rows)
			}
			return d, nil
		case n > maxRecords+1:
			return nil, fmt.Errorf("more than %d rows", maxRecords)
		case d.format.use[line.Table] == nil:
			d.left.add(fmt.Sprintf("row of the table %q", line.Table), "")
		default:
			d.rows[line.Table] = append(d.rows[line.Table], line.Row)
		}
	}
	if in.Err() != nil {
		return nil, in.Err()
	}
	return nil, errIncomplete
}

// recognize sets the format of a database by its columns.
func (d *databaseReader) recognize(schema map[string][]string) error {
	for _, f := range databases {
		missing := slices.ContainsFunc(f.has, func(c string) bool { return !slices.Contains(schema[f.table], c) })
		if len(schema[f.table]) > 0 && !missing {
			d.format = f
			return nil
		}
	}
	tables := append(slices.Sorted(maps.Keys(schema)), d.others...)
	slices.Sort(tables)
	if len(tables) == 0 {
		return errors.New("a SQLite database without tables")
	}
	for i, t := range tables {
		tables[i] = cut(t, 40)
	}
	names := cut(strings.Join(tables, ", "), 200)
	return fmt.Errorf("a SQLite database of an unknown program, with the tables %s; known: engram, claude-mem, walrus, spacebot", names)
}

// notes reads the rows as notes.
func (d *databaseReader) notes() *Memory {
	d.m.Kind = d.format.kind
	for _, t := range d.others {
		d.left.add("another table of the database", t)
	}
	d.format.read(d)
	for _, t := range slices.Sorted(maps.Keys(d.rows)) {
		for _, o := range d.rows[t] {
			d.skipColumns(t, o)
		}
	}
	return d.memory()
}

// skipColumns counts the columns of a row that do not become part of a note as
// omissions.
func (d *databaseReader) skipColumns(table string, o object) {
	for _, c := range o.keys() {
		switch {
		case o[c] == nil || string(o[c]) == "0" || slices.Contains(d.format.use[table], c):
		default:
			d.left.add(fmt.Sprintf("column %q of %q", cut(c, 40), table), "")
		}
	}
}

// cell returns a value as text. It counts a value that crabmem-sqlite omitted as an
// omission.
func (d *databaseReader) cell(o object, column string) string {
	v := o[column]
	if foreign.JSONType(v) == "object" {
		if what := as[object](v).str("omitted"); what != "" {
			d.left.add(fmt.Sprintf("%s in column %q", what, column), "")
			return ""
		}
	}
	if !says(v) {
		return ""
	}
	return strings.TrimSpace(plain(v))
}

// list returns the texts of a JSON array in one line. It returns any other value
// unchanged.
func (d *databaseReader) list(o object, column string) string {
	s := d.cell(o, column)
	if foreign.JSONType([]byte(s)) != "array" || !json.Valid([]byte(s)) {
		return s
	}
	if s = strings.TrimSpace(s); s == "[]" {
		return ""
	}
	return inLine(json.RawMessage(s))
}

// when returns the time in the first of the columns that contains a time. A time is
// text, or seconds or milliseconds since 1970.
func (d *databaseReader) when(o object, columns ...string) time.Time {
	for _, c := range columns {
		t := o.when(c)
		if ms := as[float64](o[c]); foreign.JSONType(o[c]) == "number" && ms >= 1e11 && ms < 1e15 {
			t = time.UnixMilli(int64(ms)).UTC()
		}
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}
