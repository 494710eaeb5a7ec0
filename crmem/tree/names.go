package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"crabmem/crmem"
)

// The directories of a tree, by kind, in the order they are read.
var kindDirs = [...]string{crmem.Note: "notes", crmem.Archive: "archives"}

const (
	pageExt = ".md"
	maxStem = 200 // bytes; with the extension and a temporary's dot and digits it stays under 255

	// emptyStem stands for the empty name, which old files may hold.
	emptyStem = "unnamed"
)

// pagePaths gives each entry, in ascending ID order, its page. No two paths
// are the same to a file system that ignores case or normal forms, not even
// in different directories: the reference refuses a name of both kinds. Of
// such twins the lowest ID has the plain stem, so that a new entry never
// moves an old one's page.
func pagePaths(entries []crmem.Entry) []string {
	taken := make(map[string]bool, len(entries))
	paths := make([]string, len(entries))
	for i, e := range entries {
		stem := pageStem(e.Name)
		for n := 0; ; n++ {
			key := foldKey(stem)
			if !taken[key] {
				taken[key] = true
				break
			}
			stem = suffixed(pageStem(e.Name), e.Name, n)
		}
		paths[i] = kindDirs[e.Kind] + "/" + stem + pageExt
	}
	return paths
}

// foldKey is equal for stems that some file system takes for one: Windows
// maps to upper case, others fold.
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

// suffixed makes a stem of its own for a name whose plain one is taken. It
// depends on the name alone, so that it does not change with its neighbours.
func suffixed(stem, name string, n int) string {
	if n > 0 {
		name = fmt.Sprintf("%s\x00%d", name, n)
	}
	sum := sha256.Sum256([]byte(name))
	return shorten(stem, maxStem-9) + "~" + hex.EncodeToString(sum[:4])
}

// pageStem is the file stem for a name: the name itself wherever every file
// system, a URL and mdbook take it. A byte they do not is written =XX; the
// page then says the exact name, and nothing ever decodes a stem. (Not %XX:
// mdbook and browsers decode that, each in its own way.)
func pageStem(name string) string {
	var b strings.Builder
	for i, r := range name {
		n := utf8.RuneLen(r)
		edge := i == 0 || i+n == len(name)
		entity := r == '&' && strings.Contains(name[i:], ";") // or what looks like one in a link
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
		stem = shorten(stem, maxStem-17) + "~" + hex.EncodeToString(sum[:8])
	}
	return stem
}

// plainRune reports whether a character may stand in a file name everywhere:
// what Windows refuses, what ends a URL's path, the backquote (a code span
// binds tighter than a link) and what cannot be seen may not.
func plainRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r < 0x7f && !strings.ContainsRune("/\\:*?\"<>|%#`", r)
	}
	return unicode.IsPrint(r)
}

// reserved reports the stems that Windows takes for a device and the one that
// mdbook makes index.html of.
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

// shorten cuts s to at most n bytes at a character's boundary.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
