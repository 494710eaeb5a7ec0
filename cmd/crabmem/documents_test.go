package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reference matches a path in a document, in backquotes, and after a # an
// identifier in that file.
var reference = regexp.MustCompile("`([A-Za-z0-9_.]+(?:/[A-Za-z0-9_.]+)*)(?:#([A-Za-z0-9_]+))?`")

// TestDocuments checks that the files and identifiers that the documents for
// contributors name exist.
func TestDocuments(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(top, ".github", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reference.FindAllStringSubmatch(string(text), -1) {
			path, identifier := m[1], m[2]
			first, _, nested := strings.Cut(path, "/")
			if !nested || !slices.Contains(append([]string{".ci", ".github"}, topLevel...), first) || strings.Contains(path, "NAME") {
				continue
			}
			checked++
			if _, err := os.Stat(filepath.Join(top, path)); err != nil {
				t.Errorf("%s names %s: %v", filepath.Base(name), path, err)
			} else if identifier != "" && !namesIdentifier(t, path, identifier) {
				t.Errorf("%s names %s, which %s does not contain", filepath.Base(name), identifier, path)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d references were checked", checked)
	}
}

func namesIdentifier(t *testing.T, path, identifier string) bool {
	text, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`\b` + identifier + `\b`).Match(text)
}
