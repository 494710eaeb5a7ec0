package analysis

import (
	"bytes"
	"strings"
	"sync"
)

// A day is a compound: in each spelling it also gives a term of eight digits.
// Ambiguous ones, such as 3/4/2026, do not.

// monthNames are the names of the months in several languages.
var monthNames = []string{
	"january february march april may june july august september october november december",
	"januar februar märz april mai juni juli august september oktober november dezember",
	"janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
	"enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
	"janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
	"gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
	"января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
}

// fullMonths is the set of the names of months.
var fullMonths = sync.OnceValue(func() map[string]bool {
	m := map[string]bool{}
	for _, names := range monthNames {
		for name := range strings.FieldsSeq(names) {
			m[name] = true
		}
	}
	return m
})

// months maps names of months, and their beginnings of at least three letters, to
// numbers. It covers the languages of most dates.
var months = sync.OnceValue(func() map[string]int {
	m := map[string]int{}
	for _, names := range monthNames {
		for i, name := range strings.Fields(names) {
			letters := []rune(name)
			for n := 3; n <= len(letters); n++ {
				m[string(letters[:n])] = i + 1
			}
		}
	}
	delete(m, "jui") // juin or juillet
	return m
})

// date emits the day that starts in run i, or in the month before it, as eight
// digits. It returns the day's last run, or 0 if there is no such day.
func (s *Scanner) date(i int, emit func([]byte)) (last int) {
	n, suffix := s.leadingNumber(i)
	if n == 0 || i+4 > len(s.edges) {
		return 0
	}
	if sign := s.buf[s.edges[i+1]]; len(suffix) == 0 && (sign == '-' || sign == '/' || sign == '.') && s.isJoined(i) {
		if m, suffix := s.leadingNumber(i + 2); len(suffix) == 0 && s.buf[s.edges[i+3]] == sign && s.isJoined(i+2) {
			d, suffix := s.leadingNumber(i + 4)
			last = i + 4
			more := s.isJoined(last) && (s.buf[s.edges[last+1]] == sign && digit(s.buf[s.edges[last+2]]))
			switch size := s.edges[i+1] - s.edges[i]; {
			case more:
			case size == 4 && (len(suffix) == 0 || suffix[0] == 'T'):
				if !s.day(n, m, d, emit) {
					return 0
				}
				for len(suffix) > 0 && s.isJoined(last) && s.buf[s.edges[last+1]] == ':' { // the time
					last += 2
				}
				return last
			case len(suffix) > 0:
			case sign == '.' || m == n || n > 12:
				if s.day(d, m, n, emit) {
					return last
				}
			case m > 12:
				if s.day(d, n, m, emit) {
					return last
				}
			}
			return 0
		}
	}
	switch string(suffix) {
	case "", "st", "nd", "rd", "th", "ST", "ND", "RD", "TH":
	default:
		return 0
	}
	if s.near(i) {
		named := s.afterOf(i + 2)
		if named+4 <= len(s.edges) && s.near(named) {
			last := s.afterOf(named + 2)
			if y, suffix := s.leadingNumber(last); len(suffix) == 0 && s.day(y, s.month(named), n, emit) {
				return last
			}
		}
		if i >= 2 && s.near(i-2) {
			if y, suffix := s.leadingNumber(i + 2); len(suffix) == 0 && s.day(y, s.month(i-2), n, emit) {
				return i
			}
		}
	}
	return 0
}

// afterOf returns the run after run i if run i is an "of" in a date, else i.
func (s *Scanner) afterOf(i int) int {
	switch string(s.buf[s.edges[i]:s.edges[i+1]]) {
	case "of", "de", "del":
		if i+4 <= len(s.edges) && s.near(i) {
			return i + 2
		}
	}
	return i
}

// near reports whether the characters between run i and the next may separate the
// parts of a date.
func (s *Scanner) near(i int) bool {
	switch string(s.buf[s.edges[i+1]:s.edges[i+2]]) {
	case " ", ", ", ". ", "-", "/", ".":
		return true
	}
	return false
}

// leadingNumber returns the number of up to four digits at the beginning of run i
// and the rest of the run. It returns 0 if there is no such number.
func (s *Scanner) leadingNumber(i int) (n int, suffix []byte) {
	run := s.buf[s.edges[i]:s.edges[i+1]]
	end := 0
	for end < len(run) && digit(run[end]) {
		n = n*10 + int(run[end]-'0')
		if end++; end > 4 {
			return 0, nil
		}
	}
	if len(run) > maxRun {
		return 0, nil
	}
	return n, run[end:]
}

// month returns the number of the month in run i, or 0.
func (s *Scanner) month(i int) int {
	run := s.buf[s.edges[i]:s.edges[i+1]]
	if len(run) > len("сентября") {
		return 0
	}
	s.join = appendASCIILower(s.join[:0], run)
	return months()[string(s.join)]
}

// day emits a date if it is valid.
func (s *Scanner) day(y, m, d int, emit func([]byte)) bool {
	if !validDay(y, m, d) {
		return false
	}
	s.join = appendDay(s.join[:0], y, m, d)
	s.extra++
	emit(s.join)
	return true
}

func validDay(y, m, d int) bool {
	return y >= 1000 && y <= 2999 && m >= 1 && m <= 12 && d >= 1 && d <= 31
}

func appendDay(dst []byte, y, m, d int) []byte {
	return append(dst, '0'+byte(y/1000), '0'+byte(y/100%10), '0'+byte(y/10%10), '0'+byte(y%10),
		'0'+byte(m/10), '0'+byte(m%10), '0'+byte(d/10), '0'+byte(d%10))
}

// unspacedDate returns the date at the beginning of text if it is written as in
// 2026年3月14日, else zeros.
func unspacedDate(text []byte) (y, m, d int) {
	for _, part := range []struct {
		n    *int
		sign string
	}{{&y, "年"}, {&m, "月"}, {&d, "日"}} {
		i := 0
		for i < len(text) && i < 4 && digit(text[i]) {
			*part.n = *part.n*10 + int(text[i]-'0')
			i++
		}
		var found bool
		if text, found = bytes.CutPrefix(text[i:], []byte(part.sign)); i == 0 || !found {
			return 0, 0, 0
		}
	}
	return y, m, d
}
