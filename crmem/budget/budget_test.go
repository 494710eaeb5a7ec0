package budget_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"crabmem/bm25/analysis"
	"crabmem/crmem/budget"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

var words = []string{"harbour", "light", "tide", "канат", "潮汐表", "bäcker", "e\u0301te\u0301", "👩‍💻", "🇫🇮", "नमस्ते", "v2.6.1", "—", "rope.",
	"signal", "`x`", `{"a":[1,2]}`, "ทดสอบ", "--", "각", "x_y", "lantern", "lanterns"}

func text(rng *rand.Rand, n int, code bool) string {
	var b strings.Builder
	for range n {
		switch k := rng.IntN(60); {
		case k == 0 && code:
			b.WriteString("\n```go\n")
			for range 1 + rng.IntN(40) {
				b.WriteString("\t" + words[rng.IntN(len(words))] + "()\r\n"[rng.IntN(3):])
			}
			b.WriteString("\n```\n")
		case k == 1 && code:
			b.WriteString("\n- item\n  ~~~\n  tilde\n  ~~~\n")
		case k < 6:
			b.WriteString("\n" + strings.Repeat("\n", rng.IntN(3)) + strings.Repeat(" ", rng.IntN(5)))
		default:
			b.WriteString(words[rng.IntN(len(words))] + []string{" ", " ", " ", "", ", "}[rng.IntN(5)])
		}
	}
	return b.String()
}

func entries(rng *rand.Rand, n int, code bool) []budget.Entry {
	list := make([]budget.Entry, n)
	for i := range list {
		list[i] = budget.Entry{
			Name:    fmt.Sprint(words[rng.IntN(len(words))], " ", i),
			Text:    text(rng, rng.IntN(10<<rng.IntN(8)), code),
			Weights: map[string]float64{"lantern": 2, "signal": 1},
		}
	}
	return list
}

// TestSpend selects from random entries with budgets of all sizes. The parts
// never exceed the budget, and texts are cut only at permitted positions.
func TestSpend(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		list := entries(rng, rng.IntN(12), true)
		tokens := 1 + rng.IntN(1<<(1+rng.IntN(13)))
		parts, used := budget.Spend(list, tokens, analysis.Standard)
		var all strings.Builder
		sum := 0
		for i, p := range parts {
			sum += p.Tokens
			all.WriteString(list[i].Name + "\n")
			if p.Text != "" {
				all.WriteString(p.Text + "\n")
			}
			if p.Whole != (p.Text == list[i].Text) {
				t.Errorf("seed %d: entry %d: Whole is %v", seed, i, p.Whole)
			}
			if !p.Whole && p.Text != "" {
				checkCut(t, fmt.Sprintf("seed %d, entry %d", seed, i), list[i].Text, p.Text)
			}
		}
		if used > tokens || sum != used {
			t.Errorf("seed %d: %d tokens used, %d in the parts, of %d", seed, used, sum, tokens)
		}
		if n := budget.Count(all.String()); n > tokens {
			t.Errorf("seed %d: %d tokens, want at most %d", seed, n, tokens)
		}
	}
}

// checkCut looks for a place in text that part may have been cut from.
func checkCut(t *testing.T, where, text, part string) {
	t.Helper()
	bare := part
	for _, mark := range []string{"…\n", "…"} {
		if rest, ok := strings.CutPrefix(bare, mark); ok {
			bare = rest
			break
		}
	}
	for _, mark := range []string{"\n…", "…"} {
		if rest, ok := strings.CutSuffix(bare, mark); ok {
			bare = rest
			break
		}
	}
	edges := map[int]bool{0: true}
	at := 0
	for g := graphemes.FromString(text); g.Next(); {
		at += len(g.Value())
		edges[at] = true
	}
	for from := 0; from <= len(text); from++ {
		i := strings.Index(text[from:], bare)
		if i < 0 {
			break
		}
		from += i
		to := from + len(bare)
		if edges[from] && edges[to] && !inCode(text[:from]) && !inCode(text[:to]) {
			return
		}
	}
	t.Errorf("%s: %q is cut out of %q", where, part, text)
}

// inCode reports whether a text ends in a block of code, as the texts of these
// tests have them.
func inCode(text string) bool {
	open := ""
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case open == "" && (line == "```go" || line == "~~~"):
			open = line[:3]
		case open != "" && line == open:
			open = ""
		}
	}
	return open != "" || strings.HasSuffix(text, "\n`") || strings.HasSuffix(text, "\n``")
}

// TestSpendFills finds little of a budget unused where there is enough to show.
func TestSpendFills(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	list := entries(rng, 10, false)
	list[7].Text = text(rng, 4000, false)
	total := 0
	for _, e := range list {
		total += budget.Count(e.Name+"\n") + budget.Count(e.Text+"\n")
	}
	for tokens := 200; tokens < 2*total; tokens += tokens / 5 {
		_, used := budget.Spend(list, tokens, analysis.Standard)
		if want := min(tokens, total); used < want*97/100 {
			t.Errorf("budget %d: only %d tokens of %d are used", tokens, used, want)
		}
	}
}

// TestSpendOrder raises the budget from one token: names come first, then
// snippets with matches, then complete texts.
func TestSpendOrder(t *testing.T) {
	hay := strings.Repeat("nothing of note happens on this quay. ", 30)
	list := []budget.Entry{
		{Name: "first", Text: hay + "The lantern is lit at dusk. " + hay},
		{Name: "second", Text: "A lantern."},
		{Name: "third", Text: hay + hay + "Oil for lanterns."},
	}
	for i := range list {
		list[i].Weights = map[string]float64{"lantern": 1}
	}
	total := 0
	for _, e := range list {
		total += budget.Count(e.Name+"\n") + budget.Count(e.Text+"\n")
	}
	for tokens := range total + 1 {
		parts, used := budget.Spend(list, tokens, analysis.Standard)
		if want := min(tokens/2, 3); len(parts) < min(want, 1) || tokens >= 16 && len(parts) != 3 {
			t.Errorf("budget %d: %d parts", tokens, len(parts))
		}
		for i, p := range parts {
			if p.Text != "" && !strings.Contains(p.Text, "antern") {
				t.Errorf("budget %d: part %d lacks the match: %q", tokens, i, p.Text)
			}
			if p.Text == "" && tokens >= 100 {
				t.Errorf("budget %d: part %d has no text", tokens, i)
			}
		}
		if tokens >= 100 && !parts[1].Whole {
			t.Errorf("budget %d: a short text is not complete", tokens)
		}
		if whole := tokens == total; len(parts) == 3 && (parts[0].Whole && parts[2].Whole) != whole {
			t.Errorf("budget %d of %d: complete is %v", tokens, total, !whole)
		}
		if used > tokens {
			t.Errorf("budget %d: %d tokens", tokens, used)
		}
	}
}

// TestSpendCode checks that a block of code is selected completely or omitted.
func TestSpendCode(t *testing.T) {
	hay := strings.Repeat("nothing of note happens on this quay. ", 30)
	small := "```sh\nlantern --oil\n```"
	large := "```sh\n" + strings.Repeat("lantern --oil\n", 200) + "```\n"
	weights := map[string]float64{"lantern": 2, "wick": 1}
	for _, c := range []struct{ text, want, never string }{
		{hay + "\n" + small + "\n" + hay, "\n" + small + "\n", "\x00"},
		{hay + "\n" + large + hay + "the wick " + hay, "the wick", "--oil"},
		{large + hay, "…\nnothing of note", "--oil"},
		{"Title\n" + large, "Title\n…", "--oil"},
		{hay + "\n" + large[:len(large)-4], "nothing of note", "\x00"},
		{large, "", "```"},
	} {
		parts, _ := budget.Spend([]budget.Entry{{Name: "n", Text: c.text, Weights: weights}}, 100, analysis.Standard)
		if got := parts[0].Text; !strings.Contains(got, c.want) || strings.Contains(got, c.never) || strings.Count(got, "```")%2 != 0 {
			t.Errorf("%.60q: %q, want %q in it", c.text, got, c.want)
		}
	}
}

func FuzzSpend(f *testing.F) {
	f.Add("name", "a text with a lantern\n```\ncode\n```\n漢字", "lantern", 12)
	f.Add("", "\n~~~\n", "", 1)
	f.Add("e\u0301", strings.Repeat("🇫🇮", 200)+"\r\n> ```", "x", 40)
	f.Fuzz(func(t *testing.T, name, text, term string, tokens int) {
		list := []budget.Entry{{Name: name, Text: text, Weights: map[string]float64{term: 1}}, {Name: text, Text: name + text + text}}
		parts, used := budget.Spend(list, tokens, analysis.Standard)
		if used > max(tokens, 0) {
			t.Errorf("%d tokens of %d", used, tokens)
		}
		for i, p := range parts {
			if utf8.ValidString(list[i].Text) && !utf8.ValidString(p.Text) {
				t.Errorf("not UTF-8: %q", p.Text)
			}
		}
	})
}
