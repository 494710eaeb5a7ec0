package scan

import (
	"strings"
	"sync"
)

// scanner finds the keywords of the rules. It looks at pairs of bytes: each keyword
// is found by its least common pair, so that prose has few candidates.
type scanner struct {
	forms   []form
	memos   int // number of parts
	buckets [][]keyword
	pairs   [1 << 16]uint8 // 1 + index in buckets, or 0
}

type keyword struct {
	word string
	pair int // offset of the pair in word
	rule int
}

var loaded = sync.OnceValue(load)

func load() *scanner {
	s := new(scanner)
	for i, r := range rules {
		f := parseForm(r)
		for k := range f.parts {
			f.parts[k].memo = s.memos
			s.memos++
		}
		s.forms = append(s.forms, f)
		for word := range strings.FieldsSeq(r.keys) {
			at := rarestPair(word)
			slot := &s.pairs[int(word[at])<<8|int(word[at+1])]
			if *slot == 0 {
				s.buckets = append(s.buckets, nil)
				*slot = uint8(len(s.buckets)) // a test checks that there are at most 255
			}
			s.buckets[*slot-1] = append(s.buckets[*slot-1], keyword{word, at, i})
		}
	}
	return s
}

// rarestPair returns the offset of the pair of a word that is least common in prose.
func rarestPair(word string) int {
	const common = "zqjxkvbygwpfmucdlhrsnioate" // the last is the most common
	best, at := -1, 0
	for i := range len(word) - 1 {
		rarity := 0
		for _, c := range []byte(word[i : i+2]) {
			switch k := strings.IndexByte(common, c); {
			case k >= 0:
				rarity += len(common) - k
			case c != ' ':
				rarity += 2 * len(common)
			}
		}
		if rarity > best {
			best, at = rarity, i
		}
	}
	return at
}

// search is one call of Find.
type search struct {
	*scanner
	text  string
	runs  []run // by part, the last run without a maximum
	found []found
}

type run struct{ start, end int }

type found struct{ rule, start, end int }

// candidates compares the text with a rule wherever a keyword of the rule is.
func (s *search) candidates() {
	text, pairs := s.text, &s.pairs
	for i := 1; i < len(text); i++ {
		bucket := pairs[int(text[i-1])<<8|int(text[i])]
		if bucket == 0 {
			continue
		}
		for _, k := range s.buckets[bucket-1] {
			at := i - 1 - k.pair
			if at < 0 || !strings.HasPrefix(text[at:], k.word) {
				continue
			}
			if start, end, ok := s.match(k.rule, at, at+len(k.word)); ok {
				s.found = append(s.found, found{k.rule, start, end})
			}
		}
	}
}

// match compares the text with a rule whose keyword is text[start:end]. It returns
// the offsets of the secret.
func (s *search) match(rule, start, end int) (from, to int, ok bool) {
	r := &rules[rule]
	if r.find != nil {
		return r.find(s.text, start, end)
	}
	f := &s.forms[rule]
	var sample [maxSample]byte
	body := sample[:0]
	if f.before.set != nil {
		first := start
		for first > 0 && start-first < f.before.max && f.before.set[s.text[first-1]] {
			first--
		}
		if start-first < f.before.min || first > 0 && f.before.set[s.text[first-1]] && !isEscape(s.text[:first]) {
			return 0, 0, false
		}
		body = append(body, s.text[start-f.before.min:start]...)
		start = first
	}
	if !f.value && start > 0 && isWord(s.text[start]) {
		// ] is the end of a marker, which may have replaced a secret that ends with a hyphen.
		if c := s.text[start-1]; isWord(c) && !isEscape(s.text[:start]) || r.apart && (c == '-' || c == ']') {
			return 0, 0, false
		}
	}
	from, at := start, end
	for i := range f.parts {
		p := &f.parts[i]
		if p.begin {
			from = at
		}
		if p.set == nil {
			if !strings.HasPrefix(s.text[at:], p.text) {
				return 0, 0, false
			}
			at += len(p.text)
			continue
		}
		n := s.run(p, at)
		if n < p.min {
			return 0, 0, false
		}
		if p.sampled {
			body = append(body, s.text[at:at+p.min]...)
		}
		at += n
	}
	last := s.text[at-1]
	if last == '.' || last == '~' || at < len(s.text) && isWord(last) && isWord(s.text[at]) {
		return 0, 0, false // a sentence or a word
	}
	if entropy(string(body)) < r.entropy || isSample(string(body)) {
		return 0, 0, false
	}
	return from, at, true
}

// run returns the number of characters at an offset that a part accepts. It reads a
// long run once, however many candidates are in the run.
func (s *search) run(p *part, at int) int {
	if p.max > 0 {
		n := 0
		for n < p.max && at+n < len(s.text) && p.set[s.text[at+n]] {
			n++
		}
		return n
	}
	if s.runs == nil {
		s.runs = make([]run, s.memos)
	}
	last := &s.runs[p.memo]
	end := at
	if at >= last.start && at < last.end {
		return last.end - at
	}
	for end < len(s.text) && p.set[s.text[end]] {
		if end++; end == last.start {
			end = last.end
			break
		}
	}
	if end >= last.end {
		*last = run{at, end}
	}
	return end - at
}

// isWord reports whether c continues a word. A byte of a character beyond ASCII does
// not: scripts without spaces can surround a key.
func isWord(c byte) bool {
	return isAlnum(c) || c == '_'
}

// isEscape reports whether a text ends with white space as JSON writes it.
func isEscape(text string) bool {
	return strings.HasSuffix(text, `\n`) || strings.HasSuffix(text, `\r`) || strings.HasSuffix(text, `\t`)
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
