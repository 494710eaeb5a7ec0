package memfiles

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"crabmem/bm25/snippet"
	"crabmem/crmem"
	"crabmem/crmem/limits"
	"crabmem/daemon/display"
	"crabmem/daemon/memtool"
)

// parsePath returns a path without a slash at its end, and an error if
// checkPath returns a reason.
func parsePath(path string) (string, error) {
	if why := checkPath(path); why != "" {
		return "", errorf("Error: Invalid path %s: %s", display.Printable(snippet.Clip(path, memtool.MaxShownName)), why)
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
	if len(p) > limits.Name {
		return fmt.Sprintf("it has more than %d bytes", limits.Name)
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

// fileOf returns the entry of a path. ok is false if there is none.
func fileOf(st *crmem.Store, path string) (e crmem.Entry, ok bool) {
	e, err := st.Get(path)
	return e, err == nil && e.Name == path
}

// entriesBelow returns the entries of a directory and those below it, by name.
func entriesBelow(st *crmem.Store, path string) []crmem.Entry {
	var list []crmem.Entry
	for e := range st.All() {
		if p, err := parsePath(e.Name); err == nil && p == e.Name && strings.HasPrefix(p, path+"/") {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b crmem.Entry) int { return cmp.Compare(a.Name, b.Name) })
	return list
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
func filesAt(st *crmem.Store, path string) ([]crmem.Entry, error) {
	list := entriesBelow(st, path)
	if e, ok := fileOf(st, path); ok {
		list = []crmem.Entry{e}
	}
	if len(list) == 0 {
		return nil, noPath(path)
	}
	for _, e := range list {
		if err := changeable(e); err != nil && e.Name != path {
			err = errorf("Error: %s contains the archive of a conversation, and this tool cannot change archives", path)
			return nil, &memtool.NamesError{Err: err, Names: []string{e.Name}}
		} else if err != nil {
			return nil, err
		}
	}
	return list, nil
}
