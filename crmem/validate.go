package crmem

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"crabmem/bm25/clip"
	"crabmem/crmem/internal/format"
)

// Limits of new entries. A write that exceeds one fails with ErrInvalid. Reading
// accepts larger entries.
const (
	MaxName    = 1 << 10 // bytes in a name or an alias
	MaxAliases = 1 << 10 // aliases per entry
	MaxContent = 8 << 20 // bytes in a text
)

// validEntry returns an error if a new entry is invalid or exceeds the limits.
func validEntry(name, content string, aliases []string) error {
	if err := validName(name, "name", name); err != nil {
		return err
	}
	if len(content) > MaxContent {
		return &nameError{ErrInvalid, name, fmt.Sprintf("content of %d bytes, at most %d", len(content), MaxContent)}
	}
	if err := storable(name, "content", content); err != nil {
		return err
	}
	if len(aliases) > MaxAliases {
		return &nameError{ErrInvalid, name, fmt.Sprintf("%d aliases, at most %d", len(aliases), MaxAliases)}
	}
	for _, a := range aliases {
		if err := validName(name, "alias", a); err != nil {
			return err
		}
	}
	return nil
}

func validName(entry, field, s string) error {
	switch {
	case s == "":
		return &nameError{ErrInvalid, cutName(entry), "empty " + field}
	case len(s) > MaxName:
		return &nameError{ErrInvalid, cutName(entry), fmt.Sprintf("%s of %d bytes, at most %d", field, len(s), MaxName)}
	}
	if err := storable(entry, field, s); err != nil {
		return err
	}
	if i := strings.IndexByte(s, 0); i >= 0 {
		return &nameError{ErrInvalid, cutName(entry), fmt.Sprintf("%s: NUL at byte %d", field, i)}
	}
	return nil
}

// storable returns an error if a file cannot contain the text s of an entry.
func storable(entry, field, s string) error {
	switch {
	case !utf8.ValidString(s):
		return &nameError{ErrInvalid, cutName(entry), fmt.Sprintf("%s: invalid UTF-8 at byte %d", field, format.InvalidUTF8([]byte(s)))}
	case uint64(len(s)) > math.MaxUint32:
		return &nameError{ErrInvalid, cutName(entry), fmt.Sprintf("%s of %d bytes, at most %d", field, len(s), uint32(math.MaxUint32))}
	}
	return nil
}

// cutName returns the beginning of a name, for an error.
func cutName(s string) string { return strings.ToValidUTF8(clip.Bytes(s, 80), "\uFFFD") }
