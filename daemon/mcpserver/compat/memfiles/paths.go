package memfiles

import (
	"fmt"
	"sort"
	"strings"
	"unicode"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/daemon/display"
)

// parsePath returns a path without a slash at its end, and an error if
// checkPath returns a reason.
func parsePath(path string) (string, error) {
	if why := checkPath(path); why != "" {
		return "", errorf("Error: Invalid path %s: %s", display.Printable(clip.Bytes(path, display.MaxShownName)), why)
	}
	if path == root {
		return path, nil
	}
	return strings.TrimSuffix(path, "/"), nil
}

// checkPath returns why a path is invalid, and "" if it is valid. A valid path
// names the same place here and in the tree of a dump.
func checkPath(path string) string {
	if path == root || path == root+"/" {
		return ""
	}
	p := strings.TrimSuffix(path, "/")
	rest, ok := strings.CutPrefix(p, root+"/")
	if !ok {
		return "it must start with /memories/"
	}
	if len(p) > crmem.MaxName {
		return fmt.Sprintf("it has more than %d bytes", crmem.MaxName)
	}
	lower := strings.ToLower(p)
	for _, bad := range []string{`\`, "%2e", "%2f", "%5c", "%00"} {
		if strings.Contains(lower, bad) {
			return "it must not contain " + bad
		}
	}
	if strings.ContainsFunc(p, func(r rune) bool { return unicode.IsControl(r) || !display.Showable(r) }) {
		return "it must not contain control characters"
	}
	parts := strings.Split(rest, "/")
	if len(parts) > maxPathDepth {
		return fmt.Sprintf("it is more than %d directories deep", maxPathDepth)
	}
	for _, part := range parts {
		if strings.Trim(part, " ") == "" || strings.Trim(part, ".") == "" {
			return "each part must be a name, and not empty, ., or .."
		}
	}
	return ""
}

func noPath(path string) error { return errorf("Error: The path %s does not exist", path) }

// file is an entry with its path.
type file struct {
	path string
	crmem.Entry
}

const extension = ".md"

// pathOf returns the path of an entry: its name if that is a path, otherwise
// /memories/NAME.md. ok is false for a name that cannot be part of a path, and for
// archives whose name is not a path.
func pathOf(e *crmem.Entry) (path string, ok bool) {
	if isPath(e.Name) {
		return e.Name, true
	}
	path = root + "/" + e.Name + extension
	return path, e.Kind == crmem.Note && isPath(path)
}

// isPath reports whether a name is the path of a file.
func isPath(name string) bool {
	p, err := parsePath(name)
	return err == nil && p == name && p != root
}

// nameOf returns the name of the entry for a new file.
func nameOf(path string) string {
	name, ok := strings.CutSuffix(strings.TrimPrefix(path, root+"/"), extension)
	if !ok || name == "" || strings.HasSuffix(name, "/") {
		return path
	}
	return name
}

// fileOf returns the file with a path. ok is false if no entry has this path. An entry
// whose name is the path has precedence over the note /memories/NAME.md.
func fileOf(st *crmem.Store, path string) (f file, ok bool) {
	for _, name := range []string{path, nameOf(path)} {
		if e, err := st.Get(name); err == nil && crmem.SameName(e.Name, name) {
			return file{path, e}, true
		}
	}
	return file{}, false
}

// filesBelow returns the files in a directory and its subdirectories, sorted by path.
// hidden is the number of notes in the store that have no path, or whose path
// another file has.
func filesBelow(st *crmem.Store, path string) (list []file, hidden int) {
	for e := range st.All() {
		p, ok := pathOf(&e)
		if ok && p != e.Name {
			first, _ := fileOf(st, p)
			ok = first.ID == e.ID
		}
		if ok && strings.HasPrefix(p, path+"/") {
			list = append(list, file{p, e})
		} else if !ok && e.Kind == crmem.Note {
			hidden++
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].path < list[j].path })
	return list, hidden
}

// fileAbove returns the first parent of path that is a file.
func fileAbove(st *crmem.Store, path string) (string, bool) {
	for i := len(root) + 1; i < len(path); i++ {
		if path[i] == '/' {
			if _, ok := fileOf(st, path[:i]); ok {
				return path[:i], true
			}
		}
	}
	return "", false
}

// filesAt returns the files of a path: the file itself, or all files under a
// directory.
func filesAt(st *crmem.Store, path string) ([]file, error) {
	list, _ := filesBelow(st, path)
	if f, ok := fileOf(st, path); ok {
		list = []file{f}
	}
	if len(list) == 0 {
		return nil, noPath(path)
	}
	for _, f := range list {
		if err := changeable(f); err != nil && f.path != path {
			err = errorf("Error: %s contains the archive of a conversation, and this tool cannot change archives", path)
			return nil, &display.NamesError{Err: err, Names: []string{f.Name}}
		} else if err != nil {
			return nil, err
		}
	}
	return list, nil
}
