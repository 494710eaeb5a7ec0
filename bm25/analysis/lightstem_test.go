package analysis_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	bleve "github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/analysis/lang/ar"
	"github.com/blevesearch/bleve/v2/analysis/lang/hi"

	"crabmem/bm25/analysis"
)

// TestLightStemsEqualBleve compares the stems of random Arabic and Hindi words,
// most of which have prefixes and suffixes, with the results of bleve's filters.
func TestLightStemsEqualBleve(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name    string
		filters []bleve.TokenFilter
		affixes string
		script  *unicode.RangeTable
		first   rune
		letters rune
	}{
		{"Arabic", []bleve.TokenFilter{ar.NewArabicNormalizeFilter(), ar.NewArabicStemmerFilter()},
			"ال وال بال كال فال لل و ها ان ات ون ين يه ية ه ة ي أ إ آ ى ـ a 1 \u064b \u0652", unicode.Arabic, 0x0620, 0x60},
		{"Hindi", []bleve.TokenFilter{hi.NewHindiStemmerFilter()},
			"ाएंगी ाऊंगा ाइयाँ ाएगी एंगे ेंगे ूंगा ातीं नाओं ियों ाकर ाइए ाया ेगी ाना तीं ुआं कर िए ने ती ों ें ो े ू ि ा a 1", unicode.Devanagari, 0x0900, 0x80},
	} {
		affixes := strings.Fields(c.affixes)
		changed := 0
		for range 200_000 {
			var b strings.Builder
			for range rnd.IntN(7) {
				if rnd.IntN(2) == 0 {
					b.WriteString(affixes[rnd.IntN(len(affixes))])
				} else {
					b.WriteRune(c.first + rnd.Int32N(c.letters))
				}
			}
			word := b.String()
			if len(word) > 80 || len(word) == 0 || word[0] < 0x80 {
				continue // no stem is made of these
			}
			stream := bleve.TokenStream{{Term: []byte(word)}}
			for _, f := range c.filters {
				stream = f.Filter(stream)
			}
			want := string(stream[0].Term)
			if first, _ := utf8.DecodeRuneInString(word); want == "" || !unicode.Is(c.script, first) {
				want = word
			}
			if got := analysis.StemForeign(word); got != want {
				t.Fatalf("%s: stem of %q is %q, want %q", c.name, word, got, want)
			}
			if want != word {
				changed++
			}
		}
		if changed < 50_000 {
			t.Errorf("%s: only %d words have another stem", c.name, changed)
		}
	}
}
