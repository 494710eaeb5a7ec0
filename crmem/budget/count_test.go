package budget_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"crabmem/crmem/budget"
)

func read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestCountFixture compares counts with those of another implementation with
// the same vocabulary (testdata/counts.mjs).
func TestCountFixture(t *testing.T) {
	parts := make(map[string][]string)
	seen := 0
	for _, line := range strings.Split(strings.TrimSpace(read(t, "counts.tsv")), "\n")[1:] {
		f := strings.Split(line, "\t")
		file := f[0]
		if parts[file] == nil {
			text := read(t, file)
			parts[file] = append([]string{text}, strings.Split(text, "\n\n")...)
		}
		part, _ := strconv.Atoi(f[1])
		want, _ := strconv.Atoi(f[2])
		if got := budget.Count(parts[file][part]); got != want {
			t.Errorf("%s, part %d: %d tokens, want %d", file, part, got, want)
		}
		seen++
	}
	if seen < 90 || len(parts) != 5 {
		t.Errorf("%d counts of %d files", seen, len(parts))
	}
	lines := bufio.NewScanner(bytes.NewReader([]byte(read(t, "random.jsonl"))))
	for seen = 0; lines.Scan(); seen++ {
		var c struct {
			Text   string
			Tokens int
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if got := budget.Count(c.Text); got != c.Tokens {
			t.Errorf("%q: %d tokens, want %d", c.Text, got, c.Tokens)
		}
	}
	if seen != 300 {
		t.Errorf("%d random texts", seen)
	}
}

// TestCountLong counts texts that are too long to be counted in one go. Where
// they are joined a token begins, so the counts add up.
func TestCountLong(t *testing.T) {
	for _, file := range []string{"prose.txt", "code.txt", "json.txt", "cjk.txt", "world.txt"} {
		one := strings.TrimSpace(read(t, file)) + "\n"
		if got, want := budget.Count(strings.Repeat(one, 30)), 30*budget.Count(one); got != want {
			t.Errorf("%s thirty times: %d tokens, want %d", file, got, want)
		}
		flat := strings.Join(strings.Fields(one), " ")
		sum := 0
		for i, word := range strings.Fields(one) {
			if i > 0 {
				word = " " + word
			}
			sum += budget.Count(word)
		}
		if got := budget.Count(flat); got != sum {
			t.Errorf("%s without lines: %d tokens, its words %d", file, got, sum)
		}
	}
}

func BenchmarkCount(b *testing.B) {
	text := read(b, "prose.txt")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		budget.Count(text)
	}
}
