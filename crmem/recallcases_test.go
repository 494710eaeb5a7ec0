package crmem_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
)

const (
	casesDir         = "../testdata/recall/cases"
	conversationsDir = "../testdata/recall/conversations"
)

// nothing replaces a name in cases.tsv: the query must return neither a hit nor
// an error.
const nothing = "-"

// A recallCase is a line of cases.tsv.
type recallCase struct {
	line  string // class, query, and want, as in the file
	class string
	query string
	want  string // the name of the entry that must be first, or nothing
}

func TestRecallCases(t *testing.T) {
	t.Parallel()
	checkCases(t, casesDir, 200, 37)
}

// TestConversationCases runs queries on the messages of conversations.
func TestConversationCases(t *testing.T) {
	t.Parallel()
	checkCases(t, conversationsDir, 60, 5)
}

// TestReplyCases runs queries on greetings, questions, and replies. Their author did not
// see the ranking.
func TestReplyCases(t *testing.T) {
	t.Parallel()
	checkCases(t, "../testdata/recall/replies", 20, 2)
}

// TestTypoCases runs queries with a misspelling, or with a word that no entry contains but
// that is one edit from another entry's word. Their author did not see the rules. Each
// query also runs in a store with only its conversation.
func TestTypoCases(t *testing.T) {
	t.Parallel()
	dir := "../testdata/recall/typos"
	checkCases(t, dir, 30, 2)
	conversation := func(name string) string { return name[:strings.LastIndexByte(name, '-')] }
	entries := caseEntries(t, dir)
	for _, c := range recallCases(t, dir, entries) {
		alone := slices.DeleteFunc(slices.Clone(entries), func(e crmem.Entry) bool { return conversation(e.Name) != conversation(c.want) })
		if best := bestNames(t, caseStore(t, alone), c.query, false); best[0] != c.want {
			t.Errorf("%q in its conversation alone: the best are %q", c.line, best)
		}
	}
}

// checkCases runs the hand-written queries of dir on a small store, with the
// entries in the order of the file and in reverse order. An entry that is first
// in only one order is first because of its id. Known failures are in
// misses.txt, in the order of cases.tsv; no other case may fail. dir must have
// at least minCases cases of minClasses classes.
func checkCases(t *testing.T, dir string, minCases, minClasses int) {
	entries := caseEntries(t, dir)
	cases := recallCases(t, dir, entries)
	forth := caseStore(t, entries)
	slices.Reverse(entries)
	back := caseStore(t, entries)

	known := make(map[string]bool)
	for _, line := range caseLines(t, dir, "misses.txt") {
		if known[line] {
			t.Errorf("misses.txt has %q twice", line)
		}
		known[line] = true
	}
	total, first := make(map[string]int), make(map[string]int)
	var classes []string
	for _, c := range cases {
		if total[c.class]++; total[c.class] == 1 {
			classes = append(classes, c.class)
		}
		text := c.query
		if c.class == "10,000 words" {
			text = bury(c.query, total[c.class]-1)
		}
		syntax := c.class == "phrase"
		inOrder, reversed := bestNames(t, forth, text, syntax), bestNames(t, back, text, syntax)
		hit := inOrder[0] == c.want && reversed[0] == c.want
		if hit {
			first[c.class]++
		}
		switch {
		case hit && known[c.line]:
			t.Errorf("%q is answered now: take it out of misses.txt", c.line)
		case !hit && !known[c.line]:
			t.Errorf("%q: the best are %q, and %q with the entries in reverse order", c.line, inOrder, reversed)
		}
		delete(known, c.line)
	}
	for line := range known {
		t.Errorf("misses.txt has %q, which is no case", line)
	}

	sum := 0
	for _, class := range classes {
		if total[class] < 6 {
			t.Errorf("%d cases of the class %q, want at least 6", total[class], class)
		}
		sum += first[class]
		t.Logf("%3d of %3d first: %s", first[class], total[class], class)
	}
	if len(cases) < minCases || len(classes) < minClasses {
		t.Errorf("%d cases of %d classes, want at least %d of %d", len(cases), len(classes), minCases, minClasses)
	}
	t.Logf("%3d of %3d first, %d entries", sum, len(cases), len(entries))
}

// bestNames returns the names of the best entries, or only nothing.
func bestNames(t *testing.T, s *crmem.Store, text string, syntax bool) []string {
	t.Helper()
	r, err := s.Search(t.Context(), crmem.Query{Text: text, Limit: 3, Syntax: syntax})
	if err != nil {
		t.Fatalf("search %.80q: %v", text, err)
	}
	if len(r.Hits) == 0 {
		return []string{nothing}
	}
	var names []string
	for _, h := range r.Hits {
		names = append(names, h.Name)
	}
	return names
}

// caseLines returns the lines of a file of cases in dir.
func caseLines(t *testing.T, dir, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	ok(t, err)
	var lines []string
	for line := range strings.Lines(string(b)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}

func caseEntries(t *testing.T, dir string) []crmem.Entry {
	t.Helper()
	var entries []crmem.Entry
	for i, line := range caseLines(t, dir, "store.jsonl") {
		var e crmem.Entry
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil {
			t.Fatalf("store.jsonl, line %d: %v", i+1, err)
		}
		entries = append(entries, e)
	}
	return entries
}

// caseDay is the day on which the queries run, after the entries.
var caseDay = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// caseStore returns a store of the entries. The ids are their positions.
func caseStore(t *testing.T, entries []crmem.Entry) *crmem.Store {
	t.Helper()
	s := crmem.New(&crmem.Options{Now: func() time.Time { return caseDay }})
	t.Cleanup(func() { ok(t, s.Close()) })
	for i, e := range entries {
		e.ID = uint64(i + 1)
		ok(t, s.Apply(crmem.Restore{Entry: e}))
		got, err := s.Get(e.Name)
		if ok(t, err); got.ID != e.ID {
			t.Fatalf("%q has the id %d, want %d", e.Name, got.ID, e.ID)
		}
	}
	return s
}

// recallCases reads cases.tsv of dir: class, query with Go's escapes, name and
// comment.
func recallCases(t *testing.T, dir string, entries []crmem.Entry) []recallCase {
	t.Helper()
	names := map[string]bool{nothing: true}
	for _, e := range entries {
		names[e.Name] = true
	}
	var cases []recallCase
	seen := make(map[string]bool)
	for i, line := range caseLines(t, dir, "cases.tsv") {
		f := strings.Split(line, "\t")
		if len(f) != 4 || slices.Index(f, "") >= 0 && f[0] != "empty" {
			t.Fatalf("cases.tsv, line %d: %q: want class, query, name and comment", i+1, line)
		}
		c := recallCase{line: strings.Join(f[:3], "\t"), class: f[0], want: f[2]}
		for rest := f[1]; rest != ""; {
			r, _, tail, err := strconv.UnquoteChar(rest, 0)
			if err != nil {
				t.Fatalf("cases.tsv, line %d: %q: %v", i+1, f[1], err)
			}
			c.query += string(r)
			rest = tail
		}
		if !names[c.want] {
			t.Errorf("cases.tsv, line %d: no entry is named %q", i+1, c.want)
		}
		if seen[c.query] {
			t.Errorf("cases.tsv, line %d: %q is asked twice", i+1, c.query)
		}
		seen[c.query] = true
		cases = append(cases, c)
	}
	return cases
}

// bury hides a question in a long chat: at its start, in its middle, or at its
// end. Every fifth word of the chat is unique.
func bury(question string, n int) string {
	const words = 10_000
	chat := strings.Fields(`okay so what I was going to say is that we should maybe have another look at this when there is
		some time left and then you could tell me if it is still what you want or not because I am not really sure about
		that one any more and they said it would be fine if we just left it the way it was before but who knows right`)
	syllables := strings.Fields("bru dwa fli gno hju klo mva nyx pfe qua rho svo thy vlu wrae xil ymp zgo")
	at := n % 3 * (words - 1) / 2
	var b strings.Builder
	for i := range words {
		switch {
		case i == at:
			fmt.Fprintf(&b, "%s ", question)
		case i%5 == 0:
			for k := i; k > 0; k /= len(syllables) {
				b.WriteString(syllables[k%len(syllables)])
			}
			b.WriteString("zgorx ")
		default:
			b.WriteString(chat[i%len(chat)] + " ")
		}
	}
	return b.String()
}
