package main

import (
	"database/sql"
	"strings"

	"crabmem/bench/measure"

	_ "modernc.org/sqlite" // registers the driver
)

// fts5 is SQLite's full-text index in memory, without a copy of the text.
type fts5 struct {
	db                  *sql.DB
	insert, search, del *sql.Stmt
}

func newFTS5() (measure.Engine, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // a memory database belongs to one connection
	f := &fts5{db: db}
	if _, err := db.Exec(`CREATE VIRTUAL TABLE docs USING fts5(text, content='', contentless_delete=1, tokenize='ascii')`); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&f.insert, `INSERT OR REPLACE INTO docs(rowid, text) VALUES (?, ?)`},
		{&f.search, `SELECT rowid, rank FROM docs WHERE docs MATCH ? ORDER BY rank LIMIT ?`},
		{&f.del, `DELETE FROM docs WHERE rowid = ?`},
	} {
		if *p.stmt, err = db.Prepare(p.text); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *fts5) Name() string { return "fts5" }

func (f *fts5) Build(docs []string) error {
	tx, err := f.db.Begin()
	if err != nil {
		return err
	}
	insert := tx.Stmt(f.insert)
	for i, d := range docs {
		if _, err := insert.Exec(i, d); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (f *fts5) Search(query string, k int) (int, error) {
	rows, err := f.search.Query(strings.Join(strings.Fields(query), " OR "), k)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var id int64
		var rank float64
		if err := rows.Scan(&id, &rank); err != nil {
			return 0, err
		}
		n++
	}
	return n, rows.Err()
}

func (f *fts5) Put(id int, doc string) error {
	_, err := f.insert.Exec(id, doc)
	return err
}

func (f *fts5) Remove(id int, _ string) error {
	_, err := f.del.Exec(id)
	return err
}

func (f *fts5) Close() error { return f.db.Close() }
