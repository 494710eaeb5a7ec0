package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/recall"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/daemon/op"
	"crabmem/testdata"
)

// writeBrain writes the sample brain into a directory.
func writeBrain(t *testing.T) string {
	t.Helper()
	d := &demo{c: newApp(strings.NewReader(""), nil, nil), dir: t.TempDir()}
	if err := d.copyBrain(""); err != nil {
		t.Fatal(err)
	}
	return d.brain()
}

// play runs the demo on a brain and returns its output, without the paths.
func play(t *testing.T, brain string) string {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"demo"}
	if brain != "" {
		args = append(args, "--brain", brain)
	}
	out, diag, code := answer(args...)
	if code != 0 || diag != "" {
		t.Fatalf("demo: exit code %d: %s", code, diag)
	}
	return regexp.MustCompile(`\S*crabmem-demo-[A-Z0-9]+`).ReplaceAllString(out, "DIR")
}

// TestDemo checks that the demo says the same every time, and something else
// when the brain is another one.
func TestDemo(t *testing.T) {
	shipped := play(t, "")
	brain := writeBrain(t)
	if again := play(t, brain); again != shipped {
		t.Errorf("the demo of the same pages differs:\n%s\n%s", shipped, again)
	}
	page := filepath.Join(brain, "notes", "rollback-quay.md")
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(b), "the expand phase", "the purple phase", 1)
	if changed == string(b) {
		t.Fatalf("%s does not contain the text that the test changes", page)
	}
	if err := os.WriteFile(page, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if other := play(t, brain); other == shipped || !strings.Contains(other, "the purple phase") {
		t.Errorf("the brain was altered and the demo says the same")
	}
	if err := os.Remove(page); err != nil {
		t.Fatal(err)
	}
	if other := play(t, brain); strings.Contains(other, "   1  rollback-quay") {
		t.Errorf("the demo finds a deleted page")
	}
}

// TestBrain checks the properties of the sample brain.
func TestBrain(t *testing.T) {
	t.Parallel()
	notes, err := testdata.Brain.ReadDir("brain/notes")
	if err != nil {
		t.Fatal(err)
	}
	archives, err := testdata.Brain.ReadDir("brain/archives")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(notes) + len(archives); n < 300 || len(archives) < 20 {
		t.Errorf("%d notes and %d archives", len(notes), len(archives))
	}
	s := loadBrain(t)
	type text struct {
		name  string
		words map[string]bool
	}
	var texts []text
	word := regexp.MustCompile(`[\p{L}\p{N}]+`)
	aliased, code, cjk := 0, 0, 0
	for e := range s.All() {
		w := make(map[string]bool)
		for _, x := range word.FindAllString(strings.ToLower(e.Content), -1) {
			w[x] = true
		}
		texts = append(texts, text{e.Name, w})
		if len(e.Aliases) > 0 {
			aliased++
		}
		if strings.Contains(e.Content, "```") {
			code++
		}
		if cli.Columns(e.Content) > len([]rune(e.Content))*3/2 {
			cjk++
		}
	}
	if aliased < 100 || code < 30 || cjk < 20 {
		t.Errorf("%d with aliases, %d with code, %d CJK", aliased, code, cjk)
	}
	for i, a := range texts {
		for _, b := range texts[:i] {
			common := 0
			for w := range a.words {
				if b.words[w] {
					common++
				}
			}
			if 2*common > min(len(a.words), len(b.words)) {
				t.Errorf("%s and %s share %d of %d words", a.name, b.name, common, min(len(a.words), len(b.words)))
			}
		}
	}
	t.Logf("brain: %d notes, %d archives, %d with aliases, %d with code, %d CJK", len(notes), len(archives), aliased, code, cjk)
}

// loadBrain returns the sample brain in a store in RAM.
func loadBrain(t *testing.T) *crmem.Store {
	t.Helper()
	s := crmem.New(&crmem.Options{FS: vfs.OS{}})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := tree.Load(s, writeBrain(t), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestQuestions asks the committed questions about the sample brain, as the
// command does: each finds its first hit.
func TestQuestions(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(top, "testdata", "brain-questions-*.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	s := loadBrain(t)
	asked := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			query, want, ok := strings.Cut(strings.TrimRight(line, "\n"), "\t")
			if !ok {
				t.Errorf("%s: no tab in %q", file, line)
				continue
			}
			f := recallFlags{Question: op.Question{Query: query, Limit: 3}}
			q, err := f.check(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			c := newApp(nil, &out, nil)
			c.JSON = true
			if err := errors.Join(c.recall(t.Context(), op.Store{Store: s}, q, f), c.Out.Flush()); err != nil {
				t.Fatalf("recall %q: %v", query, err)
			}
			var a recall.Answer
			if err := json.Unmarshal(out.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			asked++
			if len(a.Hits) == 0 || a.Hits[0].Name != want {
				var got []string
				for _, h := range a.Hits {
					got = append(got, h.Name)
				}
				t.Errorf("%q: first hit is %q, want %q", query, got, want)
			}
		}
	}
	if asked < 60 {
		t.Errorf("%d questions in %d files, want at least 60", asked, len(files))
	}
	t.Logf("questions: %d", asked)
}
