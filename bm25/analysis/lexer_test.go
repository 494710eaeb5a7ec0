package analysis_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"

	"github.com/google/go-cmp/cmp"
)

// scripts are the characters of random words.
var scripts = [][]rune{
	[]rune("abcdefghijklmnopqrstuvwxyz"), []rune("etaoins"), []rune("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), []rune("0123456789"),
	[]rune("àéîõüßæœñçÀÉÎÕÜŠžłĐıİŉſ"), []rune("e\u0301o\u0308n\u0303A\u030a"), []rune("αβγδεζηθσςΣΆάϊΐ"), []rune("абвгдежзийкёЁЪЬ"),
	[]rune("אבגדה\u05b0\u05b8"), []rune("ابتثج\u064b\u0650ـ"), []rune("नमसतक\u094d\u0947िा"), []rune("กขคงจ\u0e31\u0e34"),
	[]rune("記憶京都庁日本語"), []rune("あいうえおっゃー"), []rune("アイウエオッャーｱｲｳﾞﾟ"), []rune("기억서울각힣ᄀᆨ"), []rune("ＡＢｃ１２"),
	[]rune("𝐀𝒃𐐀𐐨𠀀😀👩🏽"), []rune("½²①Ⅳﬁﷺ"), []rune("\u00ad\u200b\u200d\ufeff\u0000"), []rune("'’_-.,·"),
}

// randomWord returns a word of one or two scripts, sometimes with an English ending
// or without one of its bytes.
func randomWord(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(5)/4 {
		letters := scripts[min(r.IntN(len(scripts)), r.IntN(len(scripts)))]
		n := 1 + r.IntN(9)
		if r.IntN(40) == 0 {
			n = 30 + r.IntN(40)
		}
		for range n {
			b.WriteRune(letters[r.IntN(len(letters))])
		}
	}
	if r.IntN(3) == 0 {
		b.WriteString([]string{"s", "'s", "’t", "'ll", "ing", "ational", "iveness", "Y", "Case", "42", "\xff"}[r.IntN(11)])
	}
	s := b.String()
	if r.IntN(20) == 0 {
		cut := r.IntN(len(s))
		s = s[:cut] + s[cut+1:]
	}
	return s
}

// TestLexer checks that the terms of new and repeated words equal those of Tokens,
// and that an index contains exactly these terms.
func TestLexer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	seen := make([]string, 2000)
	for i := range seen {
		seen[i] = randomWord(r)
	}
	docs := make([]bm25.Doc, 1100)
	for i := range docs {
		fields := make([]string, 1+r.IntN(2))
		for j := range fields {
			var b strings.Builder
			for range r.IntN(25) {
				if r.IntN(8) > 0 {
					b.WriteString(seen[min(r.IntN(len(seen)), r.IntN(len(seen)))])
				} else {
					b.WriteString(randomWord(r))
				}
				b.WriteString([]string{" ", "'", "\n", "—", ""}[min(r.IntN(5), r.IntN(5))])
			}
			fields[j] = b.String()
		}
		docs[i] = bm25.Doc{ID: uint64(i), Fields: fields}
	}
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		lex := analysis.Terms(a)
		vocabulary := map[string]bool{}
		for _, d := range docs {
			var want []string
			for _, f := range d.Fields {
				want = slices.AppendSeq(want, a.Tokens(f))
			}
			for _, term := range want {
				vocabulary[term] = true
			}
			got := lex(d.Fields)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("%v: %q has other terms than Tokens returns:\n%s", a, d.Fields, cmp.Diff(want, got))
			}
		}
		built, added := bm25.New(a), bm25.New(a)
		if err := built.Build(t.Context(), len(docs), func(i int) bm25.Doc { return docs[i] }); err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			added.Add(d)
		}
		for what, x := range map[string]*bm25.Index{"built": built, "added": added} {
			if got := x.Stats().Terms; got != len(vocabulary) {
				t.Errorf("%v, %s: %d terms, want %d", a, what, got, len(vocabulary))
			}
		}
		for range 300 {
			q := bm25.Query{Text: seen[r.IntN(len(seen))] + " " + seen[r.IntN(50)], Limit: 20, Count: true}
			if diff := cmp.Diff(built.Search(q), added.Search(q)); diff != "" {
				t.Fatalf("%v: %q: built and added differ:\n%s", a, q.Text, diff)
			}
		}
	}
}

// TestStems checks that every word ending reaches the stemmer, and that an irregular
// form gets the stem of its word.
func TestStems(t *testing.T) {
	for _, start := range []string{"", "b", "eb", "relat", "conditabl"} {
		word := append([]byte(start), "aaa"...)
		end := word[len(start):]
		for i := range 26 * 26 * 26 {
			end[0], end[1], end[2] = 'a'+byte(i/676), 'a'+byte(i/26%26), 'a'+byte(i%26)
			checkStem(t, string(word))
		}
	}
	r := rand.New(rand.NewPCG(1, 8))
	suffixes := strings.Fields(`s es ies sses ed eed ing y at bl iz ll ational tional enci anci izer bli alli entli eli
		ousli ization ation ator alism iveness fulness ousness aliti iviti biliti logi icate ative alize iciti ical ful
		ness al ance ence er ic able ible ant ement ment ent sion tion ion ou ism ate iti ous ive ize e le ee yy ying`)
	for range 200_000 {
		var b strings.Builder
		for range r.IntN(5) {
			b.WriteByte("aeiouybcdflnrstvwxyz"[r.IntN(20)])
		}
		for range 1 + r.IntN(3) {
			b.WriteString(suffixes[r.IntN(len(suffixes))])
		}
		checkStem(t, b.String())
	}
}

func checkStem(t *testing.T, form string) {
	want := regular(form)
	if len(want) > 2 {
		want = analysis.Stem(want)
	}
	if got := slices.Collect(analysis.Standard.Tokens(form)); len(got) != 1 || got[0] != want {
		t.Fatalf("%s becomes %q, want %s", form, got, want)
	}
}

// TestStemsOfWords checks each step of the stemmer, and words of different meanings that
// Porter's stemmer joins.
func TestStemsOfWords(t *testing.T) {
	for stem, words := range map[string]string{
		"caress": "caresses caress", "poni": "ponies", "feed": "feed", "agre": "agreed agree", "plaster": "plastered", "bled": "bled",
		"motor": "motoring", "sing": "sing", "conflat": "conflated", "troubl": "troubled", "size": "sized sizing", "hop": "hopping",
		"fall": "falling", "hiss": "hissing", "fizz": "fizzed", "fail": "failing", "file": "filing", "happi": "happy", "sky": "sky",
		"relat": "relational relate relation", "condit": "conditional condition", "digit": "digitizer digitize digitizing",
		"radic": "radical radically", "different": "different", "modern": "modernization modernize", "predic": "predication", "operat": "operator operation",
		"feudal": "feudalism", "decisiv": "decisiveness", "hope": "hopeful hopefulness", "callous": "callousness", "formal": "formality",
		"sensitiv": "sensitiviti", "sensibl": "sensibility", "triplic": "triplicate", "form": "formative", "electric": "electricity electrical",
		"good": "goodness", "adjust": "adjustable adjustment", "defens": "defensible", "replac": "replacement", "adopt": "adoption",
		"token": "tokens tokenize tokenizer", "rate": "rate rating rates", "ceas": "cease", "control": "control controlling", "roll": "roll",
		"deploy": "deploy deploys deployed deployment", "enjoy": "enjoyable enjoys", "add": "add adds added adding", "use": "use uses used using",
		"quit": "quit quits", "quite": "quite", "organ": "organ organs", "organiz": "organize organizer organization", "general": "general generally",
		"generat": "generate generator", "universiti": "university universities", "univers": "universe", "customer": "customer customers", "custom": "custom customs",
		"apartment": "apartments", "apart": "apart", "news": "news", "new": "new", "status": "status", "statu": "statue statues", "author": "authors",
		"authoriz": "authorize authorization", "evening": "evening evenings", "even": "even evens",
	} {
		for word := range strings.FieldsSeq(words) {
			if got := analysis.Stem(word); got != stem {
				t.Errorf("the stem of %s is %s, want %s", word, got, stem)
			}
		}
	}
}

// TestLexerCollisions checks enough words that hashes share slot and tag.
func TestLexerCollisions(t *testing.T) {
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		lex := analysis.Terms(a)
		words := make([]string, 100)
		for i := range 4000 {
			for j := range words {
				n := i*len(words) + j
				words[j] = string([]byte{'a' + byte(n/17576), 'a' + byte(n/676%26), 'a' + byte(n/26%26), 'a' + byte(n%26), 'k'})
			}
			got := lex([]string{strings.Join(words, " ")})
			want := slices.Clone(words)
			for j, w := range words {
				if a == analysis.Standard {
					want[j] = regular(w)
				}
			}
			slices.Sort(want)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Fatalf("%v: the words %q are indexed under %q", a, words, got)
			}
		}
	}
}
