//go:build linux

package main

import (
	"slices"
	"strings"
	"testing"
)

// TestQueries checks that each query means one note, and that a query by meaning shares no
// word with it.
func TestQueries(t *testing.T) {
	notes := corpus()
	for i, n := range notes {
		for j, other := range notes {
			if i != j && (n.name == other.name || n.text == other.text || strings.Contains(other.text, n.name)) {
				t.Errorf("notes %s and %s are not distinct", n.name, other.name)
			}
		}
	}
	for _, q := range queries {
		if !slices.ContainsFunc(notes, func(n note) bool { return n.text == q.target }) {
			t.Errorf("%s: no note has the text %q", q.words, q.target)
		}
		words := strings.FieldsFunc(strings.ToLower(q.target), func(r rune) bool { return strings.ContainsRune(" .,;", r) })
		for _, w := range strings.Fields(q.words) {
			if shared := slices.Contains(words, w); q.kind == "meaning" && len(w) > 3 && shared || q.kind == "same words" && !shared {
				t.Errorf("%s: %q is of the kind %s", q.words, w, q.kind)
			}
		}
	}
}

// TestRows runs rows on the system that needs no installation.
func TestRows(t *testing.T) {
	for id, want := range map[string]string{
		"recall": "16 of 16",
		"both":   "0 of 400 missing, 0 errors",
		"files":  "50 of 50 notes back, search finds one: true",
		"damage": "changed bytes: 10 silent loss; in each copy of a text: 1 silent loss; half of CLAUDE.md: silent loss",
	} {
		i := slices.IndexFunc(rows, func(r row) bool { return r.id == id })
		s := claudeFile()
		if got := measure(&rows[i], &s); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s; want %s", id, got, want)
		}
	}
}
