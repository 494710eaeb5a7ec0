package links

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
)

// store returns a store in RAM with the contents of entries. The aliases follow the
// name, after commas.
func store(t *testing.T, contents ...string) *crmem.Store {
	t.Helper()
	s := crmem.New(nil)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := 0; i < len(contents); i += 2 {
		names := strings.Split(contents[i], ",")
		if err := s.Apply(crmem.Add{Name: names[0], Content: contents[i+1], Aliases: names[1:]}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestOf(t *testing.T) {
	s := store(t,
		"deploy", "---\nsupersedes: \"[[old]]\"\n---\nsee [[canary]], [[both]],\n[[missing]], and [[deploy]]",
		"deploy-1,old,both", "", "watch,canary,both", "[[deploy|it]]", "canary", "a name wins over an alias")
	list := func(links []Link) string {
		var b strings.Builder
		for _, l := range links {
			fmt.Fprintf(&b, "%s:%d %s %s %s %s %d %s\n", l.From, l.Line, l.Relation, l.Target, l.State, l.To, l.ToID, l.Owners)
		}
		return b.String()
	}
	deploy, err := s.Get("deploy")
	if err != nil {
		t.Fatal(err)
	}
	own := "deploy:2 supersedes old alias deploy-1 2 []\ndeploy:4 related canary name canary 4 []\ndeploy:4 related both ambiguous  0 [deploy-1 watch]\n" +
		"deploy:5 related missing broken  0 []\ndeploy:5 related deploy name deploy 1 []\n"
	if got := list(Of(s, deploy)); got != own {
		t.Errorf("the links of deploy:\n%swant\n%s", got, own)
	}
	watch := "watch:1 related deploy name deploy 1 []\n"
	if got := list(slices.Collect(All(s))); got != own+watch {
		t.Errorf("all links:\n%s", got)
	}
	if got := list(To(s, deploy.ID)); got != "deploy:5 related deploy name deploy 1 []\n"+watch {
		t.Errorf("the links to deploy:\n%s", got)
	}
	for range All(s) {
		break // does not run the rest
	}
}

func TestGraph(t *testing.T) {
	s := store(t,
		"a", "---\ntype: decision\nsupersedes: \"[[b]]\"\ncrabmem: 1\n---\n[[b]] [[b2]] [[a]] [[none]]", "b,b2", "[[c]]",
		"c", "---\nsupersedes: \"[[d]]\"\n---\n", "d", "---\nsupersedes: \"[[d]]\"\ncrabmem: 1\n---\n", "e", "")
	g := NewGraph(s)
	want := "[{1 a note decision false} {2 b note  true} {3 c note  false} {4 d note  false} {5 e note  false}] " +
		"[{1 2 supersedes} {1 2 related} {1 1 related} {2 3 related} {3 4 supersedes} {4 4 supersedes}]"
	if got := fmt.Sprint(g.Nodes, g.Edges); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	ids := func(g *Graph) (ids []uint64) {
		for _, n := range g.Nodes {
			ids = append(ids, n.ID)
		}
		return ids
	}
	for distance, want := range []string{"[3] 0", "[2 3 4] 3", "[1 2 3 4] 6", "[1 2 3 4] 6"} {
		if near := g.Near(3, distance); fmt.Sprint(ids(near), len(near.Edges)) != want {
			t.Errorf("within %d of c: %v, %d edges, want %s", distance, ids(near), len(near.Edges), want)
		}
	}
	if linked := g.Linked(); fmt.Sprint(ids(linked)) != "[1 2 3 4]" || len(linked.Edges) != 6 {
		t.Errorf("linked: %v", linked)
	}
	if got := fmt.Sprint(g.Cycles("supersedes"), g.Cycles("related")); got != "[[4]] [[1]]" {
		t.Errorf("cycles: %s", got)
	}
}

// TestCycles compares the cycles of random graphs with the pairs of nodes that lead to
// each other.
func TestCycles(t *testing.T) {
	found := 0
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 0))
		n := 1 + random.IntN(9)
		g := &Graph{}
		for id := range n {
			g.Nodes = append(g.Nodes, Node{ID: uint64(id)})
		}
		leads := make([][]bool, n) // in one step or more
		for i := range leads {
			leads[i] = make([]bool, n)
		}
		edges := make(map[[2]int]bool)
		for range random.IntN(2 * n) {
			from, to := random.IntN(n), random.IntN(n)
			g.Edges = append(g.Edges, Edge{uint64(from), uint64(to), "r"}, Edge{uint64(to), uint64(from), "other"})
			leads[from][to], edges[[2]int{from, to}] = true, true
		}
		for range n {
			for a := range n {
				for b := range n {
					for c := range n {
						leads[a][c] = leads[a][c] || leads[a][b] && leads[b][c]
					}
				}
			}
		}
		var want []int // the lowest node of each set
		for a := range n {
			if leads[a][a] && !slices.ContainsFunc(want, func(b int) bool { return leads[a][b] && leads[b][a] }) {
				want = append(want, a)
			}
		}
		var got []int
		for _, way := range g.Cycles("r") {
			got = append(got, int(way[0]))
			for i := range way {
				if from, to := int(way[i]), int(way[(i+1)%len(way)]); !edges[[2]int{from, to}] {
					t.Fatalf("seed %d: %v has no edge from %d to %d", seed, way, from, to)
				}
			}
			found++
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: cycles from %v, want %v: %v", seed, got, want, g.Edges)
		}
	}
	t.Logf("%d cycles checked", found)
	long := &Graph{}
	for id := range uint64(200_000) {
		long.Nodes = append(long.Nodes, Node{ID: id})
		long.Edges = append(long.Edges, Edge{id, (id + 1) % 200_000, "r"})
	}
	if got := long.Cycles("r"); len(got) != 1 || len(got[0]) != 200_000 {
		t.Errorf("a long cycle: %d cycles", len(got))
	}
}
