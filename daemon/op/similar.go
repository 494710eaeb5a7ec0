package op

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/crmem/lint"
	"crabmem/crmem/metadata"
	"crabmem/daemon/display"
)

// maxSimilar limits the result of similarNames.
const maxSimilar = 5

const (
	sameMeaning  = 0.9     // cosine of two texts with nearly the same meaning
	repeatedText = 1 << 10 // bytes of a text that are a query for similar ones
	repeatedHits = 25      // of that query
)

// similar returns the names of at most maxSimilar entries that a new note may repeat: they
// have a similar name, nearly the same text or, with a model, nearly the same meaning.
func (s Store) similar(ctx context.Context, o *crmem.Remember) []string {
	like := similarNames(s.Store, o.Name)
	text := clip.Bytes(metadata.Text(o.Content), repeatedText)
	found, err := s.Search(ctx, crmem.Query{Text: text, Limit: repeatedHits, Uncounted: true, Semantic: SemanticRequest(s.Semantic)})
	if err != nil {
		return like // the note counts, and this is a hint
	}
	for _, h := range found.Hits {
		near := h.Fused != nil && h.Fused.Cosine != nil && *h.Fused.Cosine >= sameMeaning
		if len(like) < maxSimilar && !slices.Contains(like, h.Name) && (near || lint.Repeats(o.Content, h.Content)) {
			like = append(like, h.Name)
		}
	}
	return like
}

// similarNames returns the names of at most maxSimilar entries that a new entry of
// the name may duplicate: their names differ in case, signs or a typing error, or
// the name is an alias of them.
func similarNames(s *crmem.Store, name string) []string {
	var like []string
	want := foldName(name)
	for e := range s.All() {
		if e.Name == name {
			continue
		}
		same := nearlySame(want, foldName(e.Name))
		for i := 0; i < len(e.Aliases) && !same; i++ {
			same = e.Aliases[i] == name || foldName(e.Aliases[i]) == want
		}
		if same {
			if like = append(like, e.Name); len(like) == maxSimilar {
				break
			}
		}
	}
	return like
}

// maxNear limits the result of nearNames.
const maxNear = 3

// nearNames returns the names of at most maxNear entries that resemble name, or that
// have an alias that resembles it. The nearest name is first.
func nearNames(s *crmem.Store, name string) []string {
	want := []rune(foldName(name))
	if len(want) == 0 || len(name) > crmem.MaxName {
		return nil
	}
	limit := min(1+len(want)/4, len(want)-1)
	type near struct {
		name string
		off  int
	}
	var list []near
	for e := range s.All() {
		best := limit + 1
		for _, n := range append([]string{e.Name}, e.Aliases...) {
			if len(n) <= crmem.MaxName {
				best = min(best, offBy(want, []rune(foldName(n)), limit))
			}
		}
		if best <= limit {
			list = append(list, near{e.Name, best})
		}
	}
	slices.SortStableFunc(list, func(a, b near) int { return cmp.Compare(a.off, b.off) })
	var names []string
	for _, n := range list[:min(len(list), maxNear)] {
		names = append(names, n.name)
	}
	return names
}

// offBy is [display.Distance], but at most limit for a name that begins or ends with want.
func offBy(want, name []rune, limit int) int {
	if len(want) >= 3 && (strings.HasPrefix(string(name), string(want)) || strings.HasSuffix(string(name), string(want))) {
		return min(limit, len(name)-len(want))
	}
	return display.Distance(want, name, limit)
}

// nearFix returns the beginning of a fix that lists the names near name, or "".
func nearFix(s *crmem.Store, name string) string {
	names := nearNames(s, name)
	if len(names) == 0 {
		return ""
	}
	for i := range names {
		names[i] = display.Quoted(names[i])
	}
	last := len(names) - 1
	list := names[last]
	if last > 0 {
		list = strings.Join(names[:last], ", ") + " or " + list
	}
	return "use the name " + list + ", or "
}

// foldName leaves the letters and digits of a name, in lower case.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// nearlySame reports whether two folded names are one, but for a letter in
// short ones and two in long ones. Numbers count: note-1 is not note-2.
func nearlySame(a, b string) bool {
	if a == b {
		return a != ""
	}
	if max(len(a), len(b)) > crmem.MaxName || digits(a) != digits(b) {
		return false
	}
	ra, rb := []rune(a), []rune(b)
	allowed := 0
	switch n := min(len(ra), len(rb)); {
	case n >= 12:
		allowed = 2
	case n >= 5:
		allowed = 1
	}
	return allowed > 0 && display.Distance(ra, rb, allowed) <= allowed
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}

// NearestName returns the name that most resembles mistyped; of several such names,
// the first. It returns "" if no name resembles mistyped.
func NearestName(mistyped string, names []string) string {
	want := []rune(foldName(mistyped))
	if len(want) == 0 || len(want) > crmem.MaxName {
		return ""
	}
	best, nearest := "", len(want)/3+1
	for _, name := range names {
		if n := display.Distance(want, []rune(foldName(name)), nearest); n < nearest || n == nearest && best == "" {
			best, nearest = name, n
		}
	}
	return best
}
