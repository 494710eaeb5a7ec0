package memgraph

import (
	"slices"

	"golang.org/x/text/unicode/norm"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// Graph is the knowledge graph of a store, in the order of the notes.
type Graph struct {
	nodes []*Node
	named map[string]*Node
	forms map[string]*Node      // by the normal form C of the name; nil if several have it
	taken map[string]crmem.Kind // other entries
	old   map[string]crmem.Entry
}

// Part is a part of a graph, as the reference memory server sends it.
type Part struct {
	Entities  []Entity   `json:"entities"`
	Relations []Relation `json:"relations"`
}

// NewObservations are observations to add to an entity.
type NewObservations struct {
	EntityName string   `json:"entityName" jsonschema:"The name of the entity to add the observations to"`
	Contents   []string `json:"contents" jsonschema:"An array of observation contents to add"`
}

// AddedObservations are the observations that an entity did not have.
type AddedObservations struct {
	EntityName        string   `json:"entityName"`
	AddedObservations []string `json:"addedObservations"`
}

// OldObservations are observations to delete from an entity.
type OldObservations struct {
	EntityName   string   `json:"entityName" jsonschema:"The name of the entity containing the observations"`
	Observations []string `json:"observations" jsonschema:"An array of observations to delete"`
}

// ReadGraph reads the notes that contain nodes.
func ReadGraph(s *crmem.Store) *Graph {
	g := &Graph{named: make(map[string]*Node), forms: make(map[string]*Node), taken: make(map[string]crmem.Kind), old: make(map[string]crmem.Entry)}
	for e := range s.All() {
		n, ok := (*Node)(nil), false
		if e.Kind == crmem.Note {
			n, ok = ParseNode(e.Name, e.Content)
		}
		if !ok {
			g.taken[e.Name] = e.Kind
			continue
		}
		g.add(n)
		g.old[n.Name] = e
	}
	return g
}

func (g *Graph) add(n *Node) {
	g.nodes = append(g.nodes, n)
	g.named[n.Name] = n
	form := norm.NFC.String(n.Name)
	if _, twin := g.forms[form]; twin {
		n = nil
	}
	g.forms[form] = n
}

// find returns the node with a name, or else the only one with a canonically equivalent
// name, or nil.
func (g *Graph) find(name string) *Node {
	if n := g.named[name]; n != nil {
		return n
	}
	return g.forms[norm.NFC.String(name)]
}

// node returns the node with a name. It creates the node unless another entry has
// the name.
func (g *Graph) node(name string) (*Node, error) {
	if n := g.find(name); n != nil {
		return n, nil
	}
	if k, taken := g.taken[name]; taken {
		return nil, &errtable.Error{Exit: errtable.ExitConflict, Kind: "exists", Err: crmem.ErrExists, Message: display.Quoted(name) + " names an entry of kind " + k.String() + ", not an entity",
			Fix: "choose another name; nothing was changed"}
	}
	n := &Node{Name: name, Observations: []string{}}
	g.add(n)
	return n, nil
}

// Ops returns the operations that write the changes of the graph to the store.
func (g *Graph) Ops() []crmem.Op {
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

// Pick returns the entities for which want returns true, and the relations that
// start or end at one of them. If all is true, it returns all relations.
func (g *Graph) Pick(want func(Entity) bool, all bool) Part {
	out := Part{Entities: []Entity{}, Relations: []Relation{}}
	picked := make(map[string]bool)
	for _, n := range g.nodes {
		e := Entity{Name: n.Name, EntityType: n.EntityType, Observations: n.Observations}
		if n.Entity && want(e) {
			out.Entities = append(out.Entities, e)
			picked[n.Name] = true
		}
	}
	for _, n := range g.nodes {
		for _, r := range n.Relations {
			if all || picked[r.From] || picked[r.To] {
				out.Relations = append(out.Relations, r)
			}
		}
	}
	return out
}

// CreateEntities adds the entities that the graph lacks, and returns them.
func (g *Graph) CreateEntities(entities []Entity) ([]Entity, error) {
	made := []Entity{}
	for _, e := range entities {
		n, err := g.node(e.Name)
		if err != nil {
			return nil, err
		}
		if n.Entity {
			continue
		}
		n.Entity, n.EntityType, n.Observations, n.Changed = true, e.EntityType, slices.Clone(e.Observations), true
		made = append(made, e)
	}
	return made, nil
}

// CreateRelations adds the relations that the graph lacks, and returns them.
func (g *Graph) CreateRelations(relations []Relation) ([]Relation, error) {
	made := []Relation{}
	for _, r := range relations {
		n, err := g.node(r.From)
		if err != nil {
			return nil, err
		}
		if slices.Contains(n.Relations, r) {
			continue
		}
		n.Relations, n.Changed = append(n.Relations, r), true
		made = append(made, r)
	}
	return made, nil
}

// AddObservations adds observations to entities. Every entity must exist.
func (g *Graph) AddObservations(list []NewObservations) ([]AddedObservations, error) {
	added := []AddedObservations{}
	for _, o := range list {
		n := g.find(o.EntityName)
		if n == nil || !n.Entity {
			return nil, &errtable.Error{Exit: errtable.ExitNotFound, Kind: "invalid", Message: "Entity with name " + o.EntityName + " not found"}
		}
		fresh := []string{}
		for _, text := range o.Contents {
			if !slices.Contains(n.Observations, text) {
				fresh = append(fresh, text)
			}
		}
		if len(fresh) > 0 {
			n.Observations, n.Changed = append(n.Observations, fresh...), true
		}
		added = append(added, AddedObservations{o.EntityName, fresh})
	}
	return added, nil
}

// DeleteEntities deletes the entities of the names, with their relations.
func (g *Graph) DeleteEntities(names []string) {
	gone := make(map[string]bool, len(names))
	for _, name := range names {
		if n := g.find(name); n != nil {
			name = n.Name
		}
		gone[name] = true
	}
	for _, n := range g.nodes {
		if gone[n.Name] {
			n.Entity, n.Relations, n.Changed = false, nil, true
			continue
		}
		n.KeepRelations(func(r Relation) bool { return !gone[r.To] })
	}
}

// DeleteObservations deletes the observations that the graph has.
func (g *Graph) DeleteObservations(list []OldObservations) {
	for _, d := range list {
		n := g.find(d.EntityName)
		if n == nil || !n.Entity {
			continue
		}
		before := len(n.Observations)
		n.Observations = slices.DeleteFunc(n.Observations, func(o string) bool { return slices.Contains(d.Observations, o) })
		n.Changed = n.Changed || len(n.Observations) != before
	}
}

// DeleteRelations deletes the relations that the graph has.
func (g *Graph) DeleteRelations(list []Relation) {
	gone := make(map[Relation]bool, len(list))
	for _, r := range list {
		gone[r] = true
	}
	for _, n := range g.nodes {
		n.KeepRelations(func(r Relation) bool { return !gone[r] })
	}
}
