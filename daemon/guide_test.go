package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuide compares the examples of GUIDE.md with files that tests run. A
// comment before each block names the file, from the root of the module. Each
// line of the block is part of a line of the file, in the same order.
func TestGuide(t *testing.T) {
	const top = ".."
	guide, err := os.ReadFile("GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	var source, name string
	var rest []string // lines of the file after the last match
	blocks, inside := 0, false
	for i, line := range strings.Split(string(guide), "\n") {
		switch {
		case strings.HasPrefix(line, "```") && inside:
			inside, name = false, ""
		case strings.HasPrefix(line, "```"):
			inside = true
			blocks++
			if name == "" {
				t.Fatalf("GUIDE.md:%d: no comment names the file of this block", i+1)
			}
			if !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "testdata/script/") {
				t.Fatalf("GUIDE.md:%d: no test runs %s", i+1, name)
			}
			b, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			source = name
			rest = strings.Split(string(b), "\n")
		case inside:
			want := strings.TrimPrefix(strings.TrimSpace(line), "$ ")
			at := 0
			for at < len(rest) && !strings.Contains(rest[at], want) {
				at++
			}
			if at == len(rest) {
				t.Fatalf("GUIDE.md:%d: %s does not contain, after the line before: %s", i+1, source, want)
			}
			rest = rest[at+1:]
		case strings.HasPrefix(line, "<!-- "):
			name = strings.TrimSuffix(strings.TrimPrefix(line, "<!-- "), " -->")
		}
	}
	if inside || blocks < 10 {
		t.Errorf("GUIDE.md: %d blocks, last one open: %v", blocks, inside)
	}
}
