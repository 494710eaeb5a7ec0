package workspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
)

// A reader reads the files of a workspace within limits, and adds them to the digest.
type reader struct {
	tree  vfs.RootDir
	root  string
	sum   hash.Hash
	files int
	bytes int
}

func (r *reader) path(names ...string) string {
	return filepath.Join(append([]string{r.root}, names...)...)
}

// read returns a file, and adds its name and text to the digest.
func (r *reader) read(name string, limit int64) ([]byte, error) {
	text, err := vfs.ReadFile(r.tree, name, limit)
	if err == nil {
		r.files++
		r.bytes += len(text)
		if r.files > maxFiles || r.bytes > maxBytes {
			err = fmt.Errorf("the workspace has more than %d files, or %d bytes", maxFiles, maxBytes)
		}
	}
	if err != nil {
		return nil, broken(r.path(name), err)
	}
	var size [8]byte
	for _, part := range [][]byte{[]byte(name), text} { // a length before each part makes the sequence unambiguous
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		r.sum.Write(size[:])
		r.sum.Write(part)
	}
	return text, nil
}

// list returns the entries of a directory, which may be missing. It refuses a link.
func (r *reader) list(dir string) ([]fs.DirEntry, error) {
	fi, err := r.tree.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !fi.IsDir() {
		err = errors.New("not a directory (links are not followed)")
	}
	var entries []fs.DirEntry
	if err == nil {
		entries, err = r.tree.ReadDir(dir)
	}
	if err == nil && len(entries) > maxFiles {
		err = fmt.Errorf("%d files, more than the limit of %d", len(entries), maxFiles)
	}
	if err != nil {
		return nil, broken(r.path(dir), err)
	}
	return entries, nil
}

// tables reads the TOML files in directories, and adds them to files.
func (r *reader) tables(files []config.WorkspaceFile, kinds []kind) ([]config.WorkspaceFile, error) {
	for _, k := range kinds {
		entries, err := r.list(k.dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), ".toml")
			if !ok || strings.HasPrefix(name, ".") {
				continue
			}
			f := config.WorkspaceFile{Path: r.path(k.dir, e.Name()), Kind: k.kind, Name: name}
			if f.Text, err = r.read(path.Join(k.dir, e.Name()), maxFile); err != nil {
				return nil, err
			}
			if files = append(files, f); len(files) > maxParts {
				return nil, broken(r.path(k.dir), fmt.Errorf("more than %d agents, servers, and cron entries", maxParts))
			}
		}
	}
	return files, nil
}

// checkManaged refuses a link in the place of a parent of the managed directories.
func (r *reader) checkManaged() error {
	for _, dir := range []string{path.Dir(Managed), Managed} {
		if _, err := r.list(dir); err != nil {
			return err
		}
	}
	return nil
}

// skills adds all files below dir to the digest, and the directories below top with SKILL.md to
// names.
func (r *reader) skills(top, dir string, depth int, names *[]string) error {
	entries, err := r.list(dir)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return broken(r.path(dir), fmt.Errorf("more than %d directories deep", maxDepth))
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			if err := r.skills(top, name, depth+1, names); err != nil {
				return err
			}
			continue
		}
		if _, err := r.read(name, maxSkill); err != nil {
			return err
		}
		if e.Name() == "SKILL.md" {
			*names = append(*names, strings.TrimPrefix(dir, top+"/"))
		}
	}
	return nil
}

// programs adds the files of the workspace that the commands of servers name to the digest:
// a change of such a file changes what runs.
func (r *reader) programs(w *Workspace) error {
	for _, m := range w.MCPs {
		words := []string{m.Command}
		for _, a := range m.Args {
			words = append(words, string(a))
		}
		for _, word := range words {
			rel := word
			if filepath.IsAbs(word) {
				var err error
				if rel, err = filepath.Rel(r.root, word); err != nil {
					continue
				}
			}
			rel = path.Clean(filepath.ToSlash(rel))
			if !filepath.IsLocal(rel) {
				continue
			}
			fi, err := r.tree.Lstat(rel)
			if err != nil || fi.IsDir() {
				continue // a word that names no file
			}
			if _, err := r.read(rel, maxSkill); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkData refuses links in the place of the store, which may lead out of the workspace.
func (r *reader) checkData(w *Workspace) error {
	if !w.Memory {
		return nil
	}
	for _, name := range []string{Ignored, path.Join(Ignored, filepath.Base(w.Store()))} {
		fi, err := r.tree.Lstat(name)
		if err == nil && fi.IsDir() != (name == Ignored) || err == nil && fi.Mode()&fs.ModeType&^fs.ModeDir != 0 {
			return broken(r.path(name), vfs.ErrNotRegular)
		}
	}
	return nil
}
