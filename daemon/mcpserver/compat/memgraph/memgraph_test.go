package memgraph

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNodeRoundTrip(t *testing.T) {
	bits := []string{"", " ", "\n", "\r\n", "- ", "  ", "→", " → ", `"`, `\`, relationsHead, entityHead, "word", "two words", "日本", "\t", "#", "\u2028", "**Entity:**", "-"}
	word := func(r *rand.Rand) string {
		var b strings.Builder
		for range r.IntN(5) {
			b.WriteString(bits[r.IntN(len(bits))])
		}
		return b.String()
	}
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := &Node{Name: "n", Entity: r.IntN(4) > 0, Observations: []string{}}
		if n.Entity {
			n.EntityType = word(r)
			for range r.IntN(4) {
				n.Observations = append(n.Observations, word(r))
			}
		}
		for range r.IntN(3) {
			n.Relations = append(n.Relations, Relation{"n", word(r), word(r)})
		}
		if !n.Entity && len(n.Relations) == 0 {
			continue
		}
		got, ok := ParseNode("n", n.Text())
		if d := cmp.Diff(n, got); !ok || d != "" {
			t.Fatalf("seed %d: %q: %t\n%s", seed, n.Text(), ok, d)
		}
	}
	for text, want := range map[string]*Node{
		"":                              nil,
		"a note":                        nil,
		"- **Entity:** no":              nil,
		"**Entity:**":                   {Entity: true, Observations: []string{}},
		"**Entity:** x\n-\n":            {Entity: true, EntityType: "x", Observations: []string{""}},
		"**Entity:** x\n\n- a\n\n  b\n": {Entity: true, EntityType: "x", Observations: []string{"a\n\nb"}},
		"**Entity:** x\nfree\n- a":      {Entity: true, EntityType: "x", Observations: []string{"free", "a"}},
		"**Relations:**\n- a → b\n- c":  {Observations: []string{"c"}, Relations: []Relation{{"", "b", "a"}}},
	} {
		got, ok := ParseNode("", text)
		if d := cmp.Diff(want, got); ok != (want != nil) || d != "" {
			t.Errorf("%q: %t\n%s", text, ok, d)
		}
	}
}
