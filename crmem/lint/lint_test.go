package lint_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/lint"
	"crabmem/crmem/tree"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func newStore(t *testing.T) *crmem.Store {
	t.Helper()
	s := crmem.New(nil)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func add(t *testing.T, s *crmem.Store, name, content string, aliases ...string) {
	t.Helper()
	if err := s.Apply(crmem.Add{Name: name, Content: content, Aliases: aliases}); err != nil {
		t.Fatal(err)
	}
}

func format(f lint.Finding) string {
	return fmt.Sprintf("%s %s:%d %s %v | %s", f.Kind, f.Name, f.Line, f.Message, f.Others, f.Remedy)
}

// TestPlanted checks that the sample brain has no finding, plants 12 faults in it, each
// of another kind, and checks that they are all the findings.
func TestPlanted(t *testing.T) {
	s := newStore(t)
	if _, err := tree.Load(s, "../../testdata/brain", nil); err != nil {
		t.Fatal(err)
	}
	for _, f := range lint.Check(s, now) {
		t.Errorf("the sample brain: %s", format(f))
	}
	quay, err := s.Get("rollback-quay")
	if err != nil {
		t.Fatal(err)
	}
	diet, err := s.Get("allocation-diet")
	if err != nil {
		t.Fatal(err)
	}
	faults := []struct{ name, content, want string }{
		{"broken-text", "first line\n\nsee [[rollback-kway]] and [[rollback-quay]]",
			`broken_link broken-text:3 the link related [[rollback-kway]] leads to no entry [] | run crabmem edit broken-text and change the link, or run crabmem remember rollback-kway TEXT`},
		{"broken-relation", "---\ntype: fact\ncaused_by: \"[[no such entry]]\"\n---\nthe canary died",
			`broken_link broken-relation:3 the link caused_by [[no such entry]] leads to no entry [] | run crabmem edit broken-relation and change the link, or run crabmem remember 'no such entry' TEXT`},
		{"ambiguous", "as [[shared alias]] states",
			`ambiguous_link ambiguous:1 the link related [[shared alias]] leads to no entry: several entries fit [owner-1 owner-2] | run crabmem edit ambiguous and link to a name`},
		{"rollback-copy", strings.Replace(quay.Content, ",", ";", 1) + "\nCopied.",
			`near_duplicate rollback-copy:0 98% of the word pairs are those of another entry [rollback-quay] | compare crabmem show rollback-quay and crabmem show rollback-copy, then run crabmem forget rollback-copy if one is enough`},
		{"contradicts", "---\ncontradicts: \"[[rollback-quay]]\"\n---\nquay cannot be rolled back",
			`contradiction contradicts:2 contradicts another entry [rollback-quay] | run crabmem forget for the wrong entry, or run crabmem edit contradicts and add supersedes: "[[rollback-quay]]"`},
		{"expired", "---\nexpires: 2026-11-24\ncrabmem: 1\n---\nthe freeze lasts until Tuesday",
			`expired expired:2 expired 2026-11-24 [] | run crabmem forget expired, or run crabmem edit expired and set another day`},
		{"not-closed", "---\ntype: decision\nimportance: 0.8\nwe deploy from main\n",
			`front_matter not-closed:4 the front matter has no effect: the line is neither the closing --- nor a key, a colon, a space, and a value [] | run crabmem edit not-closed and correct the line, or ignore this if the text is no metadata`},
		{"bad-day", "---\nexpires: 24.11.2027\ncrabmem: 1\n---\nthe certificate is valid for a year",
			`value bad-day:2 expires "24.11.2027": want a day, such as 2026-04-14 [] | run crabmem edit bad-day and correct the value`},
		{"bad-importance", "---\nimportance: high\n---\nthe pager is loud",
			`value bad-importance:2 importance "high": want a number from 0 to 1 [] | run crabmem edit bad-importance and correct the value`},
		{"no-link", "---\npart_of: rollback-quay\n---\nthe rope is wet",
			`value no-link:2 part_of "rollback-quay": want a link, such as [[name]] [] | run crabmem edit no-link and correct the value`},
		{"not-adopted", "---\nsupersedes: \"[[expired-plan]]\"\n---\nthe new plan",
			`not_adopted not-adopted:2 expires and supersedes have no effect: the metadata is not adopted [] | run crabmem metadata adopt not-adopted`},
		{"cycle-2", "---\nsupersedes: \"[[cycle-1]]\"\ncrabmem: 1\n---\nblue",
			`cycle cycle-1:2 supersedes leads back to the entry through another one [cycle-2] | run crabmem edit cycle-1 and remove the link, or remove one of the others`},
	}
	// Entries that the faults need, and others that look like faults.
	for _, e := range [][]string{
		{"owner-1", "red", "shared alias"}, {"owner-2", "green", "shared alias"}, {"expired-plan", "the old plan"},
		{"cycle-1", "---\nsupersedes: \"[[cycle-2]]\"\ncrabmem: 1\n---\ngreen"},
		{"valid", "---\ntype: custom-word\ntags: [a, b]\nimportance: 1\nexpires: 2026-11-25\nrelated: [\"[[owner-1]]\", \"[[link|text]]\"]\nother: word\ncrabmem: 1\n---\n[[expired-plan]] `[[code]]`\n```\n[[code]]\n```\n", "link"},
		{"rule", "---\nMarkdown: a rule\n\nand a text"}, {"heading", "---\nA heading\n---\ntext"},
		{"diet-next", "---\nsupersedes: \"[[allocation-diet]]\"\ncontradicts: \"[[allocation-diet]]\"\ncrabmem: 1\n---\n" + diet.Content + "\nThen tell Priya."},
		{"short-1", "black coffee"}, {"short-2", "black coffee"},
	} {
		add(t, s, e[0], e[1], e[2:]...)
	}
	for _, f := range faults {
		add(t, s, f.name, f.content)
	}
	var got []string
	for _, f := range lint.Check(s, now) {
		got = append(got, format(f))
	}
	found := 0
	for _, f := range faults {
		if i := slices.Index(got, f.want); i >= 0 {
			got = slices.Delete(got, i, i+1)
			found++
		} else {
			t.Errorf("not found: %s", f.want)
		}
	}
	for _, f := range got {
		t.Errorf("not planted: %s", f)
	}
	t.Logf("%d planted faults found", found)
}

// TestDuplicates compares the near duplicates among random texts with the share of the
// word pairs that they have in common.
func TestDuplicates(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	words := func(n int) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("w%d", random.IntN(1000))
		}
		return list
	}
	missed, found, wrong := 0, 0, 0
	for round := range 15 {
		s := newStore(t)
		var texts [][]string
		for i := range 60 {
			text := words(5 + random.IntN(300)/(1+i%7))
			if i > 0 && random.IntN(2) == 0 { // a changed copy
				text = slices.Clone(texts[random.IntN(i)])
				for range random.IntN(1 + len(text)/6) {
					text[random.IntN(len(text))] = "changed"
				}
			}
			texts = append(texts, text)
			add(t, s, fmt.Sprint(i), strings.Join(text, []string{" ", ", ", "\n"}[random.IntN(3)]))
		}
		best := make(map[string]float64)
		for i, a := range texts {
			for _, b := range texts[:i] {
				best[fmt.Sprint(i)] = max(best[fmt.Sprint(i)], common(a, b))
			}
		}
		reported := make(map[string]bool)
		for _, f := range lint.Check(s, now) {
			if f.Kind != lint.NearDuplicate {
				t.Fatalf("round %d: %s", round, format(f))
			}
			reported[f.Name] = true
			if best[f.Name] < 0.8 {
				wrong++
				t.Errorf("round %d: share %.2f: %s", round, best[f.Name], format(f))
			}
		}
		for name, share := range best {
			if share >= 0.8 && reported[name] {
				found++
			} else if share >= 0.8 {
				missed++
			}
		}
	}
	if missed*100 > found {
		t.Errorf("missed %d of %d near duplicates", missed, missed+found)
	}
	t.Logf("%d near duplicates found, %d missed, %d wrong", found, missed, wrong)
}

// common returns the share of the pairs of adjacent words of two texts that both have.
func common(a, b []string) float64 {
	pairs := func(text []string) map[[2]string]bool {
		set := make(map[[2]string]bool)
		for i := 1; i < len(text); i++ {
			set[[2]string{text[i-1], text[i]}] = true
		}
		return set
	}
	x, y := pairs(a), pairs(b)
	both := 0
	for p := range x {
		if y[p] {
			both++
		}
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

// TestFindings checks the findings of small stores. A name is followed by the
// aliases.
func TestFindings(t *testing.T) {
	const long = "build the image, tag it, push it, then watch the canary"
	meta := func(lines string) string { return "---\n" + lines + "\ncrabmem: 1\n---\n" }
	for _, c := range []struct {
		what    string
		entries [][]string
		want    []string // kind, name, and others
	}{
		{"entries that contradict each other", [][]string{{"a", meta(`contradicts: "[[b]]"`)}, {"b", meta(`contradicts: ["[[a]]", "[[b]]"]`)}}, []string{"contradiction a:2 [b]"}},
		{"a contradiction that one supersedes", [][]string{{"a", ""}, {"b", meta("contradicts: \"[[a]]\"\nsupersedes: \"[[a]]\"")}}, nil},
		{"a contradiction of a superseded entry", [][]string{{"a", ""}, {"b", meta(`contradicts: "[[a]]"`)}, {"c", meta(`supersedes: "[[b]]"`)}}, nil},
		{"a duplicate in another case", [][]string{{"a", long}, {"b", strings.ToUpper(long)}}, []string{"near_duplicate b:0 [a]"}},
		{"a duplicate with other metadata", [][]string{{"a", meta("type: fact") + long}, {"b", long}}, []string{"near_duplicate b:0 [a]"}},
		{"a duplicate that supersedes", [][]string{{"a", long}, {"b", meta(`supersedes: "[[a]]"`) + long}}, nil},
		{"a duplicate that contradicts", [][]string{{"a", long}, {"b", meta(`contradicts: "[[a]]"`) + long}}, []string{"contradiction b:2 [a]"}},
		{"three duplicates", [][]string{{"a", long}, {"b", long}, {"c", long}}, []string{"near_duplicate b:0 [a]", "near_duplicate c:0 [a]"}},
		{"texts without spaces", [][]string{{"a", "从主分支部署然后观察金丝雀"}, {"b", "从主分支部署,然后观察金丝雀。"}, {"c", "明天去海边看潮汐表和船"}}, []string{"near_duplicate b:0 [a]"}},
		{"an entry that supersedes itself", [][]string{{"a,x", meta(`supersedes: "[[x]]"`)}}, []string{"cycle a:2 []"}},
		{"a cycle of three", [][]string{{"a", meta("type: fact\npart_of: \"[[b]]\"")}, {"b", meta(`part_of: "[[c]]"`)}, {"c", meta(`part_of: "[[a]]"`)}}, []string{"cycle a:3 [b c]"}},
		{"related entries", [][]string{{"a", "[[b]] [[a]]"}, {"b", "[[a]]"}}, nil},
		{"an expired day that is not adopted", [][]string{{"a", "---\nexpires: 2020-01-01\n---\n"}}, []string{"not_adopted a:2 []"}},
	} {
		s := newStore(t)
		for _, e := range c.entries {
			names := strings.Split(e[0], ",")
			add(t, s, names[0], e[1], names[1:]...)
		}
		var got []string
		for _, f := range lint.Check(s, now) {
			got = append(got, fmt.Sprintf("%s %s:%d %v", f.Kind, f.Name, f.Line, f.Others))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	s := newStore(t)
	if err := s.Apply(crmem.Add{Name: "-it's", Kind: crmem.Archive, Content: "---\nexpires: 2020-01-01\ncrabmem: 1\n---\n"}); err != nil {
		t.Fatal(err)
	}
	if got := lint.Check(s, now); len(got) != 1 || got[0].Remedy != `run crabmem forget --archive -- '-it'\''s', or run crabmem edit -- '-it'\''s' and set another day` {
		t.Errorf("an archive: %+v", got)
	}
}
