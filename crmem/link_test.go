package crmem_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"crabmem/crmem"
)

// linkNames are names, and the ends of targets, that links of other spellings may mean.
var linkNames = []string{
	"deploy", "Deploy", "DEPLOY.md", "a/deploy", "A/Deploy", "b/deploy", "x/a/deploy.md", "deploy#Steps", "C#", "c#", ".dot", "b/.dot",
	"\u00e9t\u00e9", "e\u0301te\u0301", "\u00c9T\u00c9", "a/\u00e9t\u00e9", "", "/", "a/", ".md", "..",
}

// link returns the names of the entries that a target may mean, by the rules of
// [crmem.Store.Link] written again.
func (m spelledModel) link(target string) (found []string) {
	parts := []string{target}
	if i := strings.LastIndex(target, "#"); i > 0 {
		parts = append(parts, target[:i])
	}
	if before, _, _ := strings.Cut(target, "#"); before != "" {
		parts = append(parts, before)
	}
	for _, part := range parts {
		if found := m.find(part, true); found != nil {
			return found
		}
	}
	for _, part := range parts {
		for _, alias := range []bool{false, true} {
			best := 0
			for _, n := range slices.Sorted(maps.Keys(m)) {
				names := []string{n}
				if alias {
					names = m[n].Aliases
				}
				for _, name := range names {
					fits := fitOf(name, part)
					if fits > best {
						best, found = fits, nil
					}
					if fits == best && fits > 0 && !slices.Contains(found, n) {
						found = append(found, n)
					}
				}
			}
			if found != nil {
				return found
			}
		}
	}
	return nil
}

// fitOf returns twice the number of equal folders and names at the end, plus 1 if all are
// equal; 0 if one of the shorter path differs.
func fitOf(name, link string) int {
	for strings.HasPrefix(link, "/") || strings.HasPrefix(link, "./") || strings.HasPrefix(link, "../") {
		_, link, _ = strings.Cut(link, "/")
	}
	var paths [2][]string
	for i, text := range []string{name, link} {
		text = norm.NFD.String(strings.ToLower(text))
		if text != ".md" && !strings.HasSuffix(text, "/.md") {
			text = strings.TrimSuffix(text, ".md")
		}
		paths[i] = strings.Split(text, "/")
		slices.Reverse(paths[i])
	}
	if slices.Equal(paths[0], paths[1]) {
		return 2*len(paths[0]) + 1
	}
	shorter, longer := paths[0], paths[1]
	if len(shorter) > len(longer) {
		shorter, longer = longer, shorter
	}
	if len(shorter) == len(longer) || !slices.Equal(shorter, longer[:len(shorter)]) || len(shorter) == 1 && shorter[0] == "" {
		return 0
	}
	return 2 * len(shorter)
}

func (m spelledModel) checkLinks(t *testing.T, s *crmem.Store, rng *rand.Rand, where string) {
	t.Helper()
	for range 30 {
		target := linkNames[rng.IntN(len(linkNames))]
		target = []string{"", "", "a/", "z/", "./", "../", "/"}[rng.IntN(7)] + target + []string{"", "", ".md", "#Steps", "#x#^y"}[rng.IntN(5)]
		if target == "" {
			continue
		}
		want := m.link(target)
		to, err := s.Link(target)
		var many *crmem.AmbiguousError
		switch {
		case len(want) == 1 && (err != nil || to.Entry.Name != want[0] || !to.Entry.Equal(m[want[0]]) && m[want[0]].ID != 0):
			t.Fatalf("%s: %q leads to %q, %v, want %q", where, target, to.Entry.Name, err, want)
		case len(want) == 0 && !errors.Is(err, crmem.ErrNotFound):
			t.Fatalf("%s: %q leads to %q, %v, want none", where, target, to.Entry.Name, err)
		case len(want) > 1 && (!errors.As(err, &many) || !slices.Equal(slices.Sorted(slices.Values(many.Owners)), want)):
			t.Fatalf("%s: %q leads to %q, %v, want %q", where, target, to.Entry.Name, err, want)
		case err == nil && !strings.HasSuffix(target, to.Rest):
			t.Fatalf("%s: %q: the rest is %q", where, target, to.Rest)
		}
	}
}

// TestLink makes random changes to a store in memory, in files, and with an index file,
// and compares each link with a model.
func TestLink(t *testing.T) {
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 5))
		c := newIndexScene(t)
		m := spelledModel{}
		pick := func() string { return linkNames[rng.IntN(len(linkNames))] }
		s := c.open(crmem.Options{})
		for step := range 30 {
			where := fmt.Sprintf("seed %d, step %d", seed, step)
			op := []crmem.Op{
				crmem.Add{Name: pick(), Content: "text", Aliases: []string{pick()}},
				crmem.Restore{Entry: crmem.Entry{Name: pick(), Content: "text", Aliases: []string{pick(), "other"}}},
				crmem.Remove{Name: pick()},
			}[rng.IntN(3)]
			next := maps.Clone(m)
			if op.Validate() != nil {
				continue
			}
			want := next.apply(op)
			if err := s.Apply(op); !errors.Is(err, want) {
				t.Fatalf("%s: %+v: %v, want %v", where, op, err, want)
			} else if err == nil {
				m = next
			}
			s = c.looked(rng, s, func(s *crmem.Store, by string) { m.checkLinks(t, s, rng, where+by) })
		}
		noErr(t, s.Close())
	}
}
