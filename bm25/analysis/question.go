package analysis

import "strings"

// A TermSet is a set of terms of [Standard]. Has may report a term that is not in the
// set: of a set of eight, one in thirty.
type TermSet uint64

// TermSetOf returns the set of one term: three bits of its hash. Files contain sets.
func TermSetOf(term []byte) TermSet {
	h := uint64(14695981039346656037) // FNV-1a
	for _, c := range term {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15 // mixes the bits
	return 1<<(h>>46&63) | 1<<(h>>52&63) | 1<<(h>>58)
}

// Has reports whether all terms of a set, which is not empty, are in s.
func (s TermSet) Has(terms TermSet) bool { return s&terms == terms }

// maxAsking is the length of a message that asks, in bytes. Longer ones are mostly advice
// that ends with an offer.
const maxAsking = 1000

// Asked returns the terms of a message's sentences that ask, without stop words.
// Such a sentence ends with a question mark, which is not one in a URL or in code.
func Asked(text string) (set TermSet) {
	const marks, ends = ".!?。！？؟", " \n\r\t\"')*"
	if len(text) > maxAsking {
		return 0
	}
	var s Scanner
	for start := 0; strings.ContainsAny(text[start:], "?？؟"); {
		end, asks := start, false
		for {
			n := strings.IndexAny(text[end:], marks+"\n")
			if n < 0 {
				return set
			}
			end += n
			rest := strings.TrimLeft(text[end:], marks)
			run := text[end : len(text)-len(rest)]
			asks = strings.ContainsAny(run, "?？؟")
			end += max(len(run), 1)
			if run == "" || run[len(run)-1] >= 0x80 || rest == "" || strings.IndexByte(ends, rest[0]) >= 0 {
				break
			}
		}
		if asks {
			s.each(Standard, []string{text[start:end]}, func(term []byte) {
				if !IsStopWord(term) {
					set |= TermSetOf(term)
				}
			})
		}
		start = end
	}
	return set
}
