package analysis_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"crabmem/bench/corpus"
	"crabmem/bm25/analysis"
)

// streams are texts whose terms must not change, because queries must find what an
// earlier version indexed. A digest covers all terms, in order, each with a line
// feed. An intended change of an analyzer or of the sample brain changes digests.
var streams = []struct {
	name            string
	texts           func(t *testing.T) []string
	standard, plain string
}{
	{
		"brain", brainTexts,
		"2b37f910244d59c58dbec5f940f298a56fd1dfe1efc6eda274abf2eacc34e265",
		"67a0bd51d723d6b0e1687dd55038bfba5ac66f8b9345ed9b574980d0c40fa93f",
	},
	{
		"zipf", func(*testing.T) []string { return corpus.NewZipf(1).Docs(2000) },
		"bde813e6de525aa173c3552f4974d939487d109c49e46133cb813765b70552ce",
		"f3ac12562e64943baf0f168a57cc9b37daf280b44dc8e1e4d34865560c6267f1",
	},
	{
		"words", wordTexts,
		"3527c2cbe4ca0749b4aadeb1e3be5ff4928658c69775694fbf3eb90262fc1fa2",
		"063db60ecbb9894c12ccb93753a558738f43bbd7db2e12d4907e8bffa6e5055d",
	},
	{
		"runes", runeTexts,
		"c85623dc2dc4d9b3dffcc315482579c7721c26edccf51b1c8854e50259884433",
		"7c86528645e2c98bbad7391c42f235cbfbed6b6891eee339f58fcc79feba9ec9",
	},
}

func brainTexts(t *testing.T) []string {
	var texts []string
	dir := os.DirFS("../../testdata/brain")
	err := fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(dir, path)
		texts = append(texts, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// wordTexts returns sentences of random words of many scripts.
func wordTexts(*testing.T) []string {
	r := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, 2000)
	for i := range texts {
		var b strings.Builder
		for range 30 {
			b.WriteString(randomWord(r))
			b.WriteString([]string{" ", " ", "'", "\n", "_"}[r.IntN(5)])
		}
		texts[i] = b.String()
	}
	return texts
}

// runeTexts returns texts with a sample of the assigned characters, alone and
// next to random characters.
func runeTexts(*testing.T) []string {
	r := rand.New(rand.NewPCG(3, 4))
	var texts []string
	for c := rune(0); c <= unicode.MaxRune; c++ {
		if unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf) && r.IntN(8) == 0 {
			other := rune(r.IntN(0x3000))
			texts = append(texts, "ab"+string(c)+string(other)+"S "+string(c))
		}
	}
	return texts
}

// TestStreams compares the terms of the streams with their digests, and with the
// terms of a lexer.
func TestStreams(t *testing.T) {
	for _, s := range streams {
		texts := s.texts(t)
		if len(texts) < 300 {
			t.Fatalf("%s: only %d texts", s.name, len(texts))
		}
		for a, want := range map[analysis.Analyzer]string{analysis.Standard: s.standard, analysis.Plain: s.plain} {
			lex := analysis.Terms(a)
			h := sha256.New()
			n := 0
			for _, text := range texts {
				terms := slices.Collect(a.Tokens(text))
				for _, term := range terms {
					h.Write([]byte(term + "\n"))
				}
				n += len(terms)
				slices.Sort(terms)
				got := lex([]string{text})
				slices.Sort(got)
				if !slices.Equal(got, terms) {
					t.Fatalf("%s, %v: %q has the terms %q, want %q", s.name, a, text, got, terms)
				}
			}
			if s.name == "runes" && unicode.Version != "15.0.0" {
				t.Logf("the digest of the runes is of Unicode 15.0.0, this is %s", unicode.Version)
				continue
			}
			if got := hex.EncodeToString(h.Sum(nil)); got != want {
				t.Errorf("%s, %v: the digest of %d terms in %d texts is %s, want %s", s.name, a, n, len(texts), got, want)
			}
		}
	}
}
