package faultfs

import (
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// resolve walks to a name and returns its path without links. Without follow
// the last element is not followed.
func (t *memTree) resolve(name string, follow bool) (string, *node, error) {
	if t.dir == nil {
		return "", nil, fs.ErrClosed
	}
	name = filepath.ToSlash(name)
	if t.confined && (strings.HasPrefix(name, "/") || name == "") {
		return "", nil, errEscapes
	}
	// dirs[i] is the directory of names[:i]. A test resolves millions of short
	// names.
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
		if !at.may(0o100) {
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

func (t *memTree) walk(name string, follow bool) (*node, error) {
	_, n, err := t.resolve(name, follow)
	return n, err
}

// parent returns the directory a name is in, or would be, and its last element.
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
	if !d.may(0o100) {
		return nil, "", syscall.EACCES
	}
	return d, base, nil
}

// may reports whether the owner has a permission.
func (n *node) may(bits fs.FileMode) bool { return n.mode&bits == bits }

// hookName is the name a hook sees.
func (t *memTree) hookName(name string) string {
	if t.confined {
		return path.Join(t.prefix, filepath.ToSlash(name))
	}
	return name
}
