package sqliterows

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs"
)

// create makes a database from statements.
func create(t *testing.T, file string, statements ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// written returns the output for a database, and checks that nothing in its
// directory, and nothing in the directory of temporary files, remains.
func written(t *testing.T, file string, tables ...string) (string, error) {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	before := contents(t, filepath.Dir(file))
	var b bytes.Buffer
	err := Write(t.Context(), vfs.OS{}, file, tables, &b)
	if now := contents(t, filepath.Dir(file)); now != before {
		t.Errorf("the directory was\n%s, and is\n%s", before, now)
	}
	if left := contents(t, temp); left != "" {
		t.Errorf("temporary files %s", left)
	}
	return b.String(), err
}

func contents(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	var b strings.Builder
	for _, e := range entries {
		fi, ierr := e.Info()
		err = errors.Join(err, ierr)
		fmt.Fprintln(&b, fi.Name(), fi.Size(), fi.ModTime().UnixNano())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a?b #%.db")
	path := "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(file)
	create(t, path, `CREATE TABLE notes (id INTEGER PRIMARY KEY, "the ""text""" TEXT, picture BLOB, at DATETIME)`,
		`INSERT INTO notes VALUES (1, 'Tea', x'00ff', '2026-03-01'), (2, CAST(x'ff' AS TEXT), NULL, 5), (3, 0.5, 9e999, '')`, `CREATE TABLE other (x)`).Close()
	want := `{"schema":{"notes":["id","the \"text\"","picture","at"]},"others":["other"]}
{"table":"notes","row":{"at":"2026-03-01","id":1,"picture":{"omitted":"blob","bytes":2},"the \"text\"":"Tea"}}
{"table":"notes","row":{"at":5,"id":2,"picture":null,"the \"text\"":{"omitted":"invalid UTF-8","bytes":1}}}
{"table":"notes","row":{"at":"","id":3,"picture":null,"the \"text\"":"0.5"}}
{"end":{"rows":3}}
`
	if got, err := written(t, file, "absent", "notes"); got != want || err != nil {
		t.Errorf("%s%v, want %s", got, err, want)
	}
}

// TestRowsOfOpenDatabase reads a database while another connection has it open, and
// its rows are in the log.
func TestRowsOfOpenDatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.db")
	create(t, file, `PRAGMA journal_mode = wal`, `CREATE TABLE notes (text)`, `INSERT INTO notes VALUES ('in the log')`)
	if fi, err := os.Stat(file + "-wal"); err != nil || fi.Size() == 0 {
		t.Fatalf("no log: %v", err)
	}
	if got, err := written(t, file, "notes"); err != nil || !strings.Contains(got, "in the log") {
		t.Errorf("%s%v", got, err)
	}
}

// TestRowsOfClosedDatabase reads a database that had a log. SQLite would create
// files next to it.
func TestRowsOfClosedDatabase(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.db")
	create(t, file, `PRAGMA journal_mode = wal`, `CREATE TABLE notes (text)`, `INSERT INTO notes VALUES ('x')`).Close()
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := written(t, file, "notes")
	after, serr := os.Stat(dir)
	if err != nil || serr != nil || !strings.Contains(got, `{"text":"x"}`) || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("%s%v; the directory changed: %t", got, err, !after.ModTime().Equal(before.ModTime()))
	}
}

// TestRowsOfHostileDatabases reads databases that a program of another user wrote.
func TestRowsOfHostileDatabases(t *testing.T) {
	endless := `WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n`
	cases := []struct {
		name       string
		statements []string
		rows, err  string
	}{
		{"a view without an end", []string{`CREATE VIEW notes AS ` + endless}, `"others":["notes"]}` + "\n" + `{"end":{"rows":0}}`, ""},
		{"a virtual table", []string{`CREATE VIRTUAL TABLE notes USING fts5(text)`}, `"schema":{},"others":[]`, ""},
		{"a generated column", []string{`CREATE TABLE notes (a, b AS (hex(zeroblob(30000000))))`, `INSERT INTO notes VALUES (1)`}, `"row":{"a":1}`, ""},
		{"large values", []string{`CREATE TABLE notes (a, b)`, `INSERT INTO notes VALUES (hex(zeroblob(5000000)), zeroblob(90000000))`},
			`"row":{"a":{"omitted":"large","bytes":10000000},"b":{"omitted":"blob","bytes":90000000}}`, ""},
		{"a name that is SQL", []string{`CREATE TABLE notes ("a"" FROM sqlite_master; --")`, `INSERT INTO notes VALUES (7)`}, `{"a\" FROM sqlite_master; --":7}`, ""},
		{"many columns", []string{`CREATE TABLE notes (c` + manyColumns(400) + `)`}, "", "more than 256 columns"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.db")
			create(t, file, c.statements...).Close()
			got, err := written(t, file, "notes")
			if !strings.Contains(got, c.rows) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%.400s%v, want %s %s", got, err, c.rows, c.err)
			}
			if ended := strings.Contains(got, `{"end":`); ended != (err == nil) {
				t.Errorf("the output has an end: %t, %v", ended, err)
			}
		})
	}
}

func manyColumns(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ", c%d", i)
	}
	return b.String()
}

func TestRefusedFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.db")
	create(t, file, `CREATE TABLE notes (text)`, `INSERT INTO notes VALUES (hex(randomblob(4000)))`).Close()
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, b []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	flipped := bytes.Clone(good)
	for i := 100; i < 4000; i++ {
		flipped[i] ^= 0x55
	}
	put("journal.db", good)
	put("journal.db-journal", []byte("x"))
	put("linked.db", good)
	if err := os.Mkdir(filepath.Join(dir, "linked.db-wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, err string }{
		{put("text.db", []byte("SQLite format 4\x00 and no more")), "file is not a database"},
		{put("half.db", good[:len(good)/2]), "malformed"},
		{put("flipped.db", flipped), "malformed"},
		{filepath.Join(dir, "journal.db"), "a transaction is unfinished"},
		{filepath.Join(dir, "linked.db"), "-wal: not a regular file"},
		{dir, "not a regular file"},
		{filepath.Join(dir, "absent.db"), "no such file"},
	} {
		got, err := written(t, c.file, "notes")
		if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(got, `{"end":`) {
			t.Errorf("%s: %.200s%v, want %s", c.file, got, err, c.err)
		}
	}
}

// changingFS changes a database when it is read.
type changingFS struct {
	vfs.FS
	after int // calls of Lstat
	write func()
}

func (c *changingFS) Lstat(name string) (os.FileInfo, error) {
	if c.after--; c.after == 0 {
		c.write()
	}
	return c.FS.Lstat(name)
}

func TestDatabaseThatChanges(t *testing.T) {
	for _, wal := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "a.db")
		mode := `PRAGMA journal_mode = delete`
		if wal {
			mode = `PRAGMA journal_mode = wal`
		}
		create(t, file, mode, `CREATE TABLE notes (text)`, `INSERT INTO notes VALUES ('x')`)
		touch := func() {
			if err := os.Chtimes(file, time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}
		var b bytes.Buffer
		err := Write(t.Context(), &changingFS{vfs.OS{}, 4, touch}, file, []string{"notes"}, &b)
		if err == nil || !strings.Contains(err.Error(), "changed while it was read: close the program that uses it, then retry") || strings.Contains(b.String(), `{"end":`) {
			t.Errorf("log %t: %s%v", wal, b.String(), err)
		}
	}
}

func TestLimits(t *testing.T) {
	enc := json.NewEncoder(&limitedWriter{w: &bytes.Buffer{}, left: 10})
	if err := errors.Join(enc.Encode("12"), enc.Encode("1234567")); err == nil {
		t.Error("no error at the limit of the output")
	}
	file := filepath.Join(t.TempDir(), "a.db")
	create(t, file, `CREATE TABLE notes (text)`).Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Write(ctx, vfs.OS{}, file, []string{"notes"}, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var out, errs bytes.Buffer
	if code := Main([]string{"-x"}, &out, &errs); code != 2 || !strings.Contains(errs.String(), "usage: crabmem-sqlite FILE TABLE...") {
		t.Errorf("%d %s", code, errs.String())
	}
	if code := Main([]string{file, "notes"}, &out, &errs); code != 0 || !strings.Contains(out.String(), `{"end":{"rows":0}}`) {
		t.Errorf("%d %s", code, out.String())
	}
}
