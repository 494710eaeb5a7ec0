package crmem

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// clauses are the parsed clauses of a query with [Query.Syntax].
type clauses struct {
	text          string // to rank by
	has, hasNot   []analysis.Phrase
	names         []analysis.Phrase // in the name or an alias
	kinds         []Kind
	after, before uint64 // seconds; created at or after, created before; 0 = unset
}

var quotes = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "«", `"`, "»", `"`)

// maxClauses is how many parts of a query are read as clauses.
const maxClauses = 64

// parseClauses parses a query:
//
//	"some words"     the words are adjacent
//	-word, -"words"  the entry does not contain them
//	name:word        the name or an alias contains the word
//	kind:note        or kind:archive
//	after:2026-04    created in or after this month; before: created before it; also 2026, 2026-04-14
//
// Anything else is text. For after: or before: without a date, parseClauses returns
// [ErrInvalid].
func parseClauses(query string) (clauses, error) {
	var c clauses
	var text []string
	rest := quotes.Replace(query)
	for n := 0; ; n++ {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		if rest == "" {
			break
		}
		if n == maxClauses {
			text = append(text, rest)
			break
		}
		part := rest
		not := strings.HasPrefix(rest, "-")
		rest = strings.TrimPrefix(rest, "-")
		field, value, quoted := "", "", false
		if i := strings.IndexFunc(rest, func(r rune) bool { return r == ':' || r == '"' || unicode.IsSpace(r) }); i > 0 && rest[i] == ':' {
			field, rest = rest[:i], rest[i+1:]
		}
		if strings.HasPrefix(rest, `"`) && strings.Count(rest, `"`) > 1 {
			value, rest, _ = strings.Cut(rest[1:], `"`)
			quoted = true
		} else if i := strings.IndexFunc(rest, unicode.IsSpace); i >= 0 {
			value, rest = rest[:i], rest[i:]
		} else {
			value, rest = rest, ""
		}
		part = part[:len(part)-len(rest)]
		phrase := analysis.NewPhrase(value)
		switch {
		case field == "" && not && value != "":
			c.hasNot = append(c.hasNot, phrase)
		case field == "" && quoted:
			c.has = append(c.has, phrase)
			text = append(text, value)
		case field == "name" && !not && value != "":
			c.names = append(c.names, phrase)
			text = append(text, value)
		case !not && (field == "after" || field == "before"):
			if err := c.date(field, value); err != nil {
				return clauses{}, err
			}
		case not || !c.kind(field, value):
			text = append(text, part)
		}
	}
	c.text = strings.Join(text, " ")
	return c, nil
}

// kind adds a clause kind:note or kind:archive, and reports whether field and value
// are such a clause.
func (c *clauses) kind(field, value string) bool {
	for _, k := range []Kind{Note, Archive} {
		if field == "kind" && value == k.String() {
			c.kinds = append(c.kinds, k)
			return true
		}
	}
	return false
}

// date parses a clause after: or before:. A date before 1970 does not filter: an
// entry without a time has the time 0.
func (c *clauses) date(field, value string) error {
	for _, layout := range []string{time.DateOnly, "2006-01", "2006"} {
		t, err := time.Parse(layout, value)
		if err != nil {
			continue
		}
		if at := uint64(max(t.Unix(), 0)); field == "after" {
			c.after = max(c.after, at)
		} else {
			c.before = at
		}
		return nil
	}
	value = cutName(value)
	return fmt.Errorf("%w query: %s:%s: want a day, month, or year, such as %s:2026-04-14, %s:2026-04, or %s:2026; to search the words, put them in quotes", ErrInvalid, field, value, field, field, field)
}

// passes reports whether an entry passes the filters. It searches the texts that the
// index of an analyzer contains.
func (c *clauses) passes(r format.Record, an analysis.Analyzer) bool {
	if at := r.CreatedAt(); at < c.after || c.before > 0 && at >= c.before {
		return false
	}
	if len(c.kinds) > 0 && !slices.Contains(c.kinds, Kind(r.Kind())) {
		return false
	}
	names := append([]string{r.Name()}, r.Aliases()...)
	for _, p := range c.names {
		if !p.In(names...) {
			return false
		}
	}
	content, _ := r.Content()
	texts := append(names, content)
	if an == analysis.Standard {
		more, text, values := metadata.Parts(content)
		texts = slices.Concat(names, more, []string{text}, values)
	}
	for _, p := range c.has {
		if !p.In(texts...) {
			return false
		}
	}
	return !slices.ContainsFunc(c.hasNot, func(p analysis.Phrase) bool { return p.In(texts...) })
}
