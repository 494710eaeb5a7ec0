package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/lazyregexp"
)

// The last line of an imported note contains its origin:
//
//	Imported from basic-memory: "brain/notes/coffee.md" (0f3c5a7d9b1e2468)
//
// The digits are a digest of name, aliases, and text in the source. They detect
// changes of the note in the source or in the store.
const originWords = "Imported from "

var originLine = lazyregexp.New(`^Imported from ([a-z0-9-]{1,32}): ("(?:[^"\\]|\\.)*") \(([0-9a-f]{16})\)$`)

// origin is the content of such a line.
type origin struct {
	kind, id string
	sum      string
}

// line writes it.
func (o origin) line() string {
	id, _ := display.JSON(o.id) // a string always has an encoding
	return fmt.Sprintf("%s%s: %s (%s)\n", originWords, o.kind, id, o.sum)
}

// splitOrigin splits a note into its text and where it came from.
func splitOrigin(content string) (text string, o origin, ok bool) {
	content = trimEnd(content)
	i := strings.LastIndexByte(content, '\n') + 1
	if !strings.HasPrefix(content[i:], originWords) {
		return "", o, false
	}
	m := originLine().FindStringSubmatch(content[i:])
	if m == nil || json.Unmarshal([]byte(m[2]), &o.id) != nil {
		return "", o, false
	}
	o.kind, o.sum = m[1], m[3]
	return trimEnd(content[:i]), o, true
}

func trimEnd(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }

// sumOf returns the digest of a note in the source.
func sumOf(name, text string, aliases []string) string {
	h := sha256.New()
	for _, s := range append([]string{name, trimEnd(text)}, aliases...) {
		fmt.Fprintf(h, "%d:", len(s))
		_, _ = io.WriteString(h, s)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// apart returns a distinct name for one of several notes of one name.
func apart(base, id string) string { return base + apartEnd(id) }

func apartEnd(id string) string {
	id, whole := baseName(id)
	if len(id) > maxLabel || !whole || id == "" {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:8])
	}
	return " (" + id + ")"
}

// edited reports whether a note changed since its import.
func (o origin) edited(e *crmem.Entry, text string) bool {
	for _, name := range []string{e.Name, strings.TrimSuffix(e.Name, apartEnd(o.id)), ""} {
		if o.sum == sumOf(name, text, e.Aliases) {
			return false
		}
	}
	return true
}
