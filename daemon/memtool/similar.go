package memtool

import (
	"strings"
	"unicode"

	"crabmem/crmem"
	"crabmem/crmem/limits"
)

// maxSimilar limits the result of similarNames.
const maxSimilar = 5

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
	if max(len(a), len(b)) > limits.Name || digits(a) != digits(b) {
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
	return allowed > 0 && distance(ra, rb, allowed) <= allowed
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}

// distance is how many letters are to be put in, taken out, replaced or
// swapped with the next one to make b of a; more than limit is limit+1.
func distance(a, b []rune, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		least := row[0]
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
			least = min(least, row[j+1])
		}
		if least > limit {
			return limit + 1
		}
		before, last = last, row
	}
	return last[len(b)]
}
