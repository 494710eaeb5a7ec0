package faultfs

import (
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// resolve returns the path of name without links, and the node. It follows a
// link in the last element only if follow is set or a slash ends name. The
// caller holds mu.
func (t *memTree) resolve(name string, follow bool) (string, *node, error) {
	if t.dir == nil {
		return "", nil, fs.ErrClosed
	}
	name = filepath.ToSlash(name)
	if t.confined && (strings.HasPrefix(name, "/") || name == "") {
		return "", nil, errEscapes
	}
	// dirs[i] is the directory with the path names[:i]. The initial capacity
	// makes short names cheap: tests resolve millions of them.
	dirs, names := append(make([]*node, 0, 8), t.dir), make([]string, 0, 8)
	elem, rest, more := "", name, true
	for hops := 0; more; {
		elem, rest, more = strings.Cut(rest, "/")
		at := dirs[len(dirs)-1]
		if !at.mode.IsDir() {
			return "", nil, syscall.ENOTDIR
		}
		switch elem {
		case "", ".":
			continue
		case "..":
			if len(names) > 0 {
				dirs, names = dirs[:len(dirs)-1], names[:len(names)-1]
			} else if t.confined {
				return "", nil, errEscapes
			}
			continue
		}
		if !at.allows(0o100) {
			return "", nil, syscall.EACCES
		}
		n := at.names[elem]
		if n == nil {
			return "", nil, syscall.ENOENT
		}
		if n.mode.Type() == fs.ModeSymlink && (follow || more) {
			if hops++; hops > 40 {
				return "", nil, syscall.ELOOP
			}
			if strings.HasPrefix(n.target, "/") {
				if t.confined {
					return "", nil, errEscapes
				}
				dirs, names = dirs[:1], names[:0]
			}
			if more {
				rest = n.target + "/" + rest
			} else {
				rest, more = n.target, true
			}
			continue
		}
		dirs, names = append(dirs, n), append(names, elem)
	}
	return "/" + strings.Join(names, "/"), dirs[len(dirs)-1], nil
}

// walk returns the node of name; see resolve.
func (t *memTree) walk(name string, follow bool) (*node, error) {
	_, n, err := t.resolve(name, follow)
	return n, err
}

// parent returns the directory of name and the last element of name, which may
// be missing. It returns EINVAL for ".", "..", and "/". The caller holds mu.
func (t *memTree) parent(name string) (*node, string, error) {
	name = strings.TrimRight(filepath.ToSlash(name), "/")
	dir, base := path.Split(name)
	if base == "" || base == "." || base == ".." {
		return nil, "", syscall.EINVAL
	}
	if dir == "" {
		dir = "."
	}
	d, err := t.walk(dir, true)
	if err != nil {
		return nil, "", err
	}
	if !d.mode.IsDir() {
		return nil, "", syscall.ENOTDIR
	}
	if len(base) > 255 {
		return nil, "", syscall.ENAMETOOLONG
	}
	if !d.allows(0o100) {
		return nil, "", syscall.EACCES
	}
	return d, base, nil
}

// allows reports whether the owner has all permissions in bits.
func (n *node) allows(bits fs.FileMode) bool { return n.mode&bits == bits }

// hookName returns the name to pass to the hook.
func (t *memTree) hookName(name string) string {
	if t.confined {
		return path.Join(t.prefix, filepath.ToSlash(name))
	}
	return name
}
