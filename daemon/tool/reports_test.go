package tool

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"crabmem/fuzz/golden"
)

// abridged is a text, or its ends and a digest.
func abridged(s string) string {
	if len(s) <= 400 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return strings.ToValidUTF8(fmt.Sprintf("%s … %s %d bytes %x", s[:120], s[len(s)-120:], len(s), sum[:4]), "?")
}

// outputTexts are texts of files and of commands.
func outputTexts() []string {
	texts := []string{"", "a", "a\n", "a\nb", "a\r\nb\r\n", "a\rb", "\n\n\n", "\r\n", "\x1b[0m\t\b\f\x7f", "\"\\\n\r", "<&>\u2028", "\xff", "é\xc3", "\xe2\x82", "\xf0\x9f\x98", "a\xf0\x9f\x98b", "\xed\xa0\x80", "\xc0\xaf", "日本語😀", "a" + strings.Repeat("😀", 1000), strings.Repeat("\x80", 3000),
		strings.Repeat("line\n", 2500), strings.Repeat("é", 40_000), strings.Repeat("\x01", 20_000), strings.Repeat("\xff", 30_000), strings.Repeat("long ", 20_000) + "\nnext\n", "first\n" + strings.Repeat("x", 100_000) + "\nlast"}
	for _, n := range []int{-3, -2, -1, 0, 1, 2, 3} {
		texts = append(texts, strings.Repeat("x", readOutput-3+n), strings.Repeat("y", readOutput+n)+"\nz", strings.Repeat("x", MaxOutput/2+n), strings.Repeat("日", (MaxOutput-128)/3+n), strings.Repeat("ab\n", (readOutput-10)/9)+strings.Repeat("w", 12+n))
	}
	return texts
}

// TestReportsOfOutputs compares how texts are shown, in parts and cut, however they
// arrive.
func TestReportsOfOutputs(t *testing.T) {
	var r golden.Reports
	for i, text := range outputTexts() {
		for _, piece := range []int{1, 7, 4096, 1 << 20} {
			if piece == 1 && len(text) > 1000 {
				continue
			}
			for _, part := range [][2]int{{1, readLines}, {1, 1}, {2, 1}, {2, 3}, {3, readLines}, {2500, 5}, {2501, 5}, {9000, 1}} {
				v := &view{first: part[0], limit: part[1]}
				for s := text; len(s) > 0; s = s[min(piece, len(s)):] {
					if n, err := v.Write([]byte(s[:min(piece, len(s))])); n != min(piece, len(s)) || err != nil {
						t.Fatalf("write: %d, %v", n, err)
					}
				}
				r.Add(fmt.Sprintf("text %d in pieces of %d, lines %d", i, piece, part), abridged(v.text()))
			}
			for _, size := range []int{2, 3, 10, 64, 65, 1000, 50_000} {
				c := &capture{max: size}
				for s := text; len(s) > 0; s = s[min(piece, len(s)):] {
					if n, err := c.Write([]byte(s[:min(piece, len(s))])); n != min(piece, len(s)) || err != nil {
						t.Fatalf("write: %d, %v", n, err)
					}
				}
				for _, budget := range []int{0, 1, 63, 64, 65, 70, 71, 200, 5000, 100_000} {
					got := c.text(budget)
					r.Add(fmt.Sprintf("text %d in pieces of %d, %d kept, budget %d", i, piece, size, budget), fmt.Sprintf("%q", abridged(got)))
				}
				if size >= 1000 {
					for _, stderr := range []string{"", "error\n", strings.Repeat("e", 40_000), strings.Repeat("\x01", 9000)} {
						e := &capture{max: size}
						e.Write([]byte(stderr))
						got := bashResult(i-3, c, e)
						if len(got) > MaxOutput {
							t.Errorf("text %d: a result of %d bytes", i, len(got))
						}
						r.Add(fmt.Sprintf("text %d, %d kept, result with %d bytes of errors", i, size, len(stderr)), abridged(got))
					}
				}
			}
		}
		b := []byte(text[:min(len(text), 3000)])
		report := fmt.Sprintf("%d %q %q %v %q", jsonLen(b), abridged(lossy(b)), abridged(string(appendJSON(nil, lossy(b)))), windowsLines(b), abridged(string(toWindows(b))))
		for budget := range 12 {
			report += fmt.Sprint(" ", fits(b, budget), " ", len(b)-fitsBack(b, budget))
		}
		r.Add(fmt.Sprintf("text %d", i), report)
	}
	if n, err := (&view{first: 1, limit: 1}).Write([]byte("a\x00")); n != 0 || err != errBinary {
		t.Errorf("a NUL byte: %d, %v", n, err)
	}
	r.Compare(t, "testdata/reports/outputs.txt.gz")
}

// TestReportsOfArguments compares which arguments are refused, and how the place is
// named.
func TestReportsOfArguments(t *testing.T) {
	var r golden.Reports
	random := rand.New(rand.NewPCG(8, 8))
	pieces := []string{"{", "}", "[", "]", ",", ":", `"a"`, `"key"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\u0041"`, `"\ud83dx"`, `"\u00e9"`, `"\\"`, `"\""`, "\"\xff\"", "\"é\"", `"`, "1", "null", " ", `"\ud8`, `\`, `"\uD83D\uDE00x"`, `"` + strings.Repeat("n", 100) + `"`}
	for range 6000 {
		var b strings.Builder
		if random.IntN(2) == 0 {
			b.WriteString([]string{`{"a":`, `[`, `{"tasks":[{"agent":"b"},{"agent":`, `{"` + strings.Repeat("long", 80) + `":{"x":`, `[[[`, `{"a":1,"b":2,`}[random.IntN(6)])
		}
		for range 1 + random.IntN(7) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		r.Add(abridged(fmt.Sprintf("%q", b.String())), fmt.Sprint(CheckArguments([]byte(b.String()))))
	}
	codes := []string{"", "\\ud7ff", "\\ud800", "\\ud801", "\\uDBFF", "\\udc00", "\\udc01", "\\uDFFF", "\\ue000", "\\ud80", "\\ud80g", "\x80", "\xc2\x80", "x"}
	for _, first := range codes {
		for _, second := range codes {
			for _, end := range []string{"", `"`, `"}`} {
				s := `{"a":"` + first + second + end
				r.Add(fmt.Sprintf("%q", s), fmt.Sprint(CheckArguments([]byte(s))))
			}
		}
	}
	for _, n := range []int{maxNesting - 1, maxNesting, maxNesting + 1} {
		r.Add(fmt.Sprint(n, " levels"), fmt.Sprint(CheckArguments([]byte(strings.Repeat("[", n)))))
		r.Add(fmt.Sprint(n, " levels of objects"), fmt.Sprint(CheckArguments([]byte(strings.Repeat(`{"a":`, n)+"\"\xff\""))))
	}
	for n := 240; n < 270; n++ {
		r.Add(fmt.Sprint("path of ", n), fmt.Sprint(CheckArguments([]byte(strings.Repeat("[", n/3)+`{"`+strings.Repeat("k", n%40)+`":"\ud800"`))))
	}
	r.Compare(t, "testdata/reports/arguments.txt.gz")
}

// TestReportsOfScopes compares what the scope of each grant allows, alone, of a remote
// user, and in the intersection with the others.
func TestReportsOfScopes(t *testing.T) {
	var r golden.Reports
	names := []string{Bash, Read, Edit, AskUser, Delegate, Skill, MCP, Recall, Remember, Forget, SessionSearch, "other", "re", "b*", "*", ""}
	describe := func(s Scope) string {
		var b strings.Builder
		for _, check := range []func(string) error{s.Tool, s.Skill, s.Server, s.Member} {
			for _, name := range names {
				if check(name) == nil {
					b.WriteString("+")
				} else {
					b.WriteString("-")
				}
			}
			b.WriteString(" ")
		}
		fmt.Fprintf(&b, "%v %q", s.Confined, s.Prompt())
		for _, l := range []List{s.Tools, s.Skills, s.MCPs, s.Members} {
			fmt.Fprintf(&b, " %v %v %v", l.All(), l.empty(), l.Names())
		}
		return b.String()
	}
	lists := [][]string{nil, {Bash}, {"re*", Edit}, {"*"}, {Skill, MCP, "b*"}, {"other", "other", "re"}}
	var scopes []Scope
	for i, tools := range lists {
		for j, skills := range lists[:4] {
			for k, mcps := range lists[:4] {
				for m, members := range lists[:3] {
					for n, bash := range []string{"", "base", "listed", "never"} {
						g := Grant{Tools: tools, Skills: skills, MCPs: mcps, Members: members, Default: (i+j)%2 == 0, NoMemory: (k+m+n)%3 == 0, Bash: bash}
						s := For(g)
						r.Add(fmt.Sprintf("%+v", g), describe(s))
						if (i+j+k+m+n)%5 == 0 {
							scopes = append(scopes, s)
						}
					}
				}
			}
		}
	}
	random := rand.New(rand.NewPCG(9, 9))
	for range 1500 {
		a, b := scopes[random.IntN(len(scopes))], scopes[random.IntN(len(scopes))]
		r.Add(fmt.Sprintf("%v and %v", a, b), describe(a.Intersect(b)))
	}
	r.Add("unbounded", describe(Unbounded())+describe(Scope{}))
	for _, kind := range []string{"tool", "skill", "mcp", "member", "other"} {
		r.Add(kind, (&Violation{Kind: kind, Name: "name"}).Error())
	}
	r.Compare(t, "testdata/reports/scopes.txt.gz")
}
