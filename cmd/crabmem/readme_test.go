package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"crabmem/cmd/crabmem/internal/cli"
)

var updateTour = flag.Bool("tour.update", false, "draw testdata/tour.svg")

func document(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	fence  = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```")
	called = regexp.MustCompile(`(?:^|[ |;&(])crabmem (?:--[a-z-]+ )*([a-z]+)(?: ([a-z]+))?`)
	aTest  = regexp.MustCompile("`(Test\\w+)`")
)

// checkCommands reports each command in a text that does not exist, and counts commands.
func checkCommands(t *testing.T, name, text string) (found int) {
	known := map[string]bool{"help": true}
	families := map[string]bool{}
	for _, cmd := range withSubcommands(newApp(nil, nil, nil).commands()) {
		known[cmd.CommandPath()] = true
		families[cmd.CommandPath()] = cmd.HasSubCommands()
	}
	for line := range strings.Lines(text) {
		for _, m := range called.FindAllStringSubmatch(strings.TrimSpace(strings.TrimPrefix(line, "$ ")), -1) {
			found++
			if sub := m[1] + " " + m[2]; !known[m[1]] || families[m[1]] && m[2] != "" && !known[sub] {
				t.Errorf("%s: there is no command %s: %s", name, sub, line)
			}
		}
	}
	return found
}

// TestREADME checks the README's commands, tests, and size.
func TestREADME(t *testing.T) {
	text := document(t, "README.md")
	if len(text) > 9<<10 {
		t.Errorf("README.md has %d bytes, want at most 9 KiB", len(text))
	}
	ran := 0
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		ran += checkCommands(t, "README.md", block[2])
	}
	var names []string
	for _, s := range sources(t) {
		if s.test {
			for _, m := range testFunc.FindAllStringSubmatch(document(t, s.name), -1) {
				names = append(names, m[1])
			}
		}
	}
	tests := aTest.FindAllStringSubmatch(text, -1)
	for _, m := range tests {
		if !slices.Contains(names, m[1]) {
			t.Errorf("README.md: there is no %s", m[1])
		}
	}
	if ran < 6 || len(tests) < 5 {
		t.Errorf("README.md has %d commands and %d tests", ran, len(tests))
	}
}

// TestStartPage checks the output of crabmem without arguments.
func TestStartPage(t *testing.T) {
	out, diag, code := answer([]string{}...) // nil would mean the test's own arguments
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if code != 0 || diag != "" || len(lines) > 25 || checkCommands(t, "the start page", strings.Join(lines[1:], "\n")) < 8 {
		t.Errorf("exit code %d, %d lines, %q:\n%s", code, len(lines), diag, out)
	}
	for _, line := range lines {
		if cli.Columns(line) > 80 {
			t.Errorf("%d columns: %s", cli.Columns(line), line)
		}
	}
}

var (
	aLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	aTitle = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noID   = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// TestDocumentLinks checks that the files and the sections exist to which documents link.
func TestDocumentLinks(t *testing.T) {
	checked := 0
	for _, pattern := range []string{"*.md", "*/*.md", "crmem/*/README.md", ".github/*.md"} {
		files, err := filepath.Glob(filepath.Join(top, filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range aLink.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
				path, section, _ := strings.Cut(m[1], "#")
				if strings.Contains(path, "://") || filepath.Base(file) == "THIRD_PARTY.md" {
					continue
				}
				checked++
				to := file
				if path != "" {
					to = filepath.Join(filepath.Dir(file), filepath.FromSlash(path))
				}
				b, err := os.ReadFile(to)
				if err != nil && section != "" || !exists(to) {
					t.Errorf("%s: the link to %s leads to no file", file, m[1])
				} else if section != "" && !slices.ContainsFunc(aTitle.FindAllStringSubmatch(string(b), -1), func(title []string) bool {
					return strings.ReplaceAll(noID.ReplaceAllString(strings.ToLower(title[1]), ""), " ", "-") == section
				}) {
					t.Errorf("%s: the link to %s leads to no section", file, m[1])
				}
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d links were checked", checked)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

var (
	aDate = regexp.MustCompile(`\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d UTC)?`)
	word  = regexp.MustCompile(`"([^"]*)"|(\S+)`)
)

// A step is a command and its output.
type step struct{ line, want, got string }

// consoleOf runs a console's commands in order, on one new store. Each date is 2026-11-21.
func consoleOf(t *testing.T, text string) (steps []step) {
	t.Helper()
	dir := t.TempDir()
	for part := range strings.SplitSeq("\n"+text, "\n$ ") {
		line, want, _ := strings.Cut(part, "\n")
		args := word.FindAllStringSubmatch(line, -1)
		if len(args) == 0 || args[0][2] != "crabmem" {
			continue
		}
		words := []string{"--db", filepath.Join(dir, "memory.db")}
		for _, m := range args[1:] {
			words = append(words, m[1]+m[2])
		}
		var out, diag bytes.Buffer
		if err := newApp(strings.NewReader(""), &out, &diag).execute(context.Background(), words); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, diag.String())
		}
		got := aDate.ReplaceAllStringFunc(out.String(), func(date string) string { return ("2026-11-21 09:30:00 UTC")[:len(date)] })
		steps = append(steps, step{line, strings.TrimRight(want, " \n"), strings.TrimRight(got, " \n")})
	}
	return steps
}

// TestConsoles runs the commands of documents, and compares the outputs that they show.
func TestConsoles(t *testing.T) {
	for _, name := range []string{"README.md", "crmem/metadata/README.md"} {
		compared := 0
		for _, block := range fence.FindAllStringSubmatch(document(t, name), -1) {
			if block[1] != "console" {
				continue
			}
			for _, s := range consoleOf(t, block[2]) {
				if s.want == "" {
					continue
				}
				compared++
				if s.got != s.want {
					t.Errorf("%s: %s\n got %s\nwant %s", name, s.line, s.got, s.want)
				}
			}
		}
		if compared == 0 {
			t.Errorf("%s shows no output", name)
		}
	}
}

// TestTour draws testdata/tour.svg again: a terminal with the commands in testdata/tour.txt.
func TestTour(t *testing.T) {
	const row, edge = 20, 16 // pixels; a column has 8.4
	var lines []string
	for _, s := range consoleOf(t, document(t, "testdata/tour.txt")) {
		lines = append(lines, `<tspan class="p">$ </tspan><tspan class="c">`+html.EscapeString(s.line)+`</tspan>`)
		for line := range strings.Lines(s.got) {
			lines = append(lines, html.EscapeString(strings.TrimSuffix(line, "\n")))
		}
		lines = append(lines, "")
	}
	lines = lines[:len(lines)-1]
	var b strings.Builder
	width, height := 84*42/5+2*edge, len(lines)*row+2*edge
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>Commands of crabmem and their output</title>
<style>text { font: 14px ui-monospace, Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre } .p { fill: #88c0d0 } .c { fill: #fff; font-weight: 600 }</style>
<rect width="100%%" height="100%%" rx="8" fill="#1f2430"/>
`, width, height, width, height)
	for i, line := range lines {
		if line != "" {
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" xml:space=\"preserve\">%s</text>\n", edge, edge+i*row+row*3/4, line)
		}
	}
	b.WriteString("</svg>\n")
	file := filepath.Join(top, "testdata", "tour.svg")
	if *updateTour {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if document(t, "testdata/tour.svg") != b.String() {
		t.Error("testdata/tour.svg is out of date: run go test ./cmd/crabmem -run TestTour -tour.update")
	}
}
