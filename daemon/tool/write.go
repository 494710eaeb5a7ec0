package tool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

type writeArgs struct {
	Path    string `json:"path" jsonschema:"path of a file in the session directory"`
	Content string `json:"content" jsonschema:"the whole text of the file"`
	Create  bool   `json:"create,omitempty" jsonschema:"refuse a path that exists"`
}

// maxDirs limits the directories above a file that write creates.
const maxDirs = 64

func (f *Files) writeTool() Tool {
	return New(Write, "Writes a whole file in the session directory, and the directories above it. "+
		"Read an existing file first. To change a part of a file, use edit.", f.write)
}

func (f *Files) write(_ context.Context, c Call, args writeArgs) (string, error) {
	f.editing.Lock()
	defer f.editing.Unlock()
	if dir := filepath.Dir(args.Path); strings.Count(dir, string(filepath.Separator)) < maxDirs {
		if err := f.makeDirs(c, dir); err != nil {
			return "", err
		}
	}
	p, err := f.locate(c, args.Path)
	if err != nil {
		return "", err
	}
	defer p.dir.Close()
	mode := fs.FileMode(0o644)
	switch {
	case p.missing:
	case args.Create:
		return "", fmt.Errorf("%s exists: write it without create, or choose another path", args.Path)
	default:
		if fi, err := p.dir.Lstat(p.name); err == nil && fi.IsDir() {
			return "", fmt.Errorf("%s is a directory", args.Path)
		}
		if _, mode, err = f.known(c, p, args.Path); err != nil {
			return "", err
		}
	}
	if err := f.replace(c, p, args.Path, mode, []byte(args.Content)); err != nil {
		return "", err
	}
	return fmt.Sprintf("wrote %d bytes", len(args.Content)), nil
}

// makeDirs creates a directory under the session's directory, and those above it.
func (f *Files) makeDirs(c Call, path string) error {
	p, err := f.locate(c, path)
	if err != nil && path != "." && path != filepath.Dir(path) {
		if err := f.makeDirs(c, filepath.Dir(path)); err != nil {
			return err
		}
		p, err = f.locate(c, path)
	}
	if err != nil {
		return nil // the session's directory, or a path that locate refuses for the file, too
	}
	defer p.dir.Close()
	if p.missing {
		if err := errors.Join(p.dir.Mkdir(p.name, 0o755), p.dir.SyncDir(".")); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
