package sessionref_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"crabmem/fuzz/sessionref"
	"crabmem/sessionlog"
)

// TestWorkIsSkipped reads the sessions with work of FORMAT.md as the reference does. It
// finds the same messages as sessionlog.
func TestWorkIsSkipped(t *testing.T) {
	doc, err := os.ReadFile("../../sessionlog/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, records := t.TempDir(), 0
	for i, example := range strings.Split(string(doc), "```jsonl\n")[1:] {
		lines, _, _ := strings.Cut(example, "```")
		ref, err := sessionref.Read([]byte(lines))
		if err != nil {
			t.Fatal(err)
		}
		for _, skipped := range ref.Skipped {
			if strings.HasPrefix(skipped.Text, `{"work":`) {
				records++
			}
		}
		if err := os.WriteFile(dir+"/crab_user_1.jsonl", []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := sessionlog.OpenDir(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := d.Read("crab_user_1")
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Context()
		if err != nil {
			t.Fatal(err)
		}
		var want []sessionlog.Message
		for _, m := range ref.Context {
			want = append(want, toSessionlog(m))
		}
		for i := range c.Messages {
			c.Messages[i].Work = nil // the reference skips the key
		}
		if diff := cmp.Diff(want, c.Messages); diff != "" {
			t.Errorf("example %d (-reference +sessionlog): %s", i, diff)
		}
		s.Close()
	}
	if records != 7 {
		t.Errorf("the reference skipped %d work records, want 7", records)
	}
}
