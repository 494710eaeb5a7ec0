package sessionlog

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The parts of a file name, in bytes (S25).
const (
	nameExt     = ".jsonl"
	maxName     = 240 // of a name that is made here
	maxSlug     = 100 // of an agent's or a sender's slug in a name that would be longer
	maxSeq      = 20  // of the greatest uint64: a prefix must not change with the number
	maxID       = 250 // of an id, so that that of its lock stays within 255
	maxAside    = 200 // of an id in the name of a copy, which an offset and a number follow
	hashedBytes = 9   // of the hyphen and the hash that a cut slug ends in
)

// slugOf returns what stands for a name in file names: its letters, digits and
// hyphens, with ASCII letters in lower case, and one hyphen for every run of
// anything else (S24). It may be empty, and different names may share one.
func slugOf(s string) string {
	var b strings.Builder
	hyphen := false
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

// alphanumeric tells the characters of Rust's char::is_alphanumeric, which the
// reference implementation uses: Unicode's Alphabetic, which is more than its
// letters, and every kind of number.
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
	cut := limit - hashedBytes
	for !utf8.RuneStart(slug[cut]) {
		cut--
	}
	sum := sha256.Sum256([]byte(slug))
	return slug[:cut] + "-" + hex.EncodeToString(sum[:4])
}

// prefixOf is what the ids of an agent and a sender begin with, down to the
// number. Others may have the same: the meta line says whose a session is.
func prefixOf(agent, createdBy string) string {
	a, s := slugOf(agent), slugOf(createdBy)
	if len(a)+len("_")+len(s)+len("_")+maxSeq+len(nameExt) > maxName {
		a, s = shortSlug(a, maxSlug), shortSlug(s, maxSlug)
	}
	return a + "_" + s + "_"
}

// seqOf returns the number in a file's name, when the name is prefix, number
// and perhaps a title. A number is written in one way and is not 0.
func seqOf(prefix, file string) (seq uint64, ok bool) {
	rest, ok := strings.CutPrefix(file, prefix)
	if !ok {
		return 0, false
	}
	if rest, ok = strings.CutSuffix(rest, nameExt); !ok {
		return 0, false
	}
	digits, _, _ := strings.Cut(rest, "_")
	if digits == "" || digits[0] < '1' { // ParseUint takes 01 and refuses the other wrong ones
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, err == nil
}

// idOf returns the id of the session in a file whose meta line is m (S23).
// A file of which no name here could be is not shaped: its id is its name (S26).
func idOf(file string, m *Meta) (id string, shaped bool) {
	prefix := prefixOf(m.Agent, m.CreatedBy)
	if seq, ok := seqOf(prefix, file); ok {
		return prefix + strconv.FormatUint(seq, 10), true
	}
	return strings.TrimSuffix(file, nameExt), false
}

// fileName returns the name of the file of a shaped id and a title, of which
// it takes what fits.
func fileName(id, title string) string {
	limit := maxName - len(id) - len("_") - len(nameExt)
	slug := slugOf(title)
	if slug == "" || limit < hashedBytes && len(slug) > limit {
		return id + nameExt
	}
	return id + "_" + shortSlug(slug, limit) + nameExt
}

// validID tells whether an id can be that of a file in the folder: no path, no
// hidden file, and no text that fits no line of output.
func validID(id string) bool {
	return id != "" && len(id) <= maxID && id[0] != '.' && utf8.ValidString(id) &&
		!strings.ContainsAny(id, `/\`) && !strings.ContainsFunc(id, unicode.IsControl)
}
