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
		if filepath.Base(name) == "THIRD_PARTY.md" {
			continue // the licenses of other projects name their own files
		}
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

var (
	testCommand = regexp.MustCompile(`(?m)-run[ =](?:'([^'\n]*)'|(\S+))([^\n` + "`" + `]*)`)
	packagePath = regexp.MustCompile(`\./[a-z0-9/]+`)
	subtests    = regexp.MustCompile(`/\([^)]*\)|/[^|']*`)
	testName    = regexp.MustCompile(`[A-Za-z0-9_]+`)
	testFunc    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
)

// TestDocumentedTests checks that each alternative of -run in a document or in a
// script of .ci selects a test of a package on that line.
func TestDocumentedTests(t *testing.T) {
	checked := 0
	for _, pattern := range []string{"*/README.md", ".github/*.md", "*/DESIGN.md", "*/FORMAT.md", "*/GUIDE.md", ".ci/run", ".ci/full"} {
		names, err := filepath.Glob(filepath.Join(top, filepath.FromSlash(pattern)))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range testCommand.FindAllStringSubmatch(string(text), -1) {
				tests := testsOf(t, packagePath.FindAllString(m[3], -1))
				for _, alternative := range strings.Split(subtests.ReplaceAllString(m[1]+m[2], ""), "|") {
					want := testName.FindString(alternative)
					checked++
					if len(tests) > 0 && !slices.ContainsFunc(tests, func(have string) bool { return strings.Contains(have, want) }) {
						t.Errorf("%s: no test matches %q in %s", filepath.Base(name), alternative, m[3])
					}
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d names were checked", checked)
	}
}

// testsOf returns the names of the tests, fuzz targets, and examples in the
// directories.
func testsOf(t *testing.T, dirs []string) []string {
	var list []string
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(top, dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
				list = append(list, m[1])
			}
		}
	}
	return list
}
