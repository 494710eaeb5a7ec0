package tool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

type readArgs struct {
	Path   string `json:"path" jsonschema:"file, under the session's directory"`
	Offset int    `json:"offset,omitempty" jsonschema:"first line to show, from 1"`
	Limit  int    `json:"limit,omitempty" jsonschema:"lines to show at most, 2000 by default"`
}

const (
	readLines = 2000
	// readOutput leaves room for the trailer under MaxOutput.
	readOutput = MaxOutput - 256
)

func (f *Files) readTool() Tool {
	return New(Read, "Reads a text file under the session's directory. Each line comes after its number and a tab. "+
		"A long file is returned in parts: the last line contains the line range and the total.", f.read).Reader()
}

func (f *Files) read(_ context.Context, c Call, args readArgs) (string, error) {
	if args.Offset < 0 || args.Limit < 0 {
		return "", errors.New("offset and limit must not be negative")
	}
	if args.Limit == 0 {
		args.Limit = readLines
	}
	p, err := f.find(c, args.Path)
	if err != nil {
		return "", err
	}
	defer p.dir.Close()
	file, fi, err := p.open(args.Path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	v := &view{first: max(args.Offset, 1), limit: args.Limit}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(v, hash), io.LimitReader(file, maxFile+1))
	switch {
	case errors.Is(err, errBinary):
		return "", fmt.Errorf("%s is a binary file (%d bytes)", args.Path, fi.Size())
	case err != nil:
		return "", fmt.Errorf("%s: %w", args.Path, err)
	case n > maxFile:
		return "", fmt.Errorf("file is too large (more than %d bytes)", maxFile)
	}
	f.remember(c.Session, p.path, sum(hash.Sum(nil)))
	return v.text(), nil
}

var errBinary = errors.New("binary")

// view is the lines of a text that are to be shown, as it goes by.
type view struct {
	first, limit int

	total int    // lines that have ended
	line  []byte // printable part of an unfinished line
	left  int    // and the bytes of it that cannot
	open  bool   // a line is unfinished
	out   []byte
	shown int  // lines in out
	full  bool // no more of them fit
}

func (v *view) Write(p []byte) (int, error) {
	if bytes.IndexByte(p, 0) >= 0 {
		return 0, errBinary
	}
	n := len(p)
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		p = rest
		v.open = true
		if v.wanted() {
			k := min(len(line), readOutput-len(v.line))
			v.line = append(v.line, line[:k]...)
			v.left += len(line) - k
		}
		if ended {
			v.end()
		}
	}
	return n, nil
}

func (v *view) wanted() bool {
	return !v.full && v.total+1 >= v.first && v.total+1-v.first < v.limit
}

func (v *view) end() {
	if v.wanted() {
		line := v.line
		if v.left == 0 {
			line = bytes.TrimSuffix(line, []byte("\r"))
		}
		row := fmt.Appendf(nil, "%d\t%s\n", v.total+1, lossy(line))
		if room := readOutput - len(v.out); len(row) <= room && v.left == 0 {
			v.out = append(v.out, row...)
			v.shown++
		} else {
			v.full = true
			if v.shown == 0 { // a line that is alone too long is shown in part
				const note = 64
				number := fmt.Sprintf("%d\t", v.total+1)
				head := line[:fits(line, readOutput-note)]
				v.out = fmt.Appendf(v.out, "%s%s... [%d more bytes of this line]\n", number, lossy(head), len(line)+v.left-len(head))
				v.shown++
			}
		}
	}
	v.line, v.left, v.open = v.line[:0], 0, false
	v.total++
}

// text is called after the last Write.
func (v *view) text() string {
	if v.open {
		v.end()
	}
	switch {
	case v.shown == v.total:
		return fmt.Sprintf("%s--- %d total lines ---", v.out, v.total)
	case v.shown == 0:
		return fmt.Sprintf("--- %d total lines (no line %d) ---", v.total, v.first)
	}
	return fmt.Sprintf("%s--- %d total lines (showing lines %d-%d) ---", v.out, v.total, v.first, v.first+v.shown-1)
}
