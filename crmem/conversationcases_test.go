package crmem_test

import (
	"fmt"
	"strings"
	"testing"

	"crabmem/crmem"
)

// TestConversationRules runs the cases of conversations without some parts of the
// ranking. Each part must have a gain.
func TestConversationRules(t *testing.T) {
	t.Parallel()
	entries := caseEntries(t, conversationsDir)
	cases := recallCases(t, conversationsDir, entries)
	s := caseStore(t, entries)
	count := func(name string, without uint8) int {
		crmem.SetWithout(s, without)
		var classes []string
		first, sum := make(map[string]int), 0
		for _, c := range cases {
			if _, ok := first[c.class]; !ok {
				classes = append(classes, c.class)
				first[c.class] = 0
			}
			if bestNames(t, s, c.query, false)[0] == c.want {
				first[c.class]++
				sum++
			}
		}
		var line strings.Builder
		for _, class := range classes {
			fmt.Fprintf(&line, " %2d", first[class])
		}
		t.Logf("%-22s%s = %d of %d", name, &line, sum, len(cases))
		return sum
	}
	all := count("all", 0)
	for _, rule := range []struct {
		name    string
		without uint8
		gain    int
	}{
		{"no questions", crmem.WithoutAnswers, 15},
		{"no previous messages", crmem.WithoutPrevious, 2},
		{"no next messages", crmem.WithoutNext, 0},
		{"no neighbors", crmem.WithoutNeighbors, 20},
		{"no prior", crmem.WithoutPrior, 6},
		{"no evidence", crmem.WithoutEvidence, 1},
		{"no dates", crmem.WithoutDates, 5},
		{"without all of them", crmem.WithoutAll, 38},
	} {
		if got := count(rule.name, rule.without); got > all-rule.gain {
			t.Errorf("%s: %d are first, and %d with it: want a gain of %d", rule.name, got, all, rule.gain)
		}
	}
}
