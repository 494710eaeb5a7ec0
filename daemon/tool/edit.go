package tool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"crabmem/crmem/vfs"
)

type editArgs struct {
	Path string `json:"path" jsonschema:"path of a file in the session directory; read the file first"`
	Old  string `json:"old_string" jsonschema:"the exact text to replace; it must occur once in the file"`
	New  string `json:"new_string" jsonschema:"text to put in its place"`
}

func (f *Files) editTool() Tool {
	return New(Edit, "Replaces text in a file in the session directory. Read the file first. "+
		"old_string must occur in it exactly once, without the line numbers of read.", f.edit)
}

func (f *Files) edit(_ context.Context, c Call, args editArgs) (string, error) {
	if args.Old == "" {
		return "", errors.New("old_string must not be empty")
	}
	if args.Old == args.New {
		return "", errors.New("old_string and new_string are identical")
	}
	f.editing.Lock()
	defer f.editing.Unlock()
	p, err := f.find(c, args.Path)
	if err != nil {
		return "", err
	}
	defer p.dir.Close()
	text, mode, err := f.known(c, p, args.Path)
	if err != nil {
		return "", err
	}
	older, newer := []byte(args.Old), []byte(args.New)
	if windowsLines(text) {
		// The model sees the text of such a file without carriage returns.
		older, newer = toWindows(older), toWindows(newer)
	}
	switch n := bytes.Count(text, older); {
	case n == 0:
		return "", errors.New("old_string not found")
	case n > 1:
		return "", fmt.Errorf("old_string is not unique, found %d occurrences", n)
	}
	if len(text)-len(older)+len(newer) > maxFile {
		return "", fmt.Errorf("file is too large (it would be over %d bytes)", maxFile)
	}
	text = bytes.Replace(text, older, newer, 1)
	return "ok", f.replace(c, p, args.Path, mode, text)
}

// known returns the text of a file that the session has read and that has not changed
// since, and the file's permissions.
func (f *Files) known(c Call, p *place, shown string) ([]byte, fs.FileMode, error) {
	read, ok := f.remembered(c.Session, p.path)
	if !ok {
		return nil, 0, fmt.Errorf("you must read %s before editing it", shown)
	}
	file, fi, err := p.open(shown)
	if err != nil {
		return nil, 0, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", shown, err)
	}
	if sha256.Sum256(text) != read {
		return nil, 0, fmt.Errorf("%s has changed since you read it: read it again before editing it", shown)
	}
	if fi.Mode().Perm()&0o200 == 0 {
		return nil, 0, fmt.Errorf("%s is read-only", shown)
	}
	return text, fi.Mode().Perm(), nil
}

// replace writes the text of a file, by another file and a rename.
func (f *Files) replace(c Call, p *place, shown string, mode fs.FileMode, text []byte) error {
	if err := vfs.WriteFile(p.dir, p.name, mode, text); err != nil {
		return fmt.Errorf("%s: %w", shown, err)
	}
	f.remember(c.Session, p.path, sha256.Sum256(text))
	return nil
}

// windowsLines reports whether every line of a text ends in \r\n.
func windowsLines(text []byte) bool {
	n := bytes.Count(text, []byte("\n"))
	return n > 0 && n == bytes.Count(text, []byte("\r\n"))
}

func toWindows(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
}
