// Package budget selects names and texts of search hits within a token limit.
package budget

import (
	"unicode/utf8"

	"crabmem/bm25/analysis"
	"crabmem/bm25/clip"
	"crabmem/bm25/snippet"
)

// An Entry is a search hit.
type Entry struct {
	Name, Text string
	Weights    map[string]float64 // terms of the entry and their weights
	Skip       int                // bytes at the beginning of Text that no snippet shows
}

// A Part is the selected text of an entry: the complete text, a snippet, or
// only the name.
type Part struct {
	Text   string
	Whole  bool
	Tokens int // of name and text, each with a line end
}

const (
	maxSnippet = 64 // tokens of a snippet before the remaining tokens are known
	minSnippet = 16
	least      = 8       // tokens that a text needs to be selected
	maxToken   = 128     // bytes of the longest token
	maxScan    = 4 << 20 // bytes searched for matches
	maxWiden   = 16      // snippets that are lengthened
	maxWork    = 16      // budgets that are counted to find what fits
	maxTokens  = 8 << 20 // larger limits count as this
)

// Spend selects the parts of entries, best entry first, within a limit of
// tokens. It first selects names, for at most half of the limit, and a snippet
// per entry in the order of the entries. It then replaces snippets with
// complete texts where they fit, and lengthens other snippets. used is the
// number of tokens of all parts. Entries after the last part are left out.
func Spend(entries []Entry, tokens int, an analysis.Analyzer) (parts []Part, used int) {
	s := spender{entries: entries, analyzer: an, room: min(tokens, maxTokens)}
	room := s.room
	s.names()
	s.snippets()
	s.bodies(maxWork * room)
	s.widen()
	return s.parts, room - s.room
}

type spender struct {
	entries  []Entry
	analyzer analysis.Analyzer
	parts    []Part
	texts    []shown // of the parts
	room     int     // tokens left
}

// shown is the cost of a text.
type shown struct {
	tokens  int
	excerpt *excerpt // nil before its first use
}

func (s *spender) names() {
	half := s.room / 2
	for i, e := range s.entries {
		limit := s.room - half
		if i == 0 {
			limit = s.room
		}
		n, fits := countLine(e.Name, limit)
		if !fits {
			break
		}
		s.parts = append(s.parts, Part{Whole: e.Text == "", Tokens: n})
		s.room -= n
	}
	s.texts = make([]shown, len(s.parts))
}

func (s *spender) snippets() {
	each := min(max(s.room/max(len(s.parts), 1), minSnippet), maxSnippet)
	for i := range s.parts {
		limit := min(each, s.room)
		if limit < least {
			return
		}
		if !s.body(i, limit) {
			s.part(i, limit)
		}
	}
}

// bodies replaces snippets with complete texts. It examines about work tokens.
func (s *spender) bodies(work int) {
	for i := range s.parts {
		if work < 0 {
			return
		}
		if limit := s.room + s.texts[i].tokens; !s.body(i, limit) {
			work -= limit
		}
	}
}

func (s *spender) widen() {
	tried := 0
	for i := range s.parts {
		if s.room < least || tried == maxWiden {
			return
		}
		if !s.parts[i].Whole {
			tried++
			s.part(i, s.room+s.texts[i].tokens)
		}
	}
}

// body selects the complete text of an entry if it has at most limit tokens,
// and reports whether it did.
func (s *spender) body(i, limit int) bool {
	if s.parts[i].Whole {
		return true
	}
	n, fits := countLine(s.entries[i].Text, limit)
	if fits {
		s.put(i, s.entries[i].Text, n)
		s.parts[i].Whole = true
	}
	return fits
}

// part shows a part of at most limit tokens, if that is more than is shown.
func (s *spender) part(i, limit int) {
	t := &s.texts[i]
	if t.excerpt == nil {
		text := s.entries[i].Text[s.entries[i].Skip:]
		t.excerpt = newExcerpt(text, snippet.Matches(clip.Bytes(text, maxScan), s.analyzer, s.entries[i].Weights))
	}
	if text, n := t.excerpt.fit(limit); n > t.tokens {
		s.put(i, text, n)
	}
}

func (s *spender) put(i int, text string, tokens int) {
	more := tokens - s.texts[i].tokens
	s.texts[i].tokens = tokens
	s.room -= more
	s.parts[i].Text = text
	s.parts[i].Tokens += more
}

// countLine counts a text with a line end. It reports whether there are at most
// limit tokens, and looks at little more than those.
func countLine(text string, limit int) (n int, fits bool) {
	if len(text) > limit*maxToken {
		return 0, false
	}
	return countUpTo(text+"\n", limit)
}

// Count returns the number of tokens of text.
func Count(text string) int {
	n, _ := countUpTo(text, len(text))
	return n
}

// countUpTo counts tokens of text and reports whether there are at most limit.
// It reads only slightly more than limit tokens.
func countUpTo(text string, limit int) (n int, fits bool) {
	for n <= limit && text != "" {
		size := pieceSize(text)
		n += countTokens(text[:size])
		text = text[size:]
	}
	return n, n <= limit
}

// A word may be as long as the text, so a long text is counted in pieces.
const (
	minPiece = 1 << 10
	maxPiece = 2 << 10
)

// pieceSize returns the number of bytes of text to count at once. A piece ends
// before a blank or the start of a line, where a token always begins. A text
// without either may count one token more or less per piece.
func pieceSize(text string) int {
	if len(text) <= maxPiece {
		return len(text)
	}
	for i := minPiece; i < maxPiece; i++ {
		if text[i] == ' ' && visible(text[i-1]) && visible(text[i+1]) || text[i-1] == '\n' && visible(text[i]) {
			return i
		}
	}
	end := maxPiece
	for !utf8.RuneStart(text[end]) && end > minPiece {
		end--
	}
	return end
}

// visible reports whether c is no white space of ASCII.
func visible(c byte) bool { return c > ' ' }
