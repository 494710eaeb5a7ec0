package analysis_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/fuzz/golden"
)

// pieces are parts of names, numbers, dates, units, words, and signs.
var pieces = []string{
	"", " ", "a", "Z", "v", "4", "31", "404", "2026", "10000", "000", "rc", "kB", "March", "iOS", "getName", "x1", "1st", "4th", "HTTPServer",
	"the", "de", "of", "s", "_", "-", ".", ",", ":", "/", "#", "+", "++", "'", "&", "T", "é", "é9", "9é", "京都", "年", "月", "日", "的1", "ё", "ה", "😀", "🇩🇪", "’", "–", "。",
	"\x00", "\xff", ", ", ". ", "mär", "juin",
}

// addTerms adds the terms of a text, its length, and its query to a digest. It
// compares the terms with those of a lexer.
func addTerms(t *testing.T, lex func([]string) []string, a analysis.Analyzer, text string, add func(string)) {
	terms := slices.Collect(a.Tokens(text))
	add(fmt.Sprintf("%q %q %d\n", text, terms, a.Length(text)))
	for term, weight := range a.QueryTerms(text) {
		add(fmt.Sprintf("%q %v\n", term, weight))
	}
	got := lex([]string{text})
	slices.Sort(terms)
	if slices.Sort(got); !slices.Equal(got, terms) {
		t.Fatalf("%v: a lexer reads %q as %q, Tokens returns %q", a, text, got, terms)
	}
}

// TestGrammar compares the terms of all sequences of three pieces, of random longer
// ones, and of each character that narrow may replace, with digests.
func TestGrammar(t *testing.T) {
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		var r golden.Reports
		lex := analysis.Terms(a)
		group := func(title string, each func(func(text string))) {
			h := sha256.New()
			sample := ""
			n := 0
			each(func(text string) {
				addTerms(t, lex, a, text, func(s string) {
					h.Write([]byte(s))
					if n++; n%500 == 0 {
						sample += s
					}
				})
			})
			r.Add(title, fmt.Sprintf("%x\n%s", h.Sum(nil), sample))
		}
		for _, x := range pieces {
			group(fmt.Sprintf("%q", x), func(f func(string)) {
				for _, y := range pieces {
					for _, z := range pieces {
						f(x + y + z)
					}
				}
			})
		}
		for size := 4; size <= 24; size += 2 {
			group(fmt.Sprintf("%d pieces", size), func(f func(string)) {
				random := rand.New(rand.NewPCG(1, uint64(size)))
				for range 1500 {
					var b strings.Builder
					for range size {
						b.WriteString(pieces[random.IntN(len(pieces))])
					}
					f(b.String())
				}
			})
			group(fmt.Sprintf("%d pieces of numbers", size), func(f func(string)) {
				random := rand.New(rand.NewPCG(2, uint64(size)))
				some := []string{"4", "31", "404", "2026", "000", "v", "rc", "kg", ".", ":", ",", "-", "/", " ", "March", "x1", "T", "4th"}
				for range 1500 {
					var b strings.Builder
					for range size {
						b.WriteString(some[random.IntN(len(some))])
					}
					f(b.String())
				}
			})
		}
		for _, from := range []rune{0x80, 0x2000, 0x2100, 0x3000, 0xfe00, 0xff00} {
			group(fmt.Sprintf("characters from %#x", from), func(f func(string)) {
				for c := from; c < from+0x100; c++ {
					f("ab" + string(c) + "cd e" + string(c) + " 1.2" + string(c) + "3.4 a_b" + string(c) + "c_d" + string(c) + "s")
				}
			})
		}
		group("lengths", func(f func(string)) {
			for n := range 140 {
				for _, unit := range []string{"x", "X", "7", "é", "京", "xY", "x_", "1,000"} {
					f(strings.Repeat(unit, n) + " b")
					f("a_" + strings.Repeat(unit, n) + ".5")
				}
			}
		})
		r.Compare(t, "testdata/grammar-"+a.String()+".txt.gz")
	}
}
