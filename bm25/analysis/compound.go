package analysis

// Compounds are the terms that Standard makes of several runs: names with signs
// between their words, numbers with signs, numbers with the word before or the
// unit after, and dates. The runs are terms, too. A compound omits signs that
// people omit, so that rate_limit, rate-limit, and rateLimit share a term. As
// compounds repeat other terms, the length of a document does not count them.

// maxJoined is the largest number of words in a name that is one term. A longer
// name gives only pairs of adjacent words.
const maxJoined = 8

// joins are the characters that join two words if one of them is all that
// separates the words.
var joins = [256]bool{'_': true, '-': true, '.': true, '/': true, ':': true, '\\': true, '@': true, '&': true}

// compound reports whether compounds may begin with run i.
func (s *Scanner) compound(i int) bool {
	start, end := s.edges[i], s.edges[i+1]
	return s.buf[start] <= '9' || s.buf[end] != ' ' && (s.isJoined(i) || end-start == 1)
}

// isJoined reports whether one joining character separates run i and the next.
func (s *Scanner) isJoined(i int) bool {
	return i+4 <= len(s.edges) && s.edges[i+2]-s.edges[i+1] == 1 && joins[s.buf[s.edges[i+1]]]
}

// compounds emits the compounds of run i and the runs that are joined to it. It
// returns the first run that is not.
func (s *Scanner) compounds(i int, emit func([]byte)) (next int) {
	first := i
	s.atoms = s.atoms[:0]
	for {
		start, end := s.edges[i], s.edges[i+1]
		if !IsASCII(s.buf[start:end]) {
			break
		}
		if s.buf[start] <= '9' {
			if last := s.date(i, emit); last > 0 {
				i = last
				break
			}
			if last := s.thousands(i, emit); last > 0 {
				i = last
				break
			}
		}
		i, start, end = s.number(i, emit)
		s.atoms = append(s.atoms, start, end)
		if !s.isJoined(i) {
			s.measure(i, start, end, emit)
			break
		}
		i += 2
	}
	if len(s.atoms) == 2 {
		s.sharp(s.atoms[0], s.atoms[1], emit)
		s.elided(i, emit)
	}
	if len(s.atoms) > 0 {
		s.numbered(first, s.atoms[1], emit)
	}
	s.joined(emit)
	return i + 2
}

// joined emits each two adjacent atoms as one term, and all of them if they are a
// name.
func (s *Scanner) joined(emit func([]byte)) {
	n := len(s.atoms)
	for i := 2; i < n; i += 2 {
		a, b := s.buf[s.atoms[i-2]:s.atoms[i-1]], s.buf[s.atoms[i]:s.atoms[i+1]]
		if len(a)+len(b) <= maxRun && (len(a)+len(b) > 2 || n == 4) {
			s.emitJoined(emit, a, b)
		}
	}
	if n <= 4 || n > 2*maxJoined {
		return
	}
	s.join = s.join[:0]
	for i := 0; i < n; i += 2 {
		if sign := s.buf[s.atoms[i+1]]; i+2 < n && sign != '_' && sign != '-' && sign != '.' {
			return // a path
		}
		s.join = append(s.join, s.buf[s.atoms[i]:s.atoms[i+1]]...)
	}
	if len(s.join) <= maxRun {
		s.emitJoined(emit, s.join, nil)
	}
}

// emitJoined emits the stem of a and b as one word.
func (s *Scanner) emitJoined(emit func([]byte), a, b []byte) {
	s.join = appendASCIILower(appendASCIILower(s.join[:0], a), b)
	s.extra++
	s.uni.stem(s.join, emit)
}

// number emits the number of several runs that starts in run i, such as a version,
// a decimal, an address, or a time: without letters, with the letters after it,
// and, unless they are a v, with the letters before it. It emits no number of more
// than maxRun bytes. It returns the number's last run, start, and end. If there is
// no such number, these are run i.
func (s *Scanner) number(i int, emit func([]byte)) (last int, start, end uint32) {
	start, end = s.edges[i], s.edges[i+1]
	digits := end // start of the digits that end the run
	for digits > start && digit(s.buf[digits-1]) {
		digits--
	}
	sign := s.buf[end]
	if digits == end || end-start > maxRun || sign != '.' && sign != ':' {
		return i, start, end
	}
	first, bare := i, end
	for bare == end && s.buf[end] == sign && s.isJoined(i) && digit(s.buf[end+1]) && IsASCII(s.buf[s.edges[i+2]:s.edges[i+3]]) {
		i += 2
		end = s.edges[i+1]
		bare = s.edges[i]
		for digit(s.buf[bare]) {
			bare++
		}
	}
	if i == first || end-start > maxRun {
		return i, start, end
	}
	s.emitJoined(emit, s.buf[digits:bare], nil)
	if bare < end {
		s.emitJoined(emit, s.buf[digits:end], nil)
	}
	if digits > start {
		if digits == start+1 && s.buf[start]|0x20 == 'v' {
			start = digits
		} else {
			s.emitJoined(emit, s.buf[start:bare], nil)
		}
	}
	return i, start, end
}

// thousands emits a number with commas between thousands that starts in run i,
// without the commas. It returns the number's last run, or 0 if there is no such
// number.
func (s *Scanner) thousands(i int, emit func([]byte)) (last int) {
	start, end := s.edges[i], s.edges[i+1]
	if end-start > 3 || s.buf[end] != ',' || !allDigits(s.buf[start:end]) {
		return 0
	}
	s.join = append(s.join[:0], s.buf[start:end]...)
	for i+4 <= len(s.edges) && s.buf[end] == ',' && s.edges[i+2] == end+1 && s.edges[i+3] == end+4 && allDigits(s.buf[end+1:end+4]) {
		i += 2
		end = s.edges[i+1]
		if len(s.join) < maxRun {
			s.join = append(s.join, s.buf[end-3:end]...)
		}
	}
	if len(s.join) <= 3 {
		return 0
	}
	s.extra++
	emit(s.join)
	return i
}

// numbered emits the number from run i to end joined with the word before it: HTTP
// 404 is also written HTTP404.
func (s *Scanner) numbered(i int, end uint32, emit func([]byte)) {
	start := s.edges[i]
	if i < 2 || s.edges[i-1]+1 != start || s.buf[start-1] != ' ' || end-start > maxRun || !dottedDigits(s.buf[start:end]) {
		return
	}
	word := s.buf[s.edges[i-2]:s.edges[i-1]]
	if len(word) < 2 || len(word) > 16 {
		return
	}
	s.join = appendASCIILower(s.join[:0], word)
	if !lowerCaseWord(s.join) || plainStop[string(s.join)] {
		return
	}
	s.join = append(s.join, s.buf[start:end]...)
	s.extra++
	emit(s.join)
}

// units follow a number with or without a space.
var units = wordSet([]string{
	"b", "kb", "mb", "gb", "tb", "pb", "kib", "mib", "gib", "tib", "pib", "bit", "kbit", "mbit", "gbit", "bps", "kbps", "mbps", "gbps",
	"ns", "us", "ms", "s", "sec", "min", "h", "hr", "hz", "khz", "mhz", "ghz", "fps", "rpm", "rps", "qps", "db", "dpi", "px", "em", "pt",
	"mg", "g", "kg", "t", "lb", "lbs", "oz", "nm", "mm", "cm", "m", "km", "ft", "mi", "ml", "l", "mw", "w", "kw", "kwh", "wh", "mah",
	"mv", "v", "kv", "ma", "pa", "kpa", "mpa", "bar", "k", "c", "f", "j", "kj", "kcal", "cal", "eur", "usd", "gbp", "chf",
})

// measure emits the number that ends in run i joined with the unit after it.
func (s *Scanner) measure(i int, start, end uint32, emit func([]byte)) {
	if i+4 > len(s.edges) || s.buf[end] != ' ' || s.edges[i+2] != end+1 || end-start > maxRun || !dottedDigits(s.buf[start:end]) {
		return
	}
	unit := s.buf[s.edges[i+2]:s.edges[i+3]]
	if len(unit) > len("kcal") {
		return
	}
	s.join = appendASCIILower(s.join[:0], unit)
	if units[string(s.join)] {
		s.emitJoined(emit, s.buf[start:end], unit)
	}
}

// elided emits a surname that begins with a letter and an apostrophe, in run i, as one
// word: people also write O'Neill as ONeill.
func (s *Scanner) elided(i int, emit func([]byte)) {
	start, end := s.edges[i], s.edges[i+1]
	if end-start != 1 || s.buf[end] != '\'' || i+4 > len(s.edges) || s.edges[i+2] != end+1 {
		return
	}
	if name := s.buf[end+1 : s.edges[i+3]]; len(name) > 2 && len(name) <= maxRun && upperCase(name[0]) && IsASCII(name) {
		s.emitJoined(emit, s.buf[start:end], name)
	}
}

// sharp emits a name of one letter and signs: C++, F#.
func (s *Scanner) sharp(start, end uint32, emit func([]byte)) {
	if end-start != 1 || digit(s.buf[start]) {
		return
	}
	switch {
	case s.buf[end] == '#':
		end++
	case s.buf[end] == '+' && s.buf[end+1] == '+':
		end += 2
	default:
		return
	}
	s.join = appendASCIILower(s.join[:0], s.buf[start:end])
	s.extra++
	emit(s.join)
}

func allDigits(b []byte) bool {
	for _, c := range b {
		if !digit(c) {
			return false
		}
	}
	return true
}

func dottedDigits(b []byte) bool {
	for _, c := range b {
		if !digit(c) && c != '.' {
			return false
		}
	}
	return true
}
