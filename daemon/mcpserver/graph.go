package mcpserver

import (
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/mcpserver/memgraph"
)

// graph is the knowledge graph of a store, in the order of the notes.
type graph struct {
	nodes []*memgraph.Node
	named map[string]*memgraph.Node
	taken map[string]crmem.Kind // other entries
	old   map[string]crmem.Entry
}

func newGraph() *graph {
	return &graph{named: make(map[string]*memgraph.Node), taken: make(map[string]crmem.Kind), old: make(map[string]crmem.Entry)}
}

// readGraph reads the notes that are of a graph.
func readGraph(s *crmem.Store) *graph {
	g := newGraph()
	for e := range s.All() {
		n, ok := (*memgraph.Node)(nil), false
		if e.Kind == crmem.Note {
			n, ok = memgraph.ParseNode(e.Name, e.Content)
		}
		if !ok {
			g.taken[e.Name] = e.Kind
			continue
		}
		g.nodes = append(g.nodes, n)
		g.named[n.Name], g.old[n.Name] = n, e
	}
	return g
}

// node returns the node of a name, and makes it where nothing has the name.
func (g *graph) node(name string) (*memgraph.Node, error) {
	if n := g.named[name]; n != nil {
		return n, nil
	}
	if k, taken := g.taken[name]; taken {
		return nil, &errtable.Error{Exit: errtable.ExitConflict, Kind: "exists", Err: crmem.ErrExists, Message: display.Quoted(name) + " names an entry of kind " + k.String() + ", not an entity",
			Fix: "choose another name; nothing was changed"}
	}
	n := &memgraph.Node{Name: name, Observations: []string{}}
	g.nodes = append(g.nodes, n)
	g.named[name] = n
	return n, nil
}

// ops are the operations that make the store's notes those of the graph.
func (g *graph) ops() []crmem.Op {
	var ops []crmem.Op
	for _, n := range g.nodes {
		old, there := g.old[n.Name]
		gone := !n.Entity && len(n.Relations) == 0
		switch {
		case !n.Changed:
		case gone && there:
			ops = append(ops, crmem.Remove{Name: n.Name})
		case gone:
		case there:
			ops = append(ops, crmem.Update{Name: n.Name, Content: n.Text(), Aliases: old.Aliases})
		default:
			ops = append(ops, crmem.Add{Name: n.Name, Content: n.Text(), Kind: crmem.Note})
		}
	}
	return ops
}
