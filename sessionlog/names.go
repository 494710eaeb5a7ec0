package sessionlog

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"crabmem/bm25/clip"
)

// The parts of a file name, in bytes (S25).
const (
	nameExt     = ".jsonl"
	maxName     = 240 // of a new name
	maxSlug     = 100 // of an agent's or a sender's slug in a name that would be longer
	maxSeq      = 20  // of the greatest uint64: a prefix must not change with the number
	maxID       = 250 // of an id, so that the name of its lock stays within 255
	maxAside    = 200 // of an id in the name of a copy, which an offset and a number follow
	hashedBytes = 9   // of the hyphen and the hash that a cut slug ends in
)

// slugOf returns the form of a name in file names: its letters, digits, and
// hyphens, with ASCII letters in lower case, and one hyphen for every run of
// other characters (S24). It may be empty, and different names may share a
// slug.
func slugOf(s string) string {
	var b strings.Builder
	var hyphen bool
	for _, r := range s {
		switch {
		case r == '-' || !alphanumeric(r):
			hyphen = true
			continue
		case 'A' <= r && r <= 'Z':
			r += 'a' - 'A'
		}
		if hyphen && b.Len() > 0 {
			b.WriteByte('-')
		}
		hyphen = false
		b.WriteRune(r)
	}
	return b.String()
}

// alphanumeric reports whether Rust's char::is_alphanumeric, which the
// reference implementation uses, accepts a character: Unicode's Alphabetic,
// which includes more than letters, and every kind of number.
func alphanumeric(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.In(r, unicode.L, unicode.N, unicode.Other_Alphabetic)
}

// shortSlug cuts a slug of more than limit bytes and ends it in its hash. The
// limit is at least hashedBytes.
func shortSlug(slug string, limit int) string {
	if len(slug) <= limit {
		return slug
	}
	sum := sha256.Sum256([]byte(slug))
	return clip.Bytes(slug, limit-hashedBytes) + "-" + hex.EncodeToString(sum[:4])
}

// prefixOf returns the prefix of the ids of an agent and a sender, before the
// number. Other pairs may share the prefix; the meta line identifies the pair.
func prefixOf(agent, createdBy string) string {
	a, s := slugOf(agent), slugOf(createdBy)
	if len(a)+len("_")+len(s)+len("_")+maxSeq+len(nameExt) > maxName {
		a, s = shortSlug(a, maxSlug), shortSlug(s, maxSlug)
	}
	return a + "_" + s + "_"
}

// seqOf returns the number in a file's name, if the name consists of prefix,
// number, and optionally a title. A number has no leading zeros and is not 0.
func seqOf(prefix, file string) (seq uint64, ok bool) {
	rest, ok := strings.CutPrefix(file, prefix)
	if !ok {
		return 0, false
	}
	if rest, ok = strings.CutSuffix(rest, nameExt); !ok {
		return 0, false
	}
	digits, _, _ := strings.Cut(rest, "_")
	if digits == "" || digits[0] < '1' { // ParseUint accepts 01 and rejects other invalid numbers
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, err == nil
}

// idOf returns the id of the session in a file with meta line m (S23). A file
// whose name does not have the form of m is not shaped: its id is its name
// (S26).
func idOf(file string, m *Meta) (id string, shaped bool) {
	prefix := prefixOf(m.Agent, m.CreatedBy)
	if seq, ok := seqOf(prefix, file); ok {
		return prefix + strconv.FormatUint(seq, 10), true
	}
	return strings.TrimSuffix(file, nameExt), false
}

// fileName returns the file name of a shaped id and a title, which it shortens
// if necessary.
func fileName(id, title string) string {
	limit := maxName - len(id) - len("_") - len(nameExt)
	slug := slugOf(title)
	if slug == "" || limit < hashedBytes && len(slug) > limit {
		return id + nameExt
	}
	return id + "_" + shortSlug(slug, limit) + nameExt
}

// validID reports whether an id can be that of a file in the folder: no path,
// no hidden file, and no text that would break a line of output.
func validID(id string) bool {
	return id != "" && len(id) <= maxID && id[0] != '.' && utf8.ValidString(id) &&
		!strings.ContainsAny(id, `/\`) && !strings.ContainsFunc(id, unicode.IsControl)
}
