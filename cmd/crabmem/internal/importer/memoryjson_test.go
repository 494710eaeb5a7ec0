package importer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
)

// importedGraph imports a memory.json as import does.
func importedGraph(t *testing.T, s *crmem.Store, b []byte) *Plan {
	t.Helper()
	lines, _, err := readMemoryJSON(bytes.NewReader(b))
	if err != nil {
		t.Skip(err)
	}
	p, err := PlanLines(s, lines, Keep, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(p.Ops...); err != nil && len(p.Ops) > 0 {
		t.Skip(err)
	}
	return p
}

func TestEveryFactOfMemoryJSON(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(fixtures, "memory.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	s := crmem.New(nil)
	importedGraph(t, s, b)
	var text strings.Builder
	for e := range s.All() {
		text.WriteString(e.Name + "\n" + e.Content)
	}
	facts := 0
	for line := range strings.Lines(string(b)) {
		var rec map[string]any
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatal(err)
		}
		delete(rec, "type")
		for _, v := range rec {
			list, ok := v.([]any)
			if !ok {
				list = []any{v}
			}
			for _, f := range list {
				if facts++; !strings.Contains(text.String(), f.(string)) {
					t.Errorf("%q is lost", f)
				}
			}
		}
	}
	if facts < 8 {
		t.Errorf("only %d facts", facts)
	}
	if p := importedGraph(t, s, b); len(p.Ops) > 0 {
		t.Errorf("imported twice: %+v", p.Ops)
	}
}

// FuzzMemoryJSON imports any text as the file of the reference memory server: a
// second import of valid input changes nothing.
func FuzzMemoryJSON(f *testing.F) {
	for _, s := range []string{
		`{"type":"entity","name":"a","entityType":"b","observations":["c\nd"]}` + "\n" + `{"type":"relation","from":"a","to":"e","relationType":"→"}`,
		`{"entities":[{"name":"a","entityType":"b","observations":[]},{"name":"a","entityType":"c","observations":[""]}],"relations":[{"from":"x","to":"","relationType":""}]}`,
		`{"type":"entity"}`, "", "[]", "\ufeff{}", `{"type":"entity","name":"","entityType":"","observations":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := crmem.New(nil)
		first := importedGraph(t, s, b)
		if again := importedGraph(t, s, b); len(again.Ops) > 0 || again.Skipped != first.Added {
			t.Fatalf("added %d, and again %+v", first.Added, again)
		}
	})
}
