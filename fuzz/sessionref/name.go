package sessionref

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Slug makes a part of a file name of a sender or a title.
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

// alphanumeric is Rust's char::is_alphanumeric: Alphabetic, Nd, Nl or No.
func alphanumeric(r rune) bool {
	return unicode.In(r, unicode.L, unicode.Nd, unicode.Nl, unicode.No, unicode.Other_Alphabetic)
}

// prefixOf returns the prefix of the file names of an identity. It contains the
// agent unchanged; two identities may share a prefix.
func prefixOf(agent, createdBy string) string {
	return fmt.Sprintf("%s_%s_", agent, Slug(createdBy))
}

// Latest returns the file of an identity with the highest number. One file with
// the prefix and without a number after it, or one name that is not UTF-8,
// hides all of them.
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

// NextSeq returns the number of an identity's next file. A name without a
// number hides nothing here.
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

func number(name, prefix string) (uint64, error) {
	rest := name[len(prefix):]
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	return strconv.ParseUint(digits, 10, 32)
}
