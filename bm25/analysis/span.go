package analysis

import (
	"slices"
	"strings"
	"time"
)

// A Span is a time that a text names: a range of days, or a month or a day of each
// year.
type Span struct {
	From, To   time.Time // the first day, and the day after the last, in UTC
	Month, Day int       // of each year, if From is zero; Day 0 is the complete month
}

// Covers reports whether the span contains the day of a time in UTC.
func (s Span) Covers(t time.Time) bool {
	t = t.UTC()
	if s.From.IsZero() {
		return s.Month == int(t.Month()) && (s.Day == 0 || s.Day == t.Day())
	}
	return !t.Before(s.From) && t.Before(s.To)
}

const (
	maxSpanText = 2 << 10 // bytes of a text that are read for spans
	maxSpans    = 8
)

// Spans returns the first times that a text names. It finds days, months with or
// without a year, years after a word such as "in", and English phrases such as
// "yesterday", "last week", "last March", or "two weeks ago", relative to now.
func Spans(text string, now time.Time) []Span {
	p := spanParser{today: midnight(now)}
	p.s.Scan(text[:min(len(text), maxSpanText)])
	for i := 0; i < len(p.s.edges) && len(p.spans) < maxSpans; i += 2 {
		i = p.at(i)
	}
	return p.spans
}

// Day returns the day that begins a text, such as 2026-03-14, or reports false.
func Day(text string) (time.Time, bool) {
	spans := Spans(text, time.Time{})
	if len(spans) == 0 || spans[0].From.IsZero() || !spans[0].To.Equal(spans[0].From.AddDate(0, 0, 1)) {
		return time.Time{}, false
	}
	return spans[0].From, true
}

func midnight(t time.Time) time.Time {
	y, m, d := t.UTC().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// A spanParser finds spans in a scanned text.
type spanParser struct {
	s     Scanner
	today time.Time
	spans []Span
}

// word returns the run at an index of edges in lower case, or "".
func (p *spanParser) word(i int) string {
	if i < 0 || i >= len(p.s.edges) {
		return ""
	}
	return strings.ToLower(string(p.s.buf[p.s.edges[i]:p.s.edges[i+1]]))
}

// add appends the days from a day of n years, months, and days.
func (p *spanParser) add(from time.Time, years, months, days int) {
	p.spans = append(p.spans, Span{From: from, To: from.AddDate(years, months, days)})
}

// at appends the span that begins at run i, if there is one. It returns its last run.
func (p *spanParser) at(i int) (last int) {
	if digit(p.s.buf[p.s.edges[i]]) {
		return p.number(i)
	}
	word := p.word(i)
	switch word {
	case "today":
		p.add(p.today, 0, 0, 1)
	case "yesterday":
		p.add(p.today.AddDate(0, 0, -1), 0, 0, 1)
	case "last", "this", "previous", "past":
		return p.relative(i)
	}
	if n := slices.Index(numbers, word); n >= 0 {
		return p.ago(i, max(n, 1))
	}
	if m := p.monthAt(i); m > 0 {
		return p.month(i, m)
	}
	return i
}

// monthAt returns the month that run i names completely, or 0. A name that is also
// another word must follow a preposition.
func (p *spanParser) monthAt(i int) int {
	word := p.word(i)
	m := p.s.month(i)
	if m == 0 || !fullMonths()[word] {
		return 0
	}
	switch word {
	case "may", "march", "mars", "mayo", "august":
		switch p.word(i - 2) {
		case "in", "of", "since", "during", "until", "by", "last", "this", "en", "de", "del", "early", "late", "mid":
		default:
			if p.dayAt(i+2) == 0 && p.yearAt(i+2) == 0 || !p.s.near(i) {
				return 0
			}
		}
	}
	return m
}

// monthAfterDay returns the month that run i names completely or, in English, with
// three or four letters, or 0.
func (p *spanParser) monthAfterDay(i int) int {
	switch word := p.word(i); word {
	case "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec":
	default:
		if !fullMonths()[word] {
			return 0
		}
	}
	return p.s.month(i)
}

// leading returns the number at the beginning of run i and the rest of the run, or 0.
func (p *spanParser) leading(i int) (n int, suffix string) {
	if i < 0 || i >= len(p.s.edges) || !digit(p.s.buf[p.s.edges[i]]) {
		return 0, ""
	}
	n, rest := p.s.leadingNumber(i)
	return n, strings.ToLower(string(rest))
}

// dayAt returns the number of a day at run i, or 0.
func (p *spanParser) dayAt(i int) int {
	n, suffix := p.leading(i)
	switch suffix {
	case "", "st", "nd", "rd", "th":
		if n <= 31 {
			return n
		}
	}
	return 0
}

// yearAt returns the year at run i, or 0.
func (p *spanParser) yearAt(i int) int {
	if n, suffix := p.leading(i); suffix == "" && n >= 1900 && n < 2200 {
		return n
	}
	return 0
}

// month appends the span of month m at run i: with a day, a year, or both after it.
func (p *spanParser) month(i, m int) (last int) {
	if day := p.dayAt(i + 2); day > 0 && p.s.near(i) {
		if year := p.yearAt(i + 4); year > 0 && p.s.near(i+2) {
			p.add(time.Date(year, time.Month(m), day, 0, 0, 0, 0, time.UTC), 0, 0, 1)
			return i + 4
		}
		p.spans = append(p.spans, Span{Month: m, Day: day})
		return i + 2
	}
	of := i + 2
	if p.word(of) == "of" {
		of += 2
	}
	if year := p.yearAt(of); year > 0 {
		p.add(time.Date(year, time.Month(m), 1, 0, 0, 0, 0, time.UTC), 0, 1, 0)
		return of
	}
	p.spans = append(p.spans, Span{Month: m})
	return i
}

// number appends the span that begins with the number at run i: a day, a year, or a
// number of units.
func (p *spanParser) number(i int) (last int) {
	var day string
	if end := p.s.date(i, func(term []byte) { day = string(term) }); day != "" {
		if t, err := time.Parse("20060102", day); err == nil {
			p.add(t, 0, 0, 1)
		}
		return max(i, end)
	}
	if d := p.dayAt(i); d > 0 && i+2 < len(p.s.edges) {
		named := i + 2
		switch p.word(named) {
		case "of", "de", "del":
			named += 2
		}
		if named < len(p.s.edges) {
			if m := p.monthAfterDay(named); m > 0 && p.s.near(i) {
				p.spans = append(p.spans, Span{Month: m, Day: d})
				return named
			}
		}
		return p.ago(i, d)
	}
	if year := p.yearAt(i); year > 0 {
		switch p.word(i - 2) {
		case "in", "since", "during", "year", "of", "en", "im", "jahr":
			p.add(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), 1, 0, 0)
		}
	}
	return i
}

// numbers are the English words for 0 to 12, where 0 and 1 are articles, too.
var numbers = strings.Fields("a one two three four five six seven eight nine ten eleven twelve")

// ago appends the time n units ago, if the words after run i say so. It includes half
// a unit before and after.
func (p *spanParser) ago(i, n int) (last int) {
	if w := p.word(i + 4); w != "ago" && w != "earlier" {
		return i
	}
	var from, half = p.today, 0
	switch strings.TrimSuffix(p.word(i+2), "s") {
	case "day":
		from = from.AddDate(0, 0, -n)
	case "week":
		from, half = from.AddDate(0, 0, -7*n), 3
	case "month":
		from, half = from.AddDate(0, -n, 0), 15
	case "year":
		from, half = from.AddDate(-n, 0, 0), 183
	default:
		return i
	}
	p.add(from.AddDate(0, 0, -half), 0, 0, 2*half+1)
	return i + 4
}

// relative appends the span of "last" or "this" at run i and the unit, month, or day of
// the week after it.
func (p *spanParser) relative(i int) (last int) {
	back := 1
	if p.word(i) == "this" {
		back = 0
	}
	unit := p.word(i + 2)
	y, m, _ := p.today.Date()
	switch unit {
	case "week":
		monday := p.today.AddDate(0, 0, -(int(p.today.Weekday())+6)%7)
		p.add(monday.AddDate(0, 0, -7*back), 0, 0, 7)
		return i + 2
	case "month":
		p.add(time.Date(y, m-time.Month(back), 1, 0, 0, 0, 0, time.UTC), 0, 1, 0)
		return i + 2
	case "year":
		p.add(time.Date(y-back, 1, 1, 0, 0, 0, 0, time.UTC), 1, 0, 0)
		return i + 2
	}
	for d := range 7 {
		if unit == strings.ToLower(time.Weekday(d).String()) {
			days := (int(p.today.Weekday())-d+6)%7 + 1 // before today
			p.add(p.today.AddDate(0, 0, -days), 0, 0, 1)
			return i + 2
		}
	}
	if i+2 < len(p.s.edges) {
		if month := p.monthAt(i + 2); month > 0 {
			from := time.Date(y, time.Month(month), 1, 0, 0, 0, 0, time.UTC)
			if back == 1 && !from.AddDate(0, 1, 0).Before(p.today) {
				from = from.AddDate(-1, 0, 0)
			}
			p.add(from, 0, 1, 0)
			return i + 2
		}
	}
	return i
}
