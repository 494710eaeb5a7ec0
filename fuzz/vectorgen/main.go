// Vectorgen writes the files of testdata/vectors.
//
//	go run ./fuzz/vectorgen [DIR]
//
// Each vector is one file: a text header, an empty line, and the bytes in hex
// with comments. A vector has at most one fault. It is a row of a table and
// edits the base of that table. The program does not use package crmem, so it
// can write invalid bytes. The package's test compares the committed files with
// the tables.
package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"crabmem/crmem/vfs"
)

// vector is a sequence of bytes and the verdict that a reader must return.
type vector struct {
	name    string // path under the vectors' directory, without .txt
	expect  string // "ok" or the class of the fault
	comment string
	bytes   part
}

// row is a vector of a table. bytes follows the table's base.
type row struct {
	name, comment string
	bytes         part
}

func edit(name, comment string, parts ...part) row { return row{name, comment, seq(parts...)} }

// expecting returns the vectors of a table.
func expecting(prefix, expect string, base part, rows []row) []vector {
	all := make([]vector, len(rows))
	for i, r := range rows {
		all[i] = vector{prefix + r.name, expect, r.comment, seq(base, r.bytes)}
	}
	return all
}

func main() {
	dir := filepath.Join("testdata", "vectors")
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	n, err := generate(vfs.OS{}, dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vectorgen:", err)
		os.Exit(1)
	}
	fmt.Printf("%d vectors in %s\n", n, dir)
}

func generate(fsys vfs.FS, dir string) (int, error) {
	all := vectors()
	for _, v := range all {
		name := filepath.Join(dir, filepath.FromSlash(v.name)+".txt")
		if err := vfs.MkdirAll(fsys, filepath.Dir(name), 0o755); err != nil {
			return 0, err
		}
		err := vfs.WriteFile(fsys, name, 0o644, []byte(v.text()))
		if err != nil {
			return 0, err
		}
	}
	return len(all), nil
}

func vectors() []vector { return append(snapshots(), logs()...) }

// text renders the vector as its file.
func (v *vector) text() string {
	var p page
	v.bytes(&p)
	var b strings.Builder
	fmt.Fprintf(&b, "expect: %s\n", v.expect)
	if v.expect != "ok" && p.field == "" {
		panic("vectorgen: " + v.name + ": the fault is not marked")
	}
	if p.field != "" {
		fmt.Fprintf(&b, "field: %s\noffset: %d\n", p.field, p.offset)
	}
	if p.inEntry {
		fmt.Fprintf(&b, "entry: %d\n", p.entry)
	}
	for _, x := range p.extra {
		fmt.Fprintln(&b, x)
	}
	fmt.Fprintf(&b, "comment: %s\n\n", v.comment)
	w := bufio.NewWriter(&b)
	p.render(w)
	if err := w.Flush(); err != nil {
		panic("vectorgen: " + err.Error())
	}
	return b.String()
}
