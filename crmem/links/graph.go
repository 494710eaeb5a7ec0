package links

import (
	"slices"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// A Graph has entries as nodes and their links as edges. Links that lead to no entry
// have no edge.
type Graph struct {
	Nodes []Node `json:"nodes"` // ascending by ID
	Edges []Edge `json:"edges"` // ascending by From, each once
}

// A Node is an entry.
type Node struct {
	ID         uint64     `json:"id"`
	Name       string     `json:"name"`
	Kind       crmem.Kind `json:"kind"`
	Type       string     `json:"type,omitempty" jsonschema:"of the metadata"`
	Superseded bool       `json:"superseded,omitempty"` // by an entry with adopted metadata
}

// An Edge is a link. From and To are IDs.
type Edge struct {
	From     uint64 `json:"from"`
	To       uint64 `json:"to"`
	Relation string `json:"relation" op:"words=related|supersedes|contradicts|caused_by|part_of"`
}

// NewGraph returns the graph of the entries of a store.
func NewGraph(s *crmem.Store) *Graph {
	g := &Graph{Nodes: []Node{}, Edges: []Edge{}}
	superseded := make(map[uint64]bool)
	for e := range s.All() {
		m, _, _ := metadata.Parse(e.Content)
		g.Nodes = append(g.Nodes, Node{ID: e.ID, Name: e.Name, Kind: e.Kind, Type: m.Type()})
		from := len(g.Edges)
		for _, l := range Of(s, e) {
			edge := Edge{e.ID, l.ToID, l.Relation}
			if !l.Leads() || slices.Contains(g.Edges[from:], edge) {
				continue
			}
			g.Edges = append(g.Edges, edge)
			if l.Relation == metadata.Supersedes && m.Adopted() && l.ToID != e.ID {
				superseded[l.ToID] = true
			}
		}
	}
	for i := range g.Nodes {
		g.Nodes[i].Superseded = superseded[g.Nodes[i].ID]
	}
	return g
}

// Near returns the part of the graph within a distance from an entry, in links of
// either direction.
func (g *Graph) Near(id uint64, distance int) *Graph {
	adjacent := make(map[uint64][]uint64)
	for _, e := range g.Edges {
		adjacent[e.From] = append(adjacent[e.From], e.To)
		adjacent[e.To] = append(adjacent[e.To], e.From)
	}
	near, last := map[uint64]bool{id: true}, []uint64{id}
	for ; distance > 0 && len(last) > 0; distance-- {
		var next []uint64
		for _, from := range last {
			for _, to := range adjacent[from] {
				if !near[to] {
					near[to] = true
					next = append(next, to)
				}
			}
		}
		last = next
	}
	return g.part(near)
}

// Linked returns the graph without the entries that have no edge.
func (g *Graph) Linked() *Graph {
	linked := make(map[uint64]bool)
	for _, e := range g.Edges {
		linked[e.From], linked[e.To] = true, true
	}
	return g.part(linked)
}

// part returns the part of the graph with these nodes.
func (g *Graph) part(ids map[uint64]bool) *Graph {
	p := &Graph{Nodes: []Node{}, Edges: []Edge{}}
	for _, n := range g.Nodes {
		if ids[n.ID] {
			p.Nodes = append(p.Nodes, n)
		}
	}
	for _, e := range g.Edges {
		if ids[e.From] && ids[e.To] {
			p.Edges = append(p.Edges, e)
		}
	}
	return p
}
