package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/crmem/vfs"
)

// Sync programs, cloud drives, linters, and version control change pages in ways that no
// person means. load refuses such a page, or leaves a copy alone.

// checkChange returns an error for a page that a program seems to have damaged, if it is
// not as the store exchanged it last.
func (r *pageReader) checkChange(f *treeFile, b []byte, p *page) error {
	row := r.written(f.path)
	if row == nil { // perhaps of a base or a manifest that is lost
		row = &basePage{Name: f.stem(), Bare: true}
	}
	e, exists := r.sn.Get(row.Name)
	if row.ID == 0 && (!exists || e.Content == "") {
		return nil
	}
	refuse := func(line int, what string) error {
		return &Error{Path: f.path, Line: line, Msg: what, Remedy: "restore the page, or run crabmem load --accept " + f.path + " to load it as it is"}
	}
	if len(b) == 0 {
		return refuse(0, "the page is empty: it may be a placeholder of a cloud drive")
	}
	if at := bytes.IndexByte(b, 0); at >= 0 && !strings.Contains(e.Content, "\x00") {
		return refuse(lineAt(b, at), "NUL bytes that the entry does not have")
	}
	switch at := blockBelow(string(b)); {
	case p == nil: // parsePage returned the error
	case r.known.has(f.path, pageHash(append(slices.Clip(b), '\n'))): // only its last line end is missing
	case b[len(b)-1] != '\n' && cutWithinLine(p.Content, e.Content):
		return refuse(lineAt(b, len(b)), "the page ends within a line: it may be incomplete")
	case row.Bare:
	case !p.block && at > 0:
		return refuse(lineAt(b, at), "text above the metadata block")
	case !p.block:
		return refuse(0, "the metadata block is missing or incomplete")
	case row.ID != 0 && !p.hasID && !p.hasTime && !p.named: // a person may write a block with a name
		return refuse(0, "the metadata block has lost its rows")
	}
	if n, line := markers(string(b)); n > 0 {
		if had, _ := markers(e.Content); n > had {
			return refuse(line, "conflict markers of version control")
		}
	}
	return nil
}

// written returns the last exchange of a page, or nil.
func (r *pageReader) written(path string) *basePage {
	for _, row := range r.known.at(path) {
		if row.Name != "" {
			return row
		}
	}
	return nil
}

// cutWithinLine reports whether a text is the beginning of another and ends within a line.
func cutWithinLine(text, full string) bool {
	rest, ok := strings.CutPrefix(full, text)
	return ok && text != "" && rest != "" && !strings.HasSuffix(text, "\n") && rest[0] != '\n' && rest[0] != '\r'
}

// blockBelow returns the offset of the metadata block below other text, or 0.
func blockBelow(s string) int {
	at := strings.Index(s, "\n"+metaOpen)
	if at < 0 || !strings.Contains(s[at:], metaClose) {
		return 0
	}
	return at + 1
}

// markers counts the lines that begin or end a conflict of version control, and returns
// the number of the first line.
func markers(s string) (n, first int) {
	line := 0
	for text := range strings.Lines(s) {
		line++
		for _, mark := range []string{"<", ">"} {
			rest := strings.TrimLeft(text, mark) // a marker may be longer than seven characters
			if len(text)-len(rest) >= 7 && (rest == "" || strings.ContainsAny(rest[:1], " \t\r\n")) {
				if n++; first == 0 {
					first = line
				}
			}
		}
	}
	return n, first
}

// mergeFront adds the fields of front matter above the metadata block to the front matter
// of a content. Lists get the values that they lack; another value replaces the old one.
func mergeFront(content string, front metadata.Metadata) (string, error) {
	own, _, _ := metadata.Parse(content)
	fields := make([]metadata.Field, 0, len(front.Fields()))
	for _, f := range front.Fields() {
		if f.List || f.Key == metadata.Tags {
			values := own.Values(f.Key)
			for _, v := range f.Values {
				if !slices.Contains(values, v) {
					values = append(slices.Clip(values), v)
				}
			}
			f.Values, f.List = values, true
		}
		fields = append(fields, f)
	}
	return metadata.Set(content, fields...)
}

// isCopyName reports whether a stem consists of another one and of words before or after
// it, as in names that file managers, OneDrive, and iCloud give to copies. People give such
// names, too, so the copy must have the block of the original.
func isCopyName(stem, original string) bool {
	before, after, ok := strings.Cut(stem, original)
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	return ok && original != "" && (before == "" || !isWord(last)) && (after == "" || !isWord(first))
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// originalOf returns the path of the page whose conflict copy a file seems to be, by the
// name of the file, or "".
func originalOf(file string) string {
	stem := vfs.OriginalStem(stemOf(file))
	for _, mark := range []string{"._", "~$", ".#"} { // of macOS, Office, and Emacs
		if rest, ok := strings.CutPrefix(stemOf(file), mark); ok {
			stem = rest
		}
	}
	if stem == "" {
		return ""
	}
	return path.Dir(file) + "/" + stem + pageExt
}

// removeCopies removes conflict copies from the pages. A page that the store exchanged, or
// whose entry really has the name, is no copy.
func (t *loadedTree) removeCopies(r *pageReader) error {
	byID := make(map[uint64][]*treePage)
	paths := make(map[string]bool, len(t.pages))
	for i := range t.pages {
		p := &t.pages[i]
		paths[p.path] = true
		if p.hasID && len(byID[p.ID]) < maxCopies {
			byID[p.ID] = append(byID[p.ID], p)
		}
	}
	kept := t.pages[:0:0]
	for i := range t.pages {
		p := &t.pages[i]
		original := ""
		if !r.accepted(p.path) && len(r.known.at(p.path)) == 0 {
			original = r.copyOf(p, paths, byID[p.ID])
		}
		if original == "" {
			kept = append(kept, *p)
			continue
		}
		if err := t.skipCopy(r, p.path, original, paths[original]); err != nil {
			return err
		}
	}
	t.pages = kept
	return nil
}

// maxCopies bounds the pages with one ID that are compared with a page.
const maxCopies = 64

// skipCopy adds a warning for a conflict copy. If only the copy of a page exists, it
// returns an error, because the load would remove the entry.
func (t *loadedTree) skipCopy(r *pageReader, file, original string, exists bool) error {
	if !exists && r.removes(original) {
		return &Error{Path: file, Msg: "is a conflict copy, and its page " + original + " is missing", Remedy: "rename the copy to the page, or remove it, or run crabmem load --accept " + file + " to load it as a page"}
	}
	t.warnings = append(t.warnings, copyWarning(file, original))
	return nil
}

// removes reports whether a load without a page at path removes an entry.
func (r *pageReader) removes(path string) bool {
	name := stemOf(path)
	if row := r.written(path); row != nil {
		name = row.Name
	}
	_, exists := r.sn.Get(name)
	return exists
}

func copyWarning(file, original string) string {
	return fmt.Sprintf("%s: ignored: a conflict copy of %s by a sync program: copy its changes to that page and remove it, or run crabmem load --accept %s to load it as a page", file, original, file)
}

// copyOf returns the path of the page whose conflict copy p is, or "". same are the pages
// with the ID of p.
func (r *pageReader) copyOf(p *treePage, paths map[string]bool, same []*treePage) string {
	stem := stemOf(p.path)
	if original := originalOf(p.path); original != "" {
		_, exists := r.sn.Get(stem)
		own := exists || crmem.SameName(p.heading, shownName(stem)) || p.named && strings.HasPrefix(stem+"~", pageStem(p.Name)+"~")
		if !own && (p.block || paths[original] || len(r.known.at(original)) > 0) {
			return original
		}
	}
	for _, q := range same {
		if p.hasID && q.path != p.path && q.heading == p.heading && p.heading != "" && p.heading != shownName(stem) && isCopyName(stem, stemOf(q.path)) {
			return q.path
		}
	}
	return ""
}

// placeholders are the beginnings and ends that cloud drives give to the name of a file
// that is not on this machine.
var placeholders = [][2]string{{".", ".icloud"}, {"", ".nextcloud"}, {"", ".owncloud"}, {"", ".rsls"}}

// incomplete matches a file that is not a page, with the page's stem: sync programs and
// browsers give such names to a page during its download. Backup files have such names,
// too, and remain after the page is deleted.
var (
	incomplete = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^(?:[.~#$_]*(?:syncthing[.~])?)(.+?)\.md(?:[^a-z0-9].*)?$`)
	})
	backup = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)(?:~|#|\.bak|\.orig|\.rej|\.sw[a-z])$`) })
)

// checkPlaceholder returns an error if a file is the placeholder of a page that is missing,
// or seems to be a part of it.
func (r *pageReader) checkPlaceholder(f *treeFile, listed map[string]bool) error {
	file := f.path
	dir, base := path.Split(file)
	for _, mark := range placeholders {
		name, ok := strings.CutPrefix(base, mark[0])
		if name, end := strings.CutSuffix(name, mark[1]); ok && end && strings.HasSuffix(name, pageExt) && !listed[dir+name] {
			return evicted(file, dir+name)
		}
	}
	if m := incomplete().FindStringSubmatch(base); m != nil && !f.isPage() && !f.mode.IsDir() && !backup().MatchString(base) {
		if name := dir + m[1] + pageExt; !listed[name] && r.removes(name) {
			return &Error{Path: file, Msg: "may be an incomplete copy of the missing page " + name, Remedy: "complete the download, or remove the file, then load again"}
		}
	}
	return nil
}

// checkEvicted returns an error if a missing file of a tree has a placeholder.
func checkEvicted(t vfs.Tree, name string) error {
	for _, mark := range placeholders {
		_, err := t.Lstat(mark[0] + name + mark[1])
		if err == nil {
			return evicted(mark[0]+name+mark[1], name)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func evicted(file, name string) error {
	return &Error{Path: file, Msg: "is a placeholder of a cloud drive: " + name + " is not on this machine", Remedy: "download it, or remove the placeholder, then load again"}
}
