package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// The directories of a tree, by kind, in the order they are read.
var kindDirs = [...]string{crmem.Note: "notes", crmem.Archive: "archives"}

const (
	pageExt = ".md"
	maxStem = 200 // bytes; with the extension and a temporary's dot and digits it stays under 255

	// emptyStem is the stem of the empty name, which older files may contain.
	emptyStem = "unnamed"

	maxFiles      = 200_000 // in a directory of pages, because the list is in memory
	maxPage       = 1 << 30 // bytes that a dump reads of a page
	tooManyRemedy = "use export and import for a store of this size"
)

// pagePaths returns the path of each entry's page. Entries are in ascending ID
// order. All paths differ on a file system that ignores case or normal forms.
// Stems also differ across directories, because the reference refuses equal
// names of both kinds. Among equal stems the lowest ID gets the plain stem, so
// that a new entry never moves an older entry's page. A format changes names first.
func pagePaths(entries []crmem.Entry, format *Format) []string {
	taken := make(map[string]bool, len(entries))
	paths := make([]string, len(entries))
	for i, e := range entries {
		name := e.Name
		if format != nil {
			name = format.Stem(name)
		}
		stem := pageStem(name)
		for n := 0; ; n++ {
			key := foldKey(stem)
			if !taken[key] {
				taken[key] = true
				break
			}
			stem = suffixed(pageStem(name), e.Name, n)
		}
		paths[i] = kindDirs[e.Kind] + "/" + stem + pageExt
	}
	return paths
}

// foldKey is equal for stems that some file system considers equal. Windows
// maps to upper case; other systems fold case.
func foldKey(stem string) string {
	ascii := true
	for i := range len(stem) {
		ascii = ascii && stem[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(stem)
	}
	return norm.NFD.String(cases.Fold().String(norm.NFD.String(strings.ToUpper(stem))))
}

// suffixed returns a unique stem for a name whose plain stem is used. It
// depends only on the name, so other entries never change it.
func suffixed(stem, name string, n int) string {
	if n > 0 {
		name = fmt.Sprintf("%s\x00%d", name, n)
	}
	sum := sha256.Sum256([]byte(name))
	return clip.Bytes(stem, maxStem-9) + "~" + hex.EncodeToString(sum[:4])
}

// pageStem returns the file stem of a name: the name itself if every file
// system, a URL, and mdbook accept it. It writes each byte of other characters
// as =XX; the page then contains the exact name. Stems are never decoded. %XX
// is unsuitable because mdbook and browsers decode it differently.
func pageStem(name string) string {
	var b strings.Builder
	for i, r := range name {
		n := utf8.RuneLen(r)
		edge := i == 0 || i+n == len(name)
		entity := r == '&' && strings.Contains(name[i:], ";") // or similar to an entity in a link
		if !plainRune(r) || entity || edge && (r == '.' || r == ' ') {
			for _, c := range []byte(name[i : i+n]) {
				fmt.Fprintf(&b, "=%02X", c)
			}
			continue
		}
		b.WriteRune(r)
	}
	stem := b.String()
	switch {
	case stem == "":
		return emptyStem
	case reserved(stem):
		stem = fmt.Sprintf("=%02X", stem[0]) + stem[1:]
	}
	if len(stem) > maxStem {
		sum := sha256.Sum256([]byte(name))
		stem = clip.Bytes(stem, maxStem-17) + "~" + hex.EncodeToString(sum[:8])
	}
	return stem
}

// plainRune reports whether a character is valid in a file name on every
// system. It excludes characters that Windows refuses, characters that end the
// path of a URL, the backquote (a code span binds tighter than a link), and
// invisible characters.
func plainRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r < 0x7f && !strings.ContainsRune("/\\:*?\"<>|%#`", r)
	}
	return unicode.IsPrint(r)
}

// reserved reports whether Windows treats the stem as a device, or mdbook
// renames it to index.html.
func reserved(stem string) bool {
	base, _, _ := strings.Cut(stem, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	if dev, ok := strings.CutPrefix(base, "COM"); ok || strings.HasPrefix(base, "LPT") {
		if !ok {
			dev = base[3:]
		}
		switch dev {
		case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
			return true
		}
	}
	return strings.EqualFold(stem, "readme")
}

// treeFile is a directory entry of notes/ or archives/.
type treeFile struct {
	path string
	kind crmem.Kind
	mode fs.FileMode
	size int64
}

// isPage reports whether load reads the file. The stem must not be empty.
func (f *treeFile) isPage() bool {
	return len(f.stem()) > 0 && strings.HasSuffix(f.path, pageExt)
}

func (f *treeFile) stem() string { return strings.TrimSuffix(path.Base(f.path), pageExt) }

// hidden reports whether load and dump ignore the file: those of file managers,
// editors, and version control.
func (f *treeFile) hidden() bool {
	return strings.HasPrefix(path.Base(f.path), ".") && !f.isPage()
}

// temporaryOf returns the file that a temporary file was to replace, and
// whether name has the form of vfs temporaries.
func temporaryOf(name string) (string, bool) {
	dir, base := path.Split(name)
	base, dot := strings.CutPrefix(base, ".")
	of := strings.TrimRight(base, "0123456789")
	return dir + of, dot && of != "" && len(of) < len(base)
}

// what returns the file's type for errors.
func (f *treeFile) what() string { return fileType(f.mode) }

func fileType(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a file"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// listPages lists notes/ and archives/, each in name order.
func listPages(t vfs.Tree) ([]treeFile, error) {
	var files []treeFile
	for kind, dir := range kindDirs {
		fi, err := t.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			if err := checkEvicted(t, dir); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if !fi.IsDir() {
			return nil, &Error{Path: dir, Msg: "is " + fileType(fi.Mode()), Remedy: "replace it with a directory"}
		}
		list, err := t.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		if len(list) > maxFiles {
			return nil, &Error{Path: dir, Msg: fmt.Sprintf("%d files, at most %d", len(list), maxFiles), Remedy: tooManyRemedy}
		}
		for _, d := range list {
			fi, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed concurrently
			}
			if err != nil {
				return nil, err
			}
			files = append(files, treeFile{dir + "/" + d.Name(), crmem.Kind(kind), fi.Mode(), fi.Size()})
		}
	}
	return files, nil
}
