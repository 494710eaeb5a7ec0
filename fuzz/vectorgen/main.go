// Vectorgen lays the files of testdata/vectors byte by byte.
//
//	go run ./fuzz/vectorgen [DIR]
//
// Each vector is one file with at most one fault: a text header, an empty
// line and the bytes in hex with comments. The bytes come from a builder that
// can write nonsense and knows nothing of package crmem, so the encoder under
// test does not set its own exam. The package's test fails when the committed
// files are not what the program lays.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"crabmem/crmem/vfs"
)

// A vector says what a reader must answer for some bytes.
type vector struct {
	name    string // path under the vectors' directory, without .txt
	expect  string // ok, or the class of the fault
	comment string
	lay     func(p *page)
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
		err := vfs.Replace(fsys, name, 0o644, func(w io.Writer) error {
			_, err := io.WriteString(w, v.text())
			return err
		})
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
	v.lay(&p)
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
