// Package vectors reads testdata/vectors, the files that fuzz/vectorgen writes.
//
// A vector has a text header, an empty line, and bytes in hex:
//
//	expect: dup-id
//	field: id
//	offset: 66
//	entry: 1
//	comment: R6: two names have one id
//
//	0000  43 52 4d 45 4d 00     magic "CRMEM\0"
//
// A line of bytes starts with the offset. The text after two spaces is a comment.
// "-- NAME --" starts another file of the same vector.
package vectors

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Vector is input with the expected result of a reader.
type Vector struct {
	Name   string // file name without .txt
	Expect string // "ok" or the class of the fault
	Field  string // field of the fault; empty if Expect is "ok"
	Offset int64
	Entry  int               // index of the entry with the fault; -1 outside the entries
	More   map[string]string // other header lines
	Files  map[string][]byte // section → bytes; the first section is "db"
}

// DB returns the snapshot of the vector.
func (v *Vector) DB() []byte { return v.Files["db"] }

// Load reads every vector of a directory, in order of their names. It returns an
// error if there are fewer than least.
func Load(fsys fs.FS, dir string, least int) ([]*Vector, error) {
	names, err := fs.Glob(fsys, path.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	if len(names) < least {
		return nil, fmt.Errorf("%s: %d vectors, want at least %d", dir, len(names), least)
	}
	var all []*Vector
	for _, name := range names {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		v, err := parse(string(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		v.Name = strings.TrimSuffix(path.Base(name), ".txt")
		all = append(all, v)
	}
	return all, nil
}

func parse(text string) (*Vector, error) {
	v := &Vector{Entry: -1, More: map[string]string{}, Files: map[string][]byte{}}
	head, body, ok := strings.Cut(text, "\n\n")
	if !ok {
		return nil, fmt.Errorf("no empty line after the header")
	}
	for line := range strings.SplitSeq(head, "\n") {
		key, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok {
			return nil, fmt.Errorf("header line %q", line)
		}
		var err error
		switch key {
		case "expect":
			v.Expect = value
		case "field":
			v.Field = value
		case "offset":
			v.Offset, err = strconv.ParseInt(value, 10, 64)
		case "entry":
			v.Entry, err = strconv.Atoi(value)
		default:
			v.More[key] = value
		}
		if err != nil {
			return nil, err
		}
	}
	if v.Expect == "" || (v.Expect == "ok") != (v.Field == "") {
		return nil, fmt.Errorf("expect is %q, but field is %q", v.Expect, v.Field)
	}
	section := "db"
	v.Files[section] = []byte{}
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "-- "); ok {
			section = strings.TrimSuffix(name, " --")
			v.Files[section] = []byte{}
			continue
		}
		at, rest, ok := strings.Cut(line, "  ")
		if !ok {
			return nil, fmt.Errorf("line %q", line)
		}
		if n, err := strconv.ParseInt(at, 16, 64); err != nil || n != int64(len(v.Files[section])) {
			return nil, fmt.Errorf("line %q: wrong offset, want %x", line, len(v.Files[section]))
		}
		digits, _, _ := strings.Cut(rest, "  ")
		b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		v.Files[section] = append(v.Files[section], b...)
	}
	return v, nil
}
