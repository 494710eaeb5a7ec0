package scan

import "strings"

const (
	streamContext = 1 << 10  // bytes before the held text that can decide what it is
	maxHeld       = 16 << 10 // bytes: a longer text is no secret
	minWord       = 3        // a shorter one is not held back
	shortWord     = 8        // letters of a word that is not held back
	nearContext   = 64       // bytes between a keyword and a value after it
)

// Stream redacts a text that arrives in pieces. It holds back the end of the text as long
// as that may be the beginning of a secret. A nil *Stream changes nothing.
type Stream struct {
	known *Known
	text  string // the end of what was returned, and what is held
	sent  int    // bytes of text that were returned
}

// NewStream returns a stream that also redacts values.
func NewStream(k *Known) *Stream { return &Stream{known: k} }

// Add adds a piece, and returns the next part of the redacted text.
func (s *Stream) Add(piece string) string {
	if s == nil {
		return piece
	}
	held := len(s.text) > s.sent
	s.text += piece
	if held && len(s.text)-s.sent < maxHeld && runStart(piece, 0) == 0 {
		return "" // it continues what is held
	}
	return s.release(s.hold())
}

// End returns the rest of the redacted text.
func (s *Stream) End() string {
	if s == nil {
		return ""
	}
	return s.release(len(s.text))
}

// release returns the redacted text up to an offset, or up to a secret that crosses it.
func (s *Stream) release(to int) string {
	if to <= s.sent {
		return ""
	}
	var b strings.Builder
	at := s.sent
	for _, m := range s.known.Find(s.text) {
		if m.End <= at {
			continue
		}
		if m.Start >= to {
			break
		}
		b.WriteString(s.text[at:max(at, m.Start)])
		b.WriteString(marker(m.Kind))
		at = m.End
	}
	if at < to {
		b.WriteString(s.text[at:to])
		at = to
	}
	from := max(0, at-streamContext)
	s.text, s.sent = s.text[from:], at-from
	return b.String()
}

// hold returns the offset of the text to hold back.
func (s *Stream) hold() int {
	text := s.text
	if len(text)-s.sent > maxHeld {
		return len(text) - streamContext
	}
	to := s.known.beginning(text, s.sent)
	if at := openBlock(text, s.sent); at < to {
		to = at
	}
	if run := runStart(text, s.sent); run < to && mayBegin(text, run) {
		to = run
	}
	return to
}

// runStart returns the offset of the last run of visible ASCII characters, at or after an
// offset. Every secret is in one, except for a block.
func runStart(text string, from int) int {
	at := len(text)
	for at > from && text[at-1] > ' ' && text[at-1] < 0x7f {
		at--
	}
	return at
}

// mayBegin reports whether the run at an offset may be the beginning of a secret. Some
// characters of a keyword, which are no secret, may have been returned before.
func mayBegin(text string, run int) bool {
	alnum := len(text)
	for alnum > run && isAlnum(text[alnum-1]) {
		alnum--
	}
	if run == len(text) {
		return false
	}
	if word := text[alnum:]; len(word) >= minWord && !isShortWord(word) { // which a keyword may follow
		return true
	}
	s := loaded()
	near := text[max(0, run-nearContext):]
	for _, bucket := range s.buckets {
		for _, k := range bucket {
			isName := rules[k.rule].find != nil || s.forms[k.rule].value // of a value after it
			if at := strings.LastIndex(near, k.word); at >= 0 && (isName || at+len(k.word)+len(text)-len(near) >= run) {
				return true
			}
			for n := min(len(k.word)-1, len(text)-run); n >= minWord && !isName; n-- {
				at := len(text) - n
				if strings.HasSuffix(text, k.word[:n]) && (at == run || !isWord(text[at-1]) || !isWord(text[at]) || isEscape(text[:at])) {
					return true
				}
			}
		}
	}
	return false
}

// isShortWord reports whether a text is a short word of prose, and not hexadecimal.
func isShortWord(text string) bool {
	lower := func(c byte) bool { return c >= 'a' && c <= 'z' }
	prose := false
	for i := range len(text) {
		if !lower(text[i]) && (i > 0 || !isAlnum(text[i]) || text[i] <= '9') {
			return false
		}
		prose = prose || text[i] > 'f' || i == 0 && text[i] > 'F' && !lower(text[i])
	}
	return prose && len(text) < shortWord
}

// openBlock returns the offset, at or after another, of a block of a private key whose
// end has not arrived, or the length of the text.
func openBlock(text string, from int) int {
	for _, block := range []struct{ begin, label, end string }{{"-----BEGIN", "PRIVATE KEY", "-----END"}, {"Private-Lines:", "", "Private-MAC"}} {
		before := max(0, from-2*maxLabel) // a part of the first line may have been returned
		at := strings.LastIndex(text[before:], block.begin)
		if at < 0 {
			continue
		}
		at += before
		rest := text[at:]
		line, _, complete := strings.Cut(strings.ReplaceAll(rest, `\n`, "\n"), "\n")
		if complete && !strings.Contains(line, block.label) || len(line) > maxLabel+2*len(block.begin) && !strings.Contains(line[:maxLabel+2*len(block.begin)], block.label) {
			continue // another block, or a word in a text
		}
		if end := strings.Index(rest, block.end); end < 0 || strings.IndexByte(rest[end:], '\n') < 0 && len(rest)-end < maxLabel+len(block.end) {
			return max(at, from)
		}
	}
	return len(text)
}
