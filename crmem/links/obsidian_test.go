package links

import (
	"os"
	"strings"
	"testing"
)

// TestObsidianForms resolves the links of testdata/obsidian.tsv, which cites the rule for
// each.
func TestObsidianForms(t *testing.T) {
	table, err := os.ReadFile("testdata/obsidian.tsv")
	if err != nil {
		t.Fatal(err)
	}
	unescape := strings.NewReplacer(`\u0301`, "\u0301", `\u00e9`, "\u00e9")
	rows := 0
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		rows++
		row := strings.Split(unescape.Replace(strings.TrimSuffix(line, "\n")), "\t")
		if len(row) != 4 {
			t.Fatalf("%q: %d columns", line, len(row))
		}
		contents := []string{"the text", row[0]}
		for _, entry := range strings.Split(row[1], ",") {
			contents = append(contents, strings.ReplaceAll(entry, "=", ","), "")
		}
		s := store(t, contents...)
		e, err := s.Get("the text")
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if list := Of(s, e); len(list) == 1 {
			if got = list[0].To; !list[0].Leads() {
				got = string(list[0].State)
			}
		} else if len(list) > 1 {
			t.Errorf("%s: %v", row[0], list)
		}
		if got != row[2] {
			t.Errorf("%s among %s leads to %s, want %s (%s)", row[0], row[1], got, row[2], row[3])
		}
	}
	if rows < 50 {
		t.Errorf("%d rows", rows)
	}
}
