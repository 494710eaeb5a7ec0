package tool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"crabmem/crmem/vfs"
)

type listArgs struct {
	Path  string `json:"path,omitempty" jsonschema:"directory, under the session's directory; default: that directory"`
	Depth int    `json:"depth,omitempty" jsonschema:"levels of directories, from 1, the default, to 3"`
	Limit int    `json:"limit,omitempty" jsonschema:"names at most, 500 by default"`
}

const (
	listNames = 500
	maxDepth  = 3
)

func (f *Files) listTool() Tool {
	return New(ListFiles, "Lists a directory under the session's directory: a line for each name, with a file's size in bytes. "+
		"A directory's name ends in /, a link's in @.", f.list).Reader()
}

func (f *Files) list(_ context.Context, c Call, args listArgs) (string, error) {
	if args.Depth < 0 || args.Depth > maxDepth || args.Limit < 0 {
		return "", fmt.Errorf("depth must be from 1 to %d, and limit must not be negative", maxDepth)
	}
	if args.Path == "" {
		args.Path = "."
	}
	if args.Limit == 0 {
		args.Limit = listNames
	}
	real, _, err := f.resolve(c, args.Path)
	if err != nil {
		return "", err
	}
	l := &listing{files: f, hidden: f.hiddenNow(), depth: max(args.Depth, 1), limit: args.Limit}
	if err := l.add(real, ""); err != nil {
		if p, err := f.find(c, args.Path); err == nil {
			p.dir.Close()
			return "", fmt.Errorf("%s is a file: use read", args.Path)
		}
		return "", f.none(c, args.Path)
	}
	if l.total > l.shown {
		return fmt.Sprintf("%s--- %d names (showing %d) ---", &l.out, l.total, l.shown), nil
	}
	return fmt.Sprintf("%s--- %d names ---", &l.out, l.total), nil
}

// listing is a growing list of names.
type listing struct {
	files        *Files
	hidden       hiddenFiles
	depth, limit int

	out          strings.Builder
	shown, total int
}

// add adds the names in a directory, each after a prefix. real is its real path.
func (l *listing) add(real, prefix string) error {
	dir, err := l.files.walk(real, l.hidden)
	if err != nil {
		return err
	}
	entries, err := dir.ReadDir(".")
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	defer dir.Close()
	for _, e := range entries {
		fi, err := dir.Lstat(e.Name())
		path := filepath.Join(real, e.Name())
		if err != nil || l.hidden.has(path, vfs.Identify(fi)) {
			continue
		}
		name := prefix + e.Name()
		switch {
		case fi.IsDir():
			l.line("%s/", name)
			if strings.Count(name, "/") < l.depth-1 && l.shown == l.total {
				_ = l.add(path, name+"/") // an unreadable directory has its line
			}
		case fi.Mode()&fs.ModeSymlink != 0:
			l.line("%s@", name)
		case fi.Mode().IsRegular():
			l.line("%s\t%d", name, fi.Size())
		default:
			l.line("%s", name)
		}
	}
	return nil
}

// line adds a line if it still fits.
func (l *listing) line(format string, args ...any) {
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "?") + "\n"
	if l.total++; l.shown == l.total-1 && l.shown < l.limit && l.out.Len()+len(line) <= readOutput {
		l.out.WriteString(line)
		l.shown++
	}
}
