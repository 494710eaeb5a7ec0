package bm25

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestStart compares the first bytes that a reader looks for because of a term. A
// zero is any third byte.
func TestStart(t *testing.T) {
	for term, want := range map[string][]string{
		"x": {"x"}, "7": {"7"}, "@": {"@"}, "ab": {"ab?"}, "b7": {"b7?"}, "abc": {"abc"}, "abcd": {"abc"}, "abci": {"abc"},
		"fli": {"fli", "fly"}, "flier": {"fli", "fly"}, "fly": {"fly"}, "café": {"caf"},
	} {
		r, starts, single := &reader{}, startSet{}, [4]uint64{}
		r.start([]byte(term))
		for _, first := range want {
			key := uint32(first[0])
			if len(first) == 1 {
				single[key/64] |= 1 << (key % 64)
				continue
			}
			key |= uint32(first[1]) << 8
			for third := range uint32(256) {
				if first[2] == '?' || uint32(first[2]) == third {
					starts.add(key | third<<16)
				}
			}
		}
		if r.starts != starts || r.single != single {
			t.Errorf("%q: single %b, want %b; starts equal: %v", term, r.single, single, r.starts == starts)
		}
	}
}

// prepared sets a reader up for a query.
func prepared(s *searcher, x *Index, query string) *reader {
	s.parse(x, Query{Text: query})
	s.reader.prepare(x.lexer, s.terms, query)
	return &s.reader
}

// ofQuery describes what a reader looks for.
func (r *reader) ofQuery() string {
	term := func(k int) string { return string(r.lexer.Dict().AppendTerm(nil, r.terms[k].id)) }
	var terms, words []string
	for k := range r.terms {
		terms = append(terms, fmt.Sprintf("%s=%s", term(k), r.surfaces[k]))
	}
	for _, w := range r.sequence {
		words = append(words, fmt.Sprintf("%s@%d", term(w.term), w.place))
	}
	lens := []int{len(r.first), len(r.last), len(r.exact), len(r.fields)}
	if slices.Min(lens) != len(r.terms) || slices.Max(lens) != len(r.terms) || len(r.distance) != len(r.sequence) {
		return fmt.Sprintf("%d terms, lists of %v; %d words, %d distances", len(r.terms), lens, len(r.sequence), len(r.distance))
	}
	return fmt.Sprintf("%v %v high %v", terms, words, r.high)
}

// TestPrepare compares what a reader looks for, new and after another query.
func TestPrepare(t *testing.T) {
	x := newIndex("alpha beta Gamma deployed e-mail don't x 7 東京都 naïve Казань mice fly", "a the of", "getUserName")
	many, manyTerms := "", "alpha"
	for i := range 70 {
		many += fmt.Sprintf(" w%cq%cz", 'a'+i/26, 'a'+i%26)
		if i < 64 {
			manyTerms += fmt.Sprintf(" w%cq%cz", 'a'+i/26, 'a'+i%26)
		}
	}
	x.Add(Doc{ID: 4, Fields: []string{many}})
	used := new(searcher)
	for _, c := range []struct{ query, want string }{
		{"alpha beta", "[alpha=alpha beta=beta] [alpha@1 beta@2] high false"},
		{"Beta, ALPHA", "[alpha=alpha beta=beta] [beta@1 alpha@2] high false"},
		{"", "[] [] high false"},
		{"alpha alpha beta alpha", "[alpha=alpha beta=beta] [alpha@1 alpha@2 beta@3 alpha@4] high false"},
		{"alpha unknown beta", "[alpha=alpha beta=beta] [alpha@1 beta@3] high false"},
		{"unknown", "[] [] high false"},
		{"deploying Deploys", "[deploy=deploys] [deploy@1 deploy@2] high false"},
		{"the alpha of a beta", "[alpha=alpha beta=beta] [alpha@2 beta@5] high false"},
		{"mice's beta", "[beta=beta mous=mice] [mous@1 beta@2] high false"},
		{"getUserName", "[get= getusernam=getusername name= user=] [getusernam@1] high false"},
		{"東京都 alpha", "[alpha=alpha] [alpha@6] high false"},
		{"naïve Казань 7 x", "[7=7 naiv=naïve x=x казан=казань] [naiv@1 казан@2 7@3 x@4] high false"},
		{"beta" + many, ""},
		{strings.Repeat("beta ", 63), "[beta=beta] [" + sequence(63) + "] high false"},
		{strings.Repeat("beta ", 64), "[beta=beta] [" + sequence(64) + "] high false"},
		{strings.Repeat("beta ", 65), "[beta=beta] [" + sequence(64) + "] high false"},
		// Only the first 8 KB of a query are read.
		{strings.Repeat(" ", 8187) + "alpha", "[alpha=alpha] [alpha@1] high false"},
		{strings.Repeat(" ", 8188) + "alpha", "[alpha=] [] high false"},
	} {
		got := prepared(new(searcher), x, c.query).ofQuery()
		if c.want != "" && got != c.want {
			t.Errorf("%.20q: %s, want %s", c.query, got, c.want)
		}
		again := prepared(used, x, c.query)
		fresh := prepared(new(searcher), x, c.query)
		if s := again.ofQuery(); s != got || again.starts != fresh.starts || again.single != fresh.single || again.highest != fresh.highest || again.at != fresh.at {
			t.Errorf("%.20q after another query: %s, want %s; starts equal: %v", c.query, s, got, again.starts == fresh.starts)
		}
		highest := 0.0
		for _, term := range used.terms {
			highest += (2.2 + 0.9 + 0.8) * term.idf
		}
		for _, w := range again.sequence {
			highest += 0.65 * again.terms[w.term].idf
		}
		if d := again.highest - highest; d > 1e-9 || d < -1e-9 {
			t.Errorf("%.20q: highest score %v, want %v", c.query, again.highest, highest)
		}
		if c.want == "" && (len(used.terms) < 65 || len(again.terms) != 64 || len(again.sequence) != 64) {
			t.Errorf("%.20q: %d terms, %d to find, %d words", c.query, len(used.terms), len(again.terms), len(again.sequence))
		}
	}
}

func sequence(n int) string {
	var words []string
	for i := range n {
		words = append(words, fmt.Sprintf("beta@%d", i+1))
	}
	return strings.Join(words, " ")
}

// ofText describes what a reader found in a document: by term its first position,
// field, latest position in the last field, and "=" if the spelling is that of the
// query; then the distances.
func (r *reader) ofText() string {
	var b strings.Builder
	for k := range r.terms {
		fmt.Fprintf(&b, "%d.%d,%d%s ", r.fields[k], r.first[k], r.last[k], map[bool]string{true: "="}[r.exact[k]])
	}
	for i, d := range r.distance {
		if d == differentFields {
			b.WriteString("- ")
		} else {
			fmt.Fprintf(&b, "%d:%d ", i, d)
		}
	}
	return b.String() + fmt.Sprint(r.at)
}

// TestReadTexts compares what a reader finds in texts. Searches compare texts of a
// document one after another.
func TestReadTexts(t *testing.T) {
	x := newIndex("alpha beta Gamma deployed e-mail don't x 7 東京都 naïve Казань mice ivy", "a the of", "getUserName")
	spaces := strings.Repeat(" ", 8187)
	for _, c := range []struct {
		query string
		texts []string
		want  string
	}{
		{"alpha", []string{""}, "0.0,0 - 0"},
		{"alpha", []string{"alpha"}, "0.1,1= - 1"},
		{"alpha", []string{"", "x Alpha alpha"}, "1.2,3= - 3"},
		{"alpha beta", []string{"alpha", "beta"}, "0.1,0= 1.2,2= - - 2"},
		{"alpha beta", []string{"alpha beta"}, "0.1,1= 0.2,2= 0:1 - 2"},
		{"alpha beta", []string{"beta alpha"}, "0.2,2= 0.1,1= 0:1 - 2"},
		{"alpha beta", []string{"alpha x x beta x x x alpha"}, "0.1,8= 0.4,4= 0:3 - 8"},
		{"alpha beta", []string{"beta x alpha", "x alpha x x beta"}, "0.3,5= 0.1,8= 0:2 - 8"},
		{"alpha x x beta", []string{"alpha x beta"}, "0.1,1= 0.3,3= 0.2,2= 0:1 - 2:1 - 3"},
		{"alpha the of beta", []string{"alpha no no no beta"}, "0.1,1= 0.5,5= 0:2 - 5"},
		{"alpha the of beta", []string{"beta no no no alpha"}, "0.5,5= 0.1,1= 0:4 - 5"},
		{"alpha the of beta", []string{"alpha beta"}, "0.1,1= 0.2,2= 0:1 - 2"},
		{"alpha beta alpha", []string{"beta alpha no no no alpha"}, "0.2,6= 0.1,1= 0:1 1:1 - 6"},
		{"alpha alpha", []string{"alpha alpha"}, "0.1,2= - - 2"},
		// A contraction is no word.
		{"alpha", []string{"we'll've user's alpha"}, "0.3,3= - 3"},
		{"alpha", []string{"we'lll alpha"}, "0.3,3= - 3"},
		{"alpha", []string{"we ll alpha"}, "0.3,3= - 3"},
		// Words of other scripts and parts of names.
		{"alpha", []string{"東京都 alpha"}, "0.4,4= - 4"},
		{"alpha", []string{"Казань naïve alpha"}, "0.3,3= - 3"},
		{"казань", []string{"naïve КАЗАНЬ Казани"}, "0.2,3= - 3"},
		{"deploys", []string{"no deployed deploys"}, "0.2,3= - 3"},
		{"deploys", []string{"no deployed"}, "0.2,2 - 2"},
		{"name", []string{"no setUserName x"}, "0.2,2 - 3"},
		{"mouse", []string{"no mice x"}, "0.2,2 - 3"},
		{"ivy", []string{"no Ivies ivy"}, "0.2,3= - 3"},
		{"ivies", []string{"no ivy"}, "0.2,2 - 2"},
		{"x", []string{"xx X"}, "0.2,2= - 2"},
		{"7", []string{"no 7 77"}, "0.2,2= - 3"},
		// The first 8 KB of all texts are read.
		{"alpha", []string{spaces + "alpha"}, "0.1,1= - 1"},
		{"alpha", []string{spaces + " alpha"}, "0.0,0 - 1"},
		{"alpha", []string{spaces[1:], " alpha"}, "1.1,1= - 1"},
		{"alpha", []string{spaces, " alpha"}, "0.0,0 - 1"},
	} {
		r := prepared(new(searcher), x, c.query)
		for range 2 {
			if r.read(c.texts, 1); r.ofText() != c.want {
				t.Errorf("%q in %.30q: %s, want %s", c.query, c.texts, r.ofText(), c.want)
			}
			want := r.ofText()
			r.read([]string{"beta alpha", "alpha beta x 7 deploys mouse ivy казань"}, 1)
			r.read(c.texts, 1)
			if got := r.ofText(); got != want {
				t.Errorf("%q in %.30q after another text: %s, want %s", c.query, c.texts, got, want)
			}
		}
	}
}

// TestReadSkips checks that a reader analyzes a word only if a term of the query may
// begin like it. It notes each run that it analyzes in r.alone.
func TestReadSkips(t *testing.T) {
	r := prepared(new(searcher), newIndex("alpha"), "alpha")
	for text, want := range map[string]bool{"qqqqq": true, "alp": false, "alphabetic": false, "beta qqqqq the": true, "Alpine": false, "Qqqqq": true, "qQqqq": false, "qqqq7": false} {
		r.alone = true
		if r.read([]string{text}, 1); r.alone != want {
			t.Errorf("%q is skipped: %v, want %v", text, r.alone, want)
		}
	}
}

// TestTouch checks that re-ranking touches the first KB of each text in steps of 64
// bytes.
func TestTouch(t *testing.T) {
	long := []byte(strings.Repeat("\x00", 1200))
	for at := range long {
		if at%64 != 0 || at >= 1024 {
			long[at] = 101 // not touched
		}
	}
	long[0], long[64], long[960] = 3, 5, 7
	r := &reader{}
	r.touch([]string{string(long), "", string(long[:64]), string(long[:65])})
	if want := byte(3 + 5 + 7 + 3 + 3 + 5); r.touched != want {
		t.Errorf("touched: %d, want %d", r.touched, want)
	}
	x := newIndex("alpha", "alpha beta")
	s := new(searcher)
	q := Query{Text: "alpha", Texts: func(id uint64) []string { return []string{"\x05", "\x07"}[id-1:] }}
	s.parse(x, q)
	s.search(x, q)
	if want := byte(5 + 7 + 7); s.reader.touched != want {
		t.Errorf("a search touched: %d, want %d", s.reader.touched, want)
	}
}
