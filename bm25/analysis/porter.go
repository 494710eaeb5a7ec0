package analysis

import "math/bits"

// A stemmer reduces an English word to its stem by the rules of Porter's paper
// of 1980 and the two departures from it that his own programs make. The word
// has lower-case ASCII letters only, 3 to 64 of them, and is changed in place.
type stemmer struct {
	word   []byte
	vowels uint64 // bit i: letter i is one; y is one after a consonant
}

// porterStem returns the stem of word, which it overwrites.
func porterStem(word []byte) []byte {
	s := stemmer{word: word}
	s.findVowels()
	s.plural()
	s.pastOrParticiple()
	if n := len(s.word); s.ends("y") && s.hasVowel(n-1) {
		s.set(n-1, 'i')
	}
	s.doubleSuffix()
	s.adjective()
	s.derivation()
	s.finalE()
	return s.word
}

func (s *stemmer) findVowels() {
	const aeiou = 1 | 1<<('e'-'a') | 1<<('i'-'a') | 1<<('o'-'a') | 1<<('u'-'a')
	s.vowels = 0
	before := uint64(1)
	for i, c := range s.word {
		v := uint64(aeiou) >> (c - 'a') & 1
		if c == 'y' {
			v = before ^ 1
		}
		s.vowels |= v << i
		before = v
	}
}

// measure returns how many times a vowel is followed by a consonant in the first
// n letters.
func (s *stemmer) measure(n int) int {
	v := s.vowels & (1<<n - 1)
	return bits.OnesCount64((v &^ (v >> 1)) << 1 & (1<<n - 1))
}

func (s *stemmer) hasVowel(n int) bool { return s.vowels&(1<<n-1) != 0 }

// short reports whether the first n letters end in consonant, vowel and a
// consonant that is not w, x or y.
func (s *stemmer) short(n int) bool {
	if n < 3 || s.vowels>>(n-3)&7 != 2 {
		return false
	}
	c := s.word[n-1]
	return c != 'w' && c != 'x' && c != 'y'
}

// ends reports whether the word is longer than the suffix and ends with it.
func (s *stemmer) ends(suffix string) bool {
	n := len(s.word) - len(suffix)
	return n > 0 && string(s.word[n:]) == suffix
}

func (s *stemmer) set(i int, vowel byte) {
	s.word[i] = vowel
	s.vowels |= 1 << i
}

// cut removes the last n letters.
func (s *stemmer) cut(n int) { s.word = s.word[:len(s.word)-n] }

// addE appends an e; the memory of the word has room for it.
func (s *stemmer) addE() {
	s.word = append(s.word, 'e')
	s.vowels |= 1 << (len(s.word) - 1)
}

// plural is step 1a.
func (s *stemmer) plural() {
	switch {
	case !s.ends("s"), s.ends("ss") && !s.ends("sses"):
	case s.ends("sses"), s.ends("ies"):
		s.cut(2)
	default:
		s.cut(1)
	}
}

// pastOrParticiple is step 1b.
func (s *stemmer) pastOrParticiple() {
	n := len(s.word)
	switch {
	case s.ends("eed"):
		if s.measure(n-3) > 0 {
			s.cut(1)
		}
		return
	case s.ends("ed") && s.hasVowel(n-2):
		s.cut(2)
	case s.ends("ing") && s.hasVowel(n-3):
		s.cut(3)
	default:
		return
	}
	n = len(s.word)
	last := s.word[n-1]
	switch {
	case s.ends("at"), s.ends("bl"), s.ends("iz"):
		s.addE()
	case n > 1 && last == s.word[n-2] && s.vowels>>(n-1)&1 == 0 && last != 'l' && last != 's' && last != 'z':
		s.cut(1)
	case s.measure(n) == 1 && s.short(n):
		s.addE()
	}
}

// replace looks for the first of some suffixes that the word ends with, and puts
// what follows it in the list in its place if what is before it has a measure
// of more than 0.
func (s *stemmer) replace(suffixes ...string) {
	for i := 0; i < len(suffixes); i += 2 {
		if !s.ends(suffixes[i]) {
			continue
		}
		n := len(s.word) - len(suffixes[i])
		if s.measure(n) > 0 {
			s.word = append(s.word[:n], suffixes[i+1]...)
			s.findVowels()
		}
		return
	}
}

// drop looks for the first of some suffixes that the word ends with, and removes
// it if what is before it has a measure of more than 1.
func (s *stemmer) drop(suffixes ...string) {
	for _, suffix := range suffixes {
		if s.ends(suffix) {
			if s.measure(len(s.word)-len(suffix)) > 1 {
				s.cut(len(suffix))
			}
			return
		}
	}
}

// doubleSuffix is step 2. The last letter but one tells which suffixes there can
// be.
func (s *stemmer) doubleSuffix() {
	if len(s.word) < 2 {
		return
	}
	switch s.word[len(s.word)-2] {
	case 'a':
		s.replace("ational", "ate", "tional", "tion")
	case 'c':
		s.replace("enci", "ence", "anci", "ance")
	case 'e':
		s.replace("izer", "ize")
	case 'g':
		s.replace("logi", "log")
	case 'l':
		s.replace("bli", "ble", "alli", "al", "entli", "ent", "eli", "e", "ousli", "ous")
	case 'o':
		s.replace("ization", "ize", "ation", "ate", "ator", "ate")
	case 's':
		s.replace("alism", "al", "iveness", "ive", "fulness", "ful", "ousness", "ous")
	case 't':
		s.replace("aliti", "al", "iviti", "ive", "biliti", "ble")
	}
}

// adjective is step 3. The last letter tells which suffixes there can be.
func (s *stemmer) adjective() {
	switch s.word[len(s.word)-1] {
	case 'e':
		s.replace("icate", "ic", "ative", "", "alize", "al")
	case 'i':
		s.replace("iciti", "ic")
	case 'l':
		s.replace("ical", "ic", "ful", "")
	case 's':
		s.replace("ness", "")
	}
}

// derivation is step 4. The last letter but one tells which suffixes there can
// be.
func (s *stemmer) derivation() {
	if len(s.word) < 2 {
		return
	}
	switch s.word[len(s.word)-2] {
	case 'a':
		s.drop("al")
	case 'c':
		s.drop("ance", "ence")
	case 'e':
		s.drop("er")
	case 'i':
		s.drop("ic")
	case 'l':
		s.drop("able", "ible")
	case 'n':
		s.drop("ant", "ement", "ment", "ent")
	case 'o':
		if s.ends("sion") || s.ends("tion") {
			s.drop("ion")
		} else {
			s.drop("ou")
		}
	case 's':
		s.drop("ism")
	case 't':
		s.drop("ate", "iti")
	case 'u':
		s.drop("ous")
	case 'v':
		s.drop("ive")
	case 'z':
		s.drop("ize")
	}
}

// finalE is step 5.
func (s *stemmer) finalE() {
	n := len(s.word)
	if s.word[n-1] == 'e' {
		if m := s.measure(n - 1); m > 1 || m == 1 && !s.short(n-1) {
			s.cut(1)
			n--
		}
	}
	if n > 2 && s.word[n-1] == 'l' && s.word[n-2] == 'l' && s.measure(n-1) > 1 {
		s.cut(1)
	}
}
