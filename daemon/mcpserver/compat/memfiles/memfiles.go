// Package memfiles implements the contract of Anthropic's memory tool,
// memory_20250818: six commands on files under /memories, with the exact texts of
// the contract, which models recognize. The file /memories/NAME.md is the note NAME.
// Any other file is a note whose name is the path. Directories are implied by the
// paths of files.
//
// The first line and the lines of a listing are those of the contract.
// [display.Fence] encloses the lines that contain text of the store; no line of the
// contract looks like a fence.
package memfiles

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/daemon/display"
)

// Store contains the files.
type Store interface {
	// Read calls f with the current entries.
	Read(f func(*crmem.Store) error) error
	// Change applies the operations that plan returns, all or none. It may call plan
	// more than once.
	Change(ctx context.Context, plan func(*crmem.Store) ([]crmem.Op, error)) error
}

const root = "/memories"

const (
	maxFileLines = 999_999
	maxPathDepth = 32
)

// Call is a call of the tool.
type Call struct {
	Command    string `json:"command" jsonschema:"what to do"`
	Path       string `json:"path,omitempty" jsonschema:"the file or directory under /memories; for every command except rename" op:"chars=1024"`
	ViewRange  []int  `json:"view_range,omitempty" jsonschema:"view: first and last line, -1 for the end" op:"items=2"`
	FileText   string `json:"file_text,omitempty" jsonschema:"create: the text of the file"`
	OldStr     string `json:"old_str,omitempty" jsonschema:"str_replace: the text to replace, which occurs once"`
	NewStr     string `json:"new_str,omitempty" jsonschema:"str_replace: the text in its place"`
	InsertLine int    `json:"insert_line,omitempty" jsonschema:"insert: the line to insert after, 0 for the beginning of the file"`
	InsertText string `json:"insert_text,omitempty" jsonschema:"insert: the text"`
	OldPath    string `json:"old_path,omitempty" jsonschema:"rename: the path to rename" op:"chars=1024"`
	NewPath    string `json:"new_path,omitempty" jsonschema:"rename: the new path" op:"chars=1024"`
}

// Error is an error whose text is part of the contract: models see it unchanged.
type Error string

func (e Error) Error() string { return string(e) }

func errorf(format string, args ...any) error { return Error(fmt.Sprintf(format, args...)) }

// files runs the commands on a store.
type files struct{ Store }

// Run makes a call and returns the text of its result. An error is an [Error], a
// [display.NamesError] that wraps one, or an error of the store.
func Run(ctx context.Context, s Store, c Call) (string, error) {
	f := files{s}
	if c.Command == "rename" {
		from, err := parsePath(c.OldPath)
		if err != nil {
			return "", err
		}
		to, err := parsePath(c.NewPath)
		if err != nil {
			return "", err
		}
		return f.rename(ctx, from, to)
	}
	path, err := parsePath(c.Path)
	if err != nil {
		return "", err
	}
	switch c.Command {
	case "view":
		return f.view(path, c.ViewRange)
	case "create":
		return f.create(ctx, path, c.FileText)
	case "str_replace":
		return f.replace(ctx, path, c.OldStr, c.NewStr)
	case "insert":
		return f.insert(ctx, path, c.InsertLine, c.InsertText)
	default: // delete: the schema permits no other
		return f.remove(ctx, path)
	}
}

func (f files) view(path string, lines []int) (text string, err error) {
	err = f.Read(func(st *crmem.Store) error {
		if f, ok := fileOf(st, path); ok && path != root {
			text, err = viewFile(f, lines)
			return err
		}
		list, hidden := filesBelow(st, path)
		if len(list) == 0 && path != root {
			return errorf("The path %s does not exist. Please provide a valid path.", path)
		}
		text = viewDirectory(path, list)
		if hidden > 0 && path == root {
			text += fmt.Sprintf("\n(%s with names that are not paths: crabmem list shows the names)", display.Plural(hidden, "further note", "further notes"))
		}
		return nil
	})
	return text, err
}

func viewFile(f file, between []int) (string, error) {
	lines := strings.Split(f.Content, "\n")
	if len(lines) > maxFileLines {
		return "", errorf("File %s exceeds maximum line limit of 999,999 lines.", f.path)
	}
	first, last := 1, len(lines)
	if len(between) == 2 {
		first, last = max(between[0], 1), between[1]
		if last == -1 {
			last = len(lines)
		}
		if first > len(lines) || last < first {
			return "", errorf("Error: Invalid `view_range` parameter: [%d, %d]. It should be within the range of lines of the file: [1, %d]", between[0], between[1], len(lines))
		}
		last = min(last, len(lines))
	}
	var b strings.Builder
	more := ""
	for n := first; n <= last; n++ {
		line := lines[n-1]
		if b.Len()+len(line) > display.MaxShownText {
			if n > first {
				more = fmt.Sprintf("\n(the file has %d lines: view the rest with view_range [%d, -1])", len(lines), n)
				break
			}
			line = clip.Bytes(line, display.MaxShownText) + " (line truncated)"
		}
		fmt.Fprintf(&b, "%6d\t%s\n", n, line)
	}
	return fmt.Sprintf("Here's the content of %s with line numbers:\n%s%s", f.path, display.Fence(b.String()), more), nil
}

// viewDirectory lists two levels with the total size of each directory.
func viewDirectory(path string, list []file) string {
	sizes := make(map[string]int64)
	var shown []string
	total := int64(0)
	for _, e := range list {
		parts := strings.Split(e.path[len(path)+1:], "/")
		if slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, ".") || p == "node_modules" }) {
			continue
		}
		total += int64(len(e.Content))
		for i := 1; i <= min(len(parts), 2); i++ {
			name := strings.Join(parts[:i], "/")
			if i < len(parts) {
				name += "/"
			}
			if _, seen := sizes[name]; !seen {
				shown = append(shown, name)
			}
			sizes[name] += int64(len(e.Content))
		}
	}
	slices.Sort(shown)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\t%s", fileSize(total), path)
	more := ""
	for i, name := range shown {
		if b.Len() > display.MaxShownPage {
			more = fmt.Sprintf("\n(and %d more: view a subdirectory to list them)", len(shown)-i)
			break
		}
		fmt.Fprintf(&b, "\n%s\t%s/%s", fileSize(sizes[name]), path, name)
	}
	listing := b.String()
	if len(shown) > 0 {
		listing = display.Fence(listing) + more
	}
	return fmt.Sprintf("Here're the files and directories up to 2 levels deep in %s, excluding hidden items and node_modules:\n%s", path, listing)
}

// fileSize formats a size as the contract does: 39B, 5.5K, 1.2M.
func fileSize(n int64) string {
	size, unit := float64(n), 0
	for size >= 1024 && unit < 3 {
		size, unit = size/1024, unit+1
	}
	decimals := 1
	if size == math.Trunc(size) {
		decimals = 0
	}
	return strconv.FormatFloat(size, 'f', decimals, 64) + []string{"B", "K", "M", "G"}[unit]
}

func (f files) create(ctx context.Context, path, text string) (string, error) {
	err := f.Change(ctx, func(st *crmem.Store) ([]crmem.Op, error) {
		if _, ok := fileOf(st, path); ok || path == root {
			return nil, errorf("Error: File %s already exists", path)
		}
		if list, _ := filesBelow(st, path); len(list) > 0 {
			return nil, errorf("Error: %s is a directory", path)
		}
		if file, ok := fileAbove(st, path); ok {
			return nil, errorf("Error: %s is a file, not a directory", file)
		}
		return []crmem.Op{crmem.Add{Name: nameOf(path), Content: text, Kind: crmem.Note}}, nil
	})
	return "File created successfully at: " + path, err
}

// edit replaces the text of a file with the result of edit.
func (f files) edit(ctx context.Context, path string, absent error, edit func(text string) (string, error)) error {
	return f.Change(ctx, func(st *crmem.Store) ([]crmem.Op, error) {
		e, ok := fileOf(st, path)
		if !ok {
			return nil, absent
		}
		if err := changeable(e); err != nil {
			return nil, err
		}
		text, err := edit(e.Content)
		if err != nil {
			return nil, err
		}
		return []crmem.Op{crmem.Update{Name: e.Name, Content: text, Aliases: e.Aliases}}, nil
	})
}

// changeable returns an error for an archive of a conversation.
func changeable(f file) error {
	if f.Kind == crmem.Archive {
		return errorf("Error: %s is the archive of a conversation, and this tool cannot change archives", f.path)
	}
	return nil
}

func (f files) replace(ctx context.Context, path, from, to string) (string, error) {
	var shown string
	absent := errorf("Error: The path %s does not exist. Please provide a valid path.", path)
	err := f.edit(ctx, path, absent, func(text string) (string, error) {
		at := occurrences(text, from)
		said := clip.Bytes(from, display.MaxShownName)
		switch {
		case len(at) == 0:
			return "", errorf("No replacement was performed, old_str `%s` did not appear verbatim in %s.", said, path)
		case len(at) > 1:
			var lines []string
			for _, i := range at {
				if n := strconv.Itoa(lineOf(text, i)); len(lines) == 0 || lines[len(lines)-1] != n {
					lines = append(lines, n)
				}
			}
			return "", errorf("No replacement was performed. Multiple occurrences of old_str `%s` in lines: %s. Please ensure it is unique", said, strings.Join(lines, ", "))
		}
		text = text[:at[0]] + to + text[at[0]+len(from):]
		shown = around(text, lineOf(text, at[0]), strings.Count(to, "\n"))
		return text, nil
	})
	return "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" + display.Fence(shown), err
}

// occurrences returns the offsets of part in text, at most 100.
func occurrences(text, part string) []int {
	var at []int
	for from := 0; part != "" && len(at) < 100; {
		i := strings.Index(text[from:], part)
		if i < 0 {
			break
		}
		at = append(at, from+i)
		from += i + len(part)
	}
	return at
}

func lineOf(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

// around returns the lines from two before a change to two after it.
func around(text string, line, more int) string {
	lines := strings.Split(text, "\n")
	var b strings.Builder
	for n := max(line-2, 1); n <= min(line+more+2, len(lines)) && b.Len() < display.MaxShownPage; n++ {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%6d\t%s", n, clip.Bytes(lines[n-1], display.MaxShownPage))
	}
	return b.String()
}

func (f files) insert(ctx context.Context, path string, after int, insert string) (string, error) {
	err := f.edit(ctx, path, noPath(path), func(text string) (string, error) {
		lines := strings.Split(text, "\n")
		if after < 0 || after > len(lines) {
			return "", errorf("Error: Invalid `insert_line` parameter: %d. It should be within the range of lines of the file: [0, %d]", after, len(lines))
		}
		return strings.Join(slices.Insert(lines, after, strings.TrimSuffix(insert, "\n")), "\n"), nil
	})
	return "The file " + path + " has been edited.", err
}

func (f files) remove(ctx context.Context, path string) (string, error) {
	if path == root {
		return "", errorf("Error: Cannot delete the /memories directory itself")
	}
	err := f.Change(ctx, func(st *crmem.Store) (ops []crmem.Op, err error) {
		list, err := filesAt(st, path)
		for _, e := range list {
			ops = append(ops, crmem.Remove{Name: e.Name})
		}
		return ops, err
	})
	return "Successfully deleted " + path, err
}

func (f files) rename(ctx context.Context, from, to string) (string, error) {
	if from == root {
		return "", errorf("Error: Cannot rename the /memories directory itself")
	}
	err := f.Change(ctx, func(st *crmem.Store) (ops []crmem.Op, err error) {
		list, err := filesAt(st, from)
		if err != nil {
			return nil, err
		}
		below, _ := filesBelow(st, to)
		if _, ok := fileOf(st, to); ok || to == root || len(below) > 0 {
			return nil, errorf("Error: The destination %s already exists", to)
		}
		if file, ok := fileAbove(st, to); ok {
			return nil, errorf("Error: cannot move %s into %s, which is a file", from, file)
		}
		if strings.HasPrefix(to, from+"/") {
			return nil, errorf("Error: cannot move %s into itself", from)
		}
		for _, f := range list {
			path := to + strings.TrimPrefix(f.path, from)
			if why := checkPath(path); why != "" {
				err := errorf("Error: Invalid path under %s: %s", to, why)
				return nil, &display.NamesError{Err: err, Names: []string{f.Name}}
			}
			ops = append(ops, crmem.Rename{Name: f.Name, To: nameOf(path)})
		}
		return ops, nil
	})
	return "Successfully renamed " + from + " to " + to, err
}
