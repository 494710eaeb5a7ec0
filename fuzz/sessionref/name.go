package sessionref

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Slug returns the form of a sender or a title in a file name.
func Slug(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case 'A' <= r && r <= 'Z':
			r += 'a' - 'A'
		case !alphanumeric(r):
			r = '-'
		}
		b.WriteRune(r)
	}
	parts := strings.FieldsFunc(b.String(), func(r rune) bool { return r == '-' })
	return strings.Join(parts, "-")
}

// alphanumeric implements char::is_alphanumeric of Rust: Alphabetic, Nd, Nl, or No.
func alphanumeric(r rune) bool {
	return unicode.In(r, unicode.L, unicode.Nd, unicode.Nl, unicode.No, unicode.Other_Alphabetic)
}

// prefixOf returns the prefix of the file names of an identity. It contains the
// agent unchanged, so two identities may have the same prefix.
func prefixOf(agent, createdBy string) string {
	return fmt.Sprintf("%s_%s_", agent, Slug(createdBy))
}

// Latest returns the file of an identity with the highest number. If any name is
// not UTF-8, or has the prefix but no valid number after it, Latest finds no file.
func Latest(names []string, agent, createdBy string) (name string, ok bool) {
	prefix := prefixOf(agent, createdBy)
	var best uint64
	for _, n := range names {
		if !utf8.ValidString(n) {
			return "", false
		}
		if !strings.HasPrefix(n, prefix) || !strings.HasSuffix(n, ".jsonl") {
			continue
		}
		seq, err := number(n, prefix)
		if err != nil {
			return "", false
		}
		if !ok || seq > best {
			name, best, ok = n, seq, true
		}
	}
	return name, ok
}

// NextSeq returns the number of an identity's next file. In contrast to Latest, it
// ignores names without a valid number.
func NextSeq(names []string, agent, createdBy string) uint32 {
	prefix := prefixOf(agent, createdBy)
	var highest uint64
	for _, n := range names {
		if !utf8.ValidString(n) || !strings.HasPrefix(n, prefix) || !strings.HasSuffix(n, ".jsonl") {
			continue
		}
		if seq, err := number(n, prefix); err == nil {
			highest = max(highest, seq)
		}
	}
	return uint32(highest + 1)
}

// number returns the number after the prefix of a file name.
func number(name, prefix string) (uint64, error) {
	rest := name[len(prefix):]
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	return strconv.ParseUint(digits, 10, 32)
}
