package scan

import (
	"bufio"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxAlarms is the number of false alarms that is permitted in 10,000 paragraphs.
const maxAlarms = 1

// alarms counts paragraphs and the secrets that Find finds in them.
type alarms struct{ paragraphs, alarms int }

func (a *alarms) read(t *testing.T, name, text string) {
	for p := range strings.SplitSeq(text, "\n\n") {
		a.paragraphs++
		for _, m := range Find(p) {
			a.alarms++
			t.Logf("%s: %s: %.80q", name, m.Kind, p[max(0, m.Start-20):m.End])
		}
	}
}

func (a *alarms) check(t *testing.T, least int) {
	t.Helper()
	t.Logf("paragraphs: %d checked, %d alarms", a.paragraphs, a.alarms)
	if a.paragraphs < least {
		t.Errorf("%d paragraphs, want %d or more", a.paragraphs, least)
	}
	if a.alarms*10_000 > a.paragraphs*maxAlarms {
		t.Errorf("%d alarms in %d paragraphs, want at most %d in 10,000", a.alarms, a.paragraphs, maxAlarms)
	}
}

// TestAlarmsDatasets counts the alarms in the texts of the recall test sets.
func TestAlarmsDatasets(t *testing.T) {
	root := os.Getenv("CRABMEM_DATASETS")
	if root == "" {
		if slices.Contains(strings.FieldsFunc(os.Getenv("CRABMEM_REQUIRE"), func(r rune) bool { return r == ',' || r == ' ' }), "datasets") {
			t.Fatal("CRABMEM_DATASETS is not set, and CRABMEM_REQUIRE wants the test sets")
		}
		t.Skip("SKIPPED: CRABMEM_DATASETS names no folder of test sets")
	}
	files, err := filepath.Glob(filepath.Join(root, "*", "corpus.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("CRABMEM_DATASETS=%s: %d test sets, %v", root, len(files), err)
	}
	var a alarms
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewScanner(file)
		in.Buffer(nil, 16<<20)
		for in.Scan() {
			var doc struct{ Title, Text string }
			if err := json.Unmarshal(in.Bytes(), &doc); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			a.read(t, name, doc.Title+"\n\n"+doc.Text)
		}
		if err := in.Err(); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	a.check(t, 20_000)
}

// TestAlarmsSources counts the alarms in the sources of Go and of this module,
// without tests, which contain keys and passwords.
func TestAlarmsSources(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output() // a test built with -trimpath does not know it
	if err != nil {
		t.Fatal(err)
	}
	var a alarms
	for _, root := range []string{filepath.Join(strings.TrimSpace(string(goroot)), "src"), filepath.Join("..", "..", "..")} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == "testdata" {
				return fs.SkipDir
			}
			ext := filepath.Ext(name)
			if err != nil || d.IsDir() || ext != ".go" && ext != ".md" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(name)
			a.read(t, name, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	a.check(t, 100_000)
}
