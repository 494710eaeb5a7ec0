package budget

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/tiktoken-go/tokenizer/codec"
)

var update = flag.Bool("vocabulary.update", false, "write cl100k_base.zst")

var library = sync.OnceValue(codec.NewCl100kBase)

// TestVocabulary compares the embedded tokens with the tokens of tiktoken-go.
func TestVocabulary(t *testing.T) {
	var all []byte
	for rank := uint(0); ; rank++ {
		token, err := library().Decode([]uint{rank})
		if err != nil {
			break
		}
		all = append(append(all, byte(len(token))), token...)
	}
	if *update {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("cl100k_base.zst", e.EncodeAll(all, nil), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := d.DecodeAll(packed, nil)
	if err != nil || !bytes.Equal(got, all) {
		t.Errorf("the embedded vocabulary differs (%d bytes, %v): go test ./crmem/budget -vocabulary.update", len(got), err)
	}
	if len(ranks()) != 100_256 {
		t.Errorf("%d tokens", len(ranks()))
	}
}

// pattern differs from the text in tiktoken-go, which has generated code for it: that code
// cuts "\n \n" after the first line end, and finds no word in "\x7f".
var pattern = regexp2.MustCompile(`(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)`, regexp2.None)

// checkCount compares the count of a text with the pattern and merges without a queue.
func checkCount(t *testing.T, text string) {
	t.Helper()
	want := 0
	m, err := pattern.FindStringMatch(text)
	for ; err == nil && m != nil; m, err = pattern.FindNextMatch(m) {
		want += merged(m.String())
	}
	if err != nil || countTokens(text) != want {
		t.Errorf("%q: %d tokens, want %d, %v", text, countTokens(text), want, err)
	}
}

// merged returns the number of tokens of a word.
func merged(word string) int {
	word = string([]rune(word))
	var parts []string
	for i := range len(word) {
		parts = append(parts, word[i:i+1])
	}
	for {
		best, at := uint32(noRank), -1
		for i := range len(parts) - 1 {
			if rank, ok := ranks()[parts[i]+parts[i+1]]; ok && rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			return len(parts)
		}
		parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
	}
}

// fragments are joined to texts: each class of the pattern and its edges.
var fragments = []string{
	"'s", "'T", "'re", "'VE", "'m", "'ll", "'d", "'ſ", "'", "word", "The", "antidisestablishment", "é", "e\u0301", "ſ", "漢字", "かな", "नमस्ते", "\U0001F980", "\U0001F468\u200d\U0001F469",
	"1", "12", "1234567", "Ⅳ", "½", "٣", " ", "  ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u2028", "\u3000", "\u0085", "\u200b", "\x00", "\x1c", ".", "...", "//", "{}", "==", "$", "€", "\xff", "\xc3", "\xed\xa0\x80",
	"-----------------------------------------------------------------------------------", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
}

func TestCountEqual(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		var b strings.Builder
		for range 1 + r.IntN(12) {
			b.WriteString(fragments[r.IntN(len(fragments))])
		}
		if checkCount(t, b.String()); t.Failed() {
			return
		}
	}
	for _, word := range fragments {
		checkCount(t, strings.Repeat(word, 24))
	}
	letters := slices.Repeat([]byte("qxzjkv"), 160)
	r.Shuffle(len(letters), func(i, j int) { letters[i], letters[j] = letters[j], letters[i] })
	checkCount(t, string(letters))
}

func FuzzCount(f *testing.F) {
	for _, word := range fragments {
		f.Add(word + " and " + word)
	}
	f.Fuzz(func(t *testing.T, text string) { checkCount(t, text[:min(len(text), 1<<10)]) })
}
