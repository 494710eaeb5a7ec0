package budget

import (
	"container/heap"
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

// Encoding is the vocabulary that counts tokens. Its successor, o200k_base, has twice as
// many tokens. o200k_base counts slightly fewer tokens in English and code, and far fewer
// in other scripts.
const Encoding = "cl100k_base"

// packed contains the tokens in the order of their ranks, each after a byte with its
// length. They are the tokens of github.com/tiktoken-go/tokenizer, which adds 3.7 MB to the
// program, because its vocabulary is Go source, and this package 0.5 MB.
//
//go:embed cl100k_base.zst
var packed []byte

// ranks returns each token's rank. Its first call takes about 15 ms.
var ranks = sync.OnceValue(func() map[string]uint32 {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer d.Close()
	b, err := d.DecodeAll(packed, nil)
	if err != nil {
		panic(err)
	}
	list := make(map[string]uint32, 101_000)
	for all := string(b); all != ""; {
		end := 1 + int(all[0])
		list[all[1:end]] = uint32(len(list))
		all = all[end:]
	}
	return list
})

// countTokens returns the number of tokens of text. A byte that is not UTF-8 counts as U+FFFD.
func countTokens(text string) (n int) {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	for text != "" {
		size := wordSize(text)
		if _, ok := ranks()[text[:size]]; ok {
			n++
		} else {
			n += countMerged(text[:size])
		}
		text = text[size:]
	}
	return n
}

// wordSize returns the size of a text's first word: a match of the pattern
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func wordSize(text string) int {
	r, n := utf8.DecodeRuneInString(text)
	if r == '\'' {
		for _, end := range []string{"s", "t", "re", "ve", "m", "ll", "d"} {
			if len(text) > len(end) && strings.EqualFold(text[1:1+len(end)], end) {
				return 1 + len(end)
			}
		}
	}
	if unicode.IsNumber(r) {
		for range 2 {
			if r, size := utf8.DecodeRuneInString(text[n:]); unicode.IsNumber(r) {
				n += size
			}
		}
		return n
	}
	if letters := spanOf(text[n:], unicode.IsLetter); letters > 0 && r != '\r' && r != '\n' || unicode.IsLetter(r) {
		return n + letters
	}
	blank := 0
	if r == ' ' {
		blank = 1
	}
	if marks := spanOf(text[blank:], isMark); marks > 0 {
		n = blank + marks
		return n + spanOf(text[n:], func(r rune) bool { return r == '\r' || r == '\n' })
	}
	spaces := spanOf(text, unicode.IsSpace)
	if i := strings.LastIndexAny(text[:spaces], "\r\n"); i >= 0 {
		return i + 1
	}
	if _, last := utf8.DecodeLastRuneInString(text[:spaces]); spaces < len(text) && last < spaces {
		return spaces - last
	}
	return spaces
}

func isMark(r rune) bool { return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r) }

// spanOf returns the size of text's beginning whose runes are all in a class.
func spanOf(text string, class func(rune) bool) int {
	if i := strings.IndexFunc(text, func(r rune) bool { return !class(r) }); i >= 0 {
		return i
	}
	return len(text)
}

// noRank is the rank of a pair that is no token.
const noRank = 1<<32 - 1

// countMerged returns the number of tokens of a word that is no token: of its bytes, the
// adjacent parts with the least rank are merged until no two of them are a token.
func countMerged(word string) int {
	type part struct {
		next, prev int
		rank       uint32 // of the part with the next one
	}
	list, parts := ranks(), make([]part, len(word)+1)
	var queue rankQueue
	rate := func(i int) {
		p := &parts[i]
		if p.rank = noRank; p.next < len(word) {
			if rank, ok := list[word[i:parts[p.next].next]]; ok {
				p.rank = rank
				heap.Push(&queue, uint64(rank)<<32|uint64(i))
			}
		}
	}
	for i := range parts {
		parts[i] = part{next: i + 1, prev: i - 1}
	}
	for i := range len(word) {
		rate(i)
	}
	n := len(word)
	for len(queue) > 0 {
		top := heap.Pop(&queue).(uint64)
		i := int(uint32(top))
		p := &parts[i]
		if p.rank != uint32(top>>32) {
			continue // an earlier rating
		}
		n--
		parts[p.next].rank = noRank
		p.next = parts[p.next].next
		parts[p.next].prev = i
		rate(i)
		if p.prev >= 0 {
			rate(p.prev)
		}
	}
	return n
}

// rankQueue is a heap of ranks, each with the offset of its part: the leftmost of the least
// rank is first.
type rankQueue []uint64

func (q rankQueue) Len() int           { return len(q) }
func (q rankQueue) Less(i, j int) bool { return q[i] < q[j] }
func (q rankQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *rankQueue) Push(e any)        { *q = append(*q, e.(uint64)) }

func (q *rankQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}
