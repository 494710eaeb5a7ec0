package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"crabmem/crmem/vfs"
)

// Files provides the tools read, edit, list, and write. They access only regular files under
// the directory of a session. No name, link, or concurrent change leads outside
// the directory or into a hidden path.
type Files struct {
	fsys vfs.FS

	editing sync.Mutex // one edit at a time: each reads, changes and replaces
	mu      sync.Mutex
	own     []string                  // hidden files of crabmem
	hidden  []string                  // own and those of the kernel; never changed, but replaced
	seen    map[uint64]map[string]sum // session, real path
}

// sum is of the contents of a file, as they were read.
type sum [32]byte

const (
	maxFile = 50 << 20 // bytes of a file that is read

	// The record of read files is limited; a model can read a file again when
	// an error asks for it.
	maxSeen     = 1000 // files of a session
	maxSessions = 4096
)

// NewFiles returns the tools for the files of a machine. Hidden are the
// directories and files that no agent is shown: the data directory, keys.
// Where there are /dev, /proc and /sys, they are hidden too: the files there
// are the kernel's.
func NewFiles(fsys vfs.FS, hidden []string) *Files {
	f := &Files{fsys: fsys, seen: make(map[uint64]map[string]sum)}
	f.Hide(hidden)
	return f
}

// Hide replaces the list of hidden paths.
func (f *Files) Hide(hidden []string) {
	own, hidden := hidden, slices.Clone(hidden)
	if runtime.GOOS != "windows" {
		hidden = append(hidden, "/dev", "/proc", "/sys")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.own, f.hidden = own, hidden
}

// Tools returns read, edit, list, and write.
func (f *Files) Tools() []Tool {
	return []Tool{f.readTool(), f.editTool(), f.listTool(), f.writeTool()}
}

// Forget discards the record of files that a session read. Call it when the
// session ends.
func (f *Files) Forget(session uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.seen, session)
}

func (f *Files) remember(session uint64, path string, s sum) {
	f.mu.Lock()
	defer f.mu.Unlock()
	files := f.seen[session]
	if files == nil {
		makeRoom(f.seen, maxSessions)
		files = make(map[string]sum)
		f.seen[session] = files
	}
	makeRoom(files, maxSeen)
	files[path] = s
}

// makeRoom removes an entry of a map that has as many as it may have.
func makeRoom[K comparable, V any](m map[K]V, limit int) {
	if len(m) < limit {
		return
	}
	for key := range m {
		delete(m, key)
		return
	}
}

func (f *Files) remembered(session uint64, path string) (sum, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.seen[session][path]
	return s, ok
}

// place is where a file of a session is: a name in a directory that is held.
type place struct {
	dir  vfs.RootDir // to be closed
	name string
	path string // real and absolute

	hidden  hiddenFiles
	missing bool // no file is there
}

var errNoDir = errors.New("session has no working directory, so files are unavailable; create a session with a working directory")

// find finds a file under the session's directory, or one that the scope opens. The
// error for a path outside or for a hidden file equals the error for a missing file.
func (f *Files) find(c Call, path string) (*place, error) {
	if slices.Contains(c.Scope.Instructions.Names(), path) || c.Results != "" && filepath.Dir(path) == c.Results {
		dir, err := f.fsys.Root(filepath.Dir(path))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return &place{dir: dir, name: filepath.Base(path), path: path}, nil
	}
	p, err := f.locate(c, path)
	if err == nil && p.missing {
		p.dir.Close()
		return nil, f.none(c, path)
	}
	return p, err
}

// locate is find for a file that may be missing.
func (f *Files) locate(c Call, path string) (*place, error) {
	real, top, err := f.resolve(c, path)
	if err != nil {
		return nil, err
	}
	hidden := f.hiddenNow()
	dir, err := f.walk(filepath.Dir(real), hidden)
	if err != nil || real == top {
		if err == nil {
			dir.Close()
		}
		return nil, f.none(c, path)
	}
	p := &place{dir: dir, name: filepath.Base(real), path: real, hidden: hidden}
	fi, err := dir.Lstat(p.name)
	if p.missing = errors.Is(err, fs.ErrNotExist); p.missing && !hidden.hasName(real) || err == nil && !hidden.has(real, vfs.Identify(fi)) {
		return p, nil
	}
	dir.Close()
	return nil, f.none(c, path)
}

// none returns the error for a path that no tool accesses. The path's text alone selects the
// hint, so that the hint reveals no file.
func (f *Files) none(c Call, path string) error {
	abs := path
	if !filepath.IsAbs(path) {
		abs = filepath.Join(c.Dir, path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	hint := ""
	if slices.ContainsFunc(f.own, func(own string) bool { _, ok := below(abs, own); return ok }) {
		hint = "; crabmem's own files are closed: use remember and forget for memory; edit opens Crab.md if the agent's configuration sets edit_instructions"
	}
	return fmt.Errorf("%s: no such file under %s%s", path, c.Dir, hint)
}

// resolve returns the real path for a path under the session's directory, whose last
// element may be missing, and the directory's real path.
func (f *Files) resolve(c Call, path string) (real, top string, err error) {
	switch {
	case c.Dir == "":
		return "", "", errNoDir
	case path == "":
		return "", "", errors.New("path must not be empty")
	case strings.ContainsRune(path, 0) || len(path) > 4096:
		return "", "", fmt.Errorf("%q is not a path", clipName(path))
	}
	if top, err = f.fsys.Resolve(c.Dir); err != nil {
		return "", "", fmt.Errorf("session directory: %w", err)
	}
	var rel string
	if filepath.IsAbs(path) {
		var ok bool
		if rel, ok = below(path, c.Dir); !ok {
			if rel, ok = below(path, top); !ok {
				return "", "", f.none(c, path)
			}
		}
	} else {
		rel = filepath.Clean(path)
	}
	if !filepath.IsLocal(rel) {
		return "", "", f.none(c, path)
	}
	// Resolve links by name. The callers walk the result without following links, each
	// directory in its parent.
	if real, err = f.fsys.Resolve(filepath.Join(top, rel)); err != nil {
		return "", "", f.none(c, path)
	}
	if _, ok := below(real, top); !ok {
		return "", "", f.none(c, path)
	}
	return real, top, nil
}

// walk opens a directory by its real path, from the top down. Of each on the
// way it makes sure that it is a directory, no link, in the one before, which
// is held open: a concurrent rename has no effect.
func (f *Files) walk(path string, hidden hiddenFiles) (vfs.RootDir, error) {
	at := filepath.VolumeName(path) + string(filepath.Separator)
	var dir vfs.RootDir // the directory at; nil if it is not readable
	rest := strings.TrimPrefix(path, at)
	for {
		next, err := f.fsys.Root(at)
		if errors.Is(err, fs.ErrPermission) && rest != "" {
			// A user who cannot read the directory cannot rename in it either.
			fi, lerr := f.fsys.Lstat(at)
			if err = lerr; err == nil && (!fi.IsDir() || hidden.has(at, vfs.Identify(fi))) {
				err = fs.ErrNotExist
			}
		} else if err == nil && dir != nil {
			err = contains(dir, filepath.Base(at), next)
		}
		if next != nil && err == nil && hidden.hasDir(at, next) {
			err = fs.ErrNotExist
		}
		if dir != nil {
			dir.Close()
		}
		if err != nil {
			if next != nil {
				next.Close()
			}
			return nil, err
		}
		if dir = next; rest == "" {
			return dir, nil
		}
		var name string
		name, rest, _ = strings.Cut(rest, string(filepath.Separator))
		at = filepath.Join(at, name)
	}
}

// contains returns nil when a name in a directory is the directory that was
// opened, and no link to it.
func contains(dir vfs.RootDir, name string, opened vfs.RootDir) error {
	named, err := dir.Lstat(name)
	if err != nil {
		return err
	}
	is, err := opened.Lstat(".")
	if err != nil {
		return err
	}
	if !named.IsDir() || !same(vfs.Identify(named), vfs.Identify(is)) {
		return fs.ErrNotExist
	}
	return nil
}

func same(a, b vfs.Identity) bool { return a.Dev == b.Dev && a.Ino == b.Ino }

// below returns the name of a path as seen from a directory it is in.
func below(path, dir string) (string, bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// hiddenFiles has the present identities of the hidden paths, because a
// directory may have several names. On a platform without identities, only
// names count.
type hiddenFiles []hiddenFile

type hiddenFile struct {
	path string // real
	id   vfs.Identity
}

func (f *Files) hiddenNow() hiddenFiles {
	f.mu.Lock()
	hidden := f.hidden
	f.mu.Unlock()
	var list hiddenFiles
	for _, name := range hidden {
		real, err := f.fsys.Resolve(name)
		if err != nil {
			continue // it is not there
		}
		id := vfs.Identity{} // of a missing file, which may be created
		if fi, err := f.fsys.Lstat(real); err == nil {
			id = vfs.Identify(fi)
		}
		list = append(list, hiddenFile{real, id})
	}
	return list
}

func (h hiddenFiles) has(path string, id vfs.Identity) bool {
	return slices.ContainsFunc(h, func(f hiddenFile) bool {
		if id == (vfs.Identity{}) {
			_, ok := below(path, f.path)
			return ok
		}
		return same(f.id, id)
	})
}

// hasName reports whether a missing file's path is hidden. Letter case makes no difference.
func (h hiddenFiles) hasName(path string) bool {
	return slices.ContainsFunc(h, func(f hiddenFile) bool {
		_, ok := below(strings.ToLower(path), strings.ToLower(f.path))
		return ok
	})
}

// hasDir reports whether an open directory is hidden; an unknown one
// is.
func (h hiddenFiles) hasDir(path string, dir vfs.RootDir) bool {
	fi, err := dir.Lstat(".")
	return err != nil || h.has(path, vfs.Identify(fi))
}

// open opens the file of a place. Its error describes anything else at the
// place.
func (p *place) open(shown string) (vfs.File, fs.FileInfo, error) {
	file, err := p.dir.Open(p.name)
	if err != nil {
		fi, lerr := p.dir.Lstat(p.name)
		switch {
		case lerr == nil && fi.IsDir():
			return nil, nil, fmt.Errorf("%s is a directory", shown)
		case errors.Is(err, vfs.ErrNotRegular):
			return nil, nil, fmt.Errorf("%s is not a regular file", shown)
		case errors.Is(err, fs.ErrPermission):
			return nil, nil, fmt.Errorf("%s: permission denied", shown)
		}
		return nil, nil, fmt.Errorf("%s: %w", shown, err)
	}
	fi, err := file.Stat()
	if err == nil && p.hidden.has(p.path, vfs.Identify(fi)) {
		err = fmt.Errorf("%s is not a regular file", shown) // it was put there just now
	}
	if err == nil && fi.Size() > maxFile {
		err = fmt.Errorf("file is too large (%d bytes, at most %d)", fi.Size(), maxFile)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, fi, nil
}
