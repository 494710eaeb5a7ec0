// Package budget shows as much of what was found as a number of tokens allows.
package budget

import (
	"crabmem/bm25/analysis"
	"crabmem/bm25/snippet"
)

// An Entry is one that was found.
type Entry struct {
	Name, Text string
	Weights    map[string]float64 // the terms that it has, and what they count for
}

// A Part is what is shown of an entry: its name and all of its text, a part of
// it, or none.
type Part struct {
	Text   string
	Whole  bool
	Tokens int // of name and text, each with a line end
}

const (
	maxSnippet = 64 // tokens of a snippet, before it is known what is left
	minSnippet = 16
	least      = 8       // tokens that are worth a text
	maxToken   = 128     // bytes of the longest token
	maxScan    = 4 << 20 // bytes that are looked through for matches
	maxWiden   = 16      // snippets that are made longer
	maxWork    = 16      // budgets that are counted to see what fits
	maxTokens  = 8 << 20 // more than that is as much as this
)

// Spend shows entries, the best of which is first, with at most the given
// number of tokens: first the names, for at most half of it, and a snippet each
// in the order of the entries; then whole texts in place of snippets, where
// they fit; then longer snippets. Entries after the parts that it returns are
// left out.
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
	room     int     // tokens that are left
}

// shown is what a text has taken.
type shown struct {
	tokens  int
	excerpt *excerpt // nil when it was not looked at yet
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

// bodies looks at about as many tokens as work says.
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

// body shows the whole text of an entry, if it has at most limit tokens, and
// reports whether it is shown.
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
		text := s.entries[i].Text
		t.excerpt = newExcerpt(text, snippet.Matches(snippet.Clip(text, maxScan), s.analyzer, s.entries[i].Weights))
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
