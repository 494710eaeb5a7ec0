package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	aDate = regexp.MustCompile(`\d{4}-\d\d-\d\d`)
	word  = regexp.MustCompile(`"([^"]*)"|(\S+)`)
)

// TestREADMESession runs the README's console in order, on one new store, and
// compares the output. Any date matches a date. A command without output in the
// README may print anything.
func TestREADMESession(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(top, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "```console\n")
	block, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("README.md has no console block")
	}
	dir := t.TempDir()
	ran, compared := 0, 0
	for i, part := range strings.Split("\n"+block, "\n$ ") {
		line, want, _ := strings.Cut(part, "\n")
		line, _, _ = strings.Cut(line, "  #")
		args := word.FindAllStringSubmatch(line, -1)
		if i == 0 || len(args) == 0 || args[0][2] != "crabmem" {
			continue
		}
		var words []string
		for _, m := range args[1:] {
			w := m[1] + m[2]
			if w == "brain" {
				w = filepath.Join(dir, w)
			}
			words = append(words, w)
		}
		var out, diag bytes.Buffer
		c := newApp(strings.NewReader(""), &out, &diag)
		if err := c.execute(context.Background(), append([]string{"--db", filepath.Join(dir, "memory.db")}, words...)); err != nil {
			t.Fatalf("crabmem %q: %v\n%s", words, err, diag.String())
		}
		ran++
		want = strings.TrimSpace(want)
		if want == "" {
			continue
		}
		compared++
		same := func(s string) string { return strings.TrimSpace(aDate.ReplaceAllString(s, "DATE")) }
		if got := same(out.String()); got != same(want) {
			t.Errorf("%s\n got %s\nwant %s", line, got, same(want))
		}
	}
	if ran < 5 || compared < 2 {
		t.Errorf("ran %d commands of the README, compared the output of %d", ran, compared)
	}
}
