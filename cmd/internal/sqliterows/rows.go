// Package sqliterows prints rows of a SQLite database as JSON lines. It is the
// only package that links SQLite. The program crabmem-sqlite runs it, so crabmem is
// smaller, and reads a possibly malicious database in another process.
//
// The first line of the output is the schema, and the last line is the end. Between
// them is a line for each row:
//
//	{"schema":{"notes":["id","text","picture"]},"others":["log"]}
//	{"table":"notes","row":{"id":1,"text":"Tea","picture":{"omitted":"blob","bytes":9}}}
//	{"end":{"rows":1}}
//
// Without the last line the output is incomplete.
package sqliterows

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"crabmem/crmem/vfs"

	"modernc.org/sqlite"
)

// Limits of a database.
const (
	maxFile    = 4 << 30
	maxTables  = 10_000
	maxColumns = 256
	maxRows    = 1_000_000 // of all tables
	maxCell    = 8 << 20
	maxOutput  = 1 << 30
)

// Numbers of SQLite's limits, for sqlite.Limit.
const (
	limitLength = 0 // bytes of a value
	limitSQL    = 1 // bytes of a statement
	limitDepth  = 3 // of an expression
)

// Head is the first line.
type Head struct {
	Schema map[string][]string `json:"schema"` // columns of the requested tables
	Others []string            `json:"others"` // other tables
}

// Row is a line of a table.
type Row struct {
	Table string         `json:"table"`
	Row   map[string]any `json:"row"`
}

// Omitted replaces a value that has no JSON form, or is too large.
type Omitted struct {
	Omitted string `json:"omitted"` // blob, large, or invalid UTF-8
	Bytes   int64  `json:"bytes"`
}

// End is the last line.
type End struct {
	End struct {
		Rows int `json:"rows"`
	} `json:"end"`
}

// Write prints the rows of the given tables, and omits tables that the database
// lacks. It never writes to the database and creates no file next to it. If the
// database has a log of unfinished checkpoints, Write reads a private copy.
func Write(ctx context.Context, fsys vfs.FS, name string, tables []string, w io.Writer) (err error) {
	name, err = fsys.Resolve(name)
	if err != nil {
		return err
	}
	before, err := stateOf(fsys, name)
	if err != nil {
		return err
	}
	at, immutable := name, "1"
	if before.wal > 0 {
		c, err := copyOf(fsys, name)
		if c != nil {
			defer func() { err = errors.Join(err, c.remove()) }()
		}
		if err != nil {
			return err
		}
		at, immutable = c.file, "0"
	}
	if err := writeRows(ctx, at, immutable, tables, w, func() error { return unchanged(fsys, name, before) }); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// state describes the files of a database.
type state struct {
	size, wal, modified int64
}

func stateOf(fsys vfs.FS, name string) (s state, err error) {
	fi, err := fsys.Lstat(name)
	if err != nil {
		return s, err
	}
	if !fi.Mode().IsRegular() {
		return s, fmt.Errorf("%s: not a regular file", name)
	}
	s.size, s.modified = fi.Size(), fi.ModTime().UnixNano()
	if s.size > maxFile {
		return s, fmt.Errorf("%s: larger than %d GiB, the limit", name, maxFile>>30)
	}
	if fi, err := fsys.Lstat(name + "-journal"); err == nil && fi.Size() > 0 {
		return s, fmt.Errorf("%s-journal: a transaction is unfinished: open the database with the program that wrote it, close that program, and retry", name)
	}
	switch fi, err := fsys.Lstat(name + "-wal"); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return s, err
	case !fi.Mode().IsRegular():
		return s, fmt.Errorf("%s-wal: not a regular file", name)
	case fi.Size() > maxFile:
		return s, fmt.Errorf("%s-wal: larger than %d GiB, the limit", name, maxFile>>30)
	default:
		s.wal = fi.Size()
		s.modified += fi.ModTime().UnixNano()
	}
	return s, nil
}

// unchanged returns an error if the database changed.
func unchanged(fsys vfs.FS, name string, before state) error {
	now, err := stateOf(fsys, name)
	if err == nil && now != before {
		err = errors.New("changed while it was read: close the program that uses it, then retry")
	}
	return err
}

func writeRows(ctx context.Context, file, immutable string, tables []string, w io.Writer, check func() error) error {
	path := filepath.ToSlash(file)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"mode": {"ro"}, "immutable": {immutable}, "_defensive": {"1"}, "_query_only": {"1"},
		"_pragma": {"trusted_schema(0)", "cell_size_check(1)", "mmap_size(0)", "temp_store(2)"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for id, n := range map[int]int{limitLength: 64 << 20, limitSQL: 1 << 20, limitDepth: 100} {
		if _, err := sqlite.Limit(conn, id, n); err != nil {
			return err
		}
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	p := printer{ctx: ctx, tx: tx, w: &limitedWriter{w: w, left: maxOutput}}
	p.enc = json.NewEncoder(p.w)
	p.enc.SetEscapeHTML(false)
	if err := p.schema(tables); err != nil {
		return err
	}
	for _, t := range tables {
		if len(p.head.Schema[t]) > 0 {
			if err := p.table(t); err != nil {
				return fmt.Errorf("table %s: %w", t, err)
			}
		}
	}
	if err := check(); err != nil {
		return err
	}
	var end End
	end.End.Rows = p.rows
	return p.enc.Encode(end)
}

// printer prints one database.
type printer struct {
	ctx  context.Context
	tx   *sql.Tx
	w    io.Writer
	enc  *json.Encoder
	head Head
	rows int
}

// schema prints the head. It considers ordinary tables only: a view or a virtual
// table runs code that the database contains.
func (p *printer) schema(tables []string) error {
	rows, err := p.tx.QueryContext(p.ctx, `SELECT name, type FROM pragma_table_list WHERE schema = 'main' ORDER BY name`)
	if err != nil {
		return err
	}
	defer rows.Close()
	p.head = Head{Schema: make(map[string][]string), Others: []string{}}
	var found []string
	for n := 0; rows.Next(); n++ {
		var name, typ string
		if err := rows.Scan(&name, &typ); err != nil {
			return err
		}
		switch {
		case n >= maxTables:
			return fmt.Errorf("more than %d tables", maxTables)
		case strings.HasPrefix(name, "sqlite_") || typ == "shadow" || typ == "virtual":
		case typ == "table" && slices.Contains(tables, name):
			found = append(found, name)
		default:
			p.head.Others = append(p.head.Others, strings.ToValidUTF8(name, "\uFFFD"))
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, name := range found {
		if p.head.Schema[name], err = p.columns(name); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	return p.enc.Encode(p.head)
}

// columns returns the stored columns of a table: a generated one runs code that
// the database contains.
func (p *printer) columns(table string) ([]string, error) {
	rows, err := p.tx.QueryContext(p.ctx, `SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid`, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		if names = append(names, name); len(names) > maxColumns {
			return nil, fmt.Errorf("more than %d columns", maxColumns)
		}
	}
	return names, rows.Err()
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// table prints the rows of a table, in the order of the table.
func (p *printer) table(table string) error {
	columns := p.head.Schema[table]
	var list []string
	for _, c := range columns {
		c = quote(c)
		list = append(list, fmt.Sprintf(`typeof(%s), coalesce(octet_length(%s), 0), CASE WHEN typeof(%s) = 'blob' OR octet_length(%s) > %d THEN NULL ELSE %s END`, c, c, c, c, maxCell, c))
	}
	rows, err := p.tx.QueryContext(p.ctx, "SELECT "+strings.Join(list, ", ")+" FROM main."+quote(table))
	if err != nil {
		return err
	}
	defer rows.Close()
	cells := make([]any, 3*len(columns))
	ptrs := make([]any, len(cells))
	for i := range cells {
		ptrs[i] = &cells[i]
	}
	for rows.Next() {
		if p.rows++; p.rows > maxRows {
			return fmt.Errorf("more than %d rows", maxRows)
		}
		if err := rows.Scan(ptrs...); err != nil {
			return err
		}
		row := Row{Table: table, Row: make(map[string]any, len(columns))}
		for i, c := range columns {
			row.Row[strings.ToValidUTF8(c, "\uFFFD")] = valueOf(cells[3*i], cells[3*i+1], cells[3*i+2])
		}
		if err := p.enc.Encode(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// valueOf returns a value for JSON.
func valueOf(typ, size, v any) any {
	bytes, _ := size.(int64)
	switch text, isText := v.(string); {
	case typ == "blob":
		return Omitted{"blob", bytes}
	case bytes > maxCell:
		return Omitted{"large", bytes}
	case isText && !utf8.ValidString(text):
		return Omitted{"invalid UTF-8", bytes}
	}
	if b, ok := v.([]byte); ok {
		return Omitted{"blob", int64(len(b))}
	}
	if f, ok := v.(float64); ok {
		if _, err := json.Marshal(f); err != nil {
			return nil // infinite
		}
	}
	return v
}

// limitedWriter returns an error after a number of bytes.
type limitedWriter struct {
	w    io.Writer
	left int64
}

func (l *limitedWriter) Write(b []byte) (int, error) {
	if l.left -= int64(len(b)); l.left < 0 {
		return 0, fmt.Errorf("more than %d MiB of rows", maxOutput>>20)
	}
	return l.w.Write(b)
}
