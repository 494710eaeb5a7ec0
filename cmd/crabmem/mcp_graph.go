package main

import (
	"encoding/json"
	"strings"
	"unicode"

	"crabmem/crmem"
)

// A knowledge graph is kept in notes: one an entity, of its name, which people
// read and edit as any other.
//
//	**Entity:** person
//
//	- Speaks fluent Spanish
//	- a text of two lines
//	  has the second one indented
//
//	**Relations:**
//
//	- works_at → QuintoAndar
//
// What starts a relation and is no entity has a note without the first part. A
// word that this would not give back as it was is written as JSON writes it.
const (
	entityHead    = "**Entity:** "
	relationsHead = "**Relations:**"
	arrow         = " → "
)

type graphEntity struct {
	Name         string   `json:"name" jsonschema:"The name of the entity"`
	EntityType   string   `json:"entityType" jsonschema:"The type of the entity"`
	Observations []string `json:"observations" jsonschema:"An array of observation contents associated with the entity"`
}

type graphRelation struct {
	From         string `json:"from" jsonschema:"The name of the entity where the relation starts"`
	To           string `json:"to" jsonschema:"The name of the entity where the relation ends"`
	RelationType string `json:"relationType" jsonschema:"The type of the relation"`
}

// graphNode is a note of the graph.
type graphNode struct {
	name         string
	entity       bool // else it only starts relations
	entityType   string
	observations []string
	relations    []graphRelation // that start here
	changed      bool
}

// parseNode reads a note. It reports false when the note is none of a graph.
// Lines that people added are observations.
func parseNode(name, text string) (*graphNode, bool) {
	if !strings.HasPrefix(text, strings.TrimSuffix(entityHead, " ")) && !strings.HasPrefix(text, relationsHead) {
		return nil, false
	}
	n := &graphNode{name: name, observations: []string{}}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	kind, ok := strings.CutPrefix(lines[0], strings.TrimSuffix(entityHead, " "))
	switch {
	case ok:
		n.entity, n.entityType = true, unquoteWord(strings.TrimPrefix(kind, " "))
		lines = lines[1:]
	case lines[0] != relationsHead:
		return nil, false
	}
	var item *string // the observation that goes on
	related := false
	blank := 0 // lines without anything, since the item
	for _, line := range lines {
		text, listed := strings.CutPrefix(line, "- ")
		if line == "-" {
			text, listed = "", true
		}
		more, indented := strings.CutPrefix(line, "  ")
		switch {
		case line == relationsHead:
			item, related = nil, true
		case line == "":
			blank++
			continue
		case indented && item != nil:
			*item += strings.Repeat("\n", blank+1) + more
		case listed && related:
			if r, ok := parseRelation(name, text); ok {
				n.relations = append(n.relations, r)
				item = nil
				break
			}
			fallthrough
		default:
			if !listed {
				text = line
			}
			n.observations = append(n.observations, text)
			item = &n.observations[len(n.observations)-1]
		}
		blank = 0
	}
	return n, true
}

func parseRelation(from, text string) (graphRelation, bool) {
	kind, to, found := strings.Cut(text, arrow)
	if strings.HasPrefix(text, `"`) {
		dec := json.NewDecoder(strings.NewReader(text))
		if err := dec.Decode(&kind); err != nil {
			return graphRelation{}, false
		}
		to, found = strings.CutPrefix(text[dec.InputOffset():], arrow)
	}
	return graphRelation{From: from, To: unquoteWord(to), RelationType: kind}, found
}

// text writes the note.
func (n *graphNode) text() string {
	var b strings.Builder
	if n.entity {
		b.WriteString(entityHead + quoteWord(n.entityType) + "\n")
		for i, o := range n.observations {
			if i == 0 {
				b.WriteString("\n")
			}
			b.WriteString("- " + strings.ReplaceAll(o, "\n", "\n  ") + "\n")
		}
		if len(n.relations) > 0 {
			b.WriteString("\n")
		}
	}
	for i, r := range n.relations {
		if i == 0 {
			b.WriteString(relationsHead + "\n\n")
		}
		b.WriteString("- " + quoteWord(r.RelationType) + arrow + quoteWord(r.To) + "\n")
	}
	return b.String()
}

// quoteWord writes a word so that unquoteWord and parseRelation give it back.
func quoteWord(s string) string {
	plain := s != "" && s[0] != '"' && strings.TrimSpace(s) == s && !strings.Contains(s, strings.TrimSpace(arrow))
	for _, r := range s {
		plain = plain && !unicode.IsControl(r)
	}
	if plain {
		return s
	}
	b, err := encodeJSON(s)
	if err != nil {
		return s // a string has an encoding
	}
	return strings.TrimSuffix(string(b), "\n")
}

func unquoteWord(s string) string {
	var word string
	if strings.HasPrefix(s, `"`) && json.Unmarshal([]byte(s), &word) == nil {
		return word
	}
	return s
}

// graph is the knowledge graph of a store, in the order of the notes.
type graph struct {
	nodes []*graphNode
	named map[string]*graphNode
	taken map[string]crmem.Kind // other entries
	old   map[string]crmem.Entry
}

func newGraph() *graph {
	return &graph{named: make(map[string]*graphNode), taken: make(map[string]crmem.Kind), old: make(map[string]crmem.Entry)}
}

// readGraph reads the notes that are of a graph.
func readGraph(s *crmem.Store) *graph {
	g := newGraph()
	for e := range s.All() {
		n, ok := (*graphNode)(nil), false
		if e.Kind == crmem.Note {
			n, ok = parseNode(e.Name, e.Content)
		}
		if !ok {
			g.taken[e.Name] = e.Kind
			continue
		}
		g.nodes = append(g.nodes, n)
		g.named[n.name], g.old[n.name] = n, e
	}
	return g
}

// node returns the node of a name, and makes it where nothing has the name.
func (g *graph) node(name string) (*graphNode, error) {
	if n := g.named[name]; n != nil {
		return n, nil
	}
	if k, taken := g.taken[name]; taken {
		return nil, &failure{Code: exitConflict, Kind: "exists", err: crmem.ErrExists, Message: quoted(name) + " is the name of a " + k.String() + " that is no entity",
			Remedy: "take another name; nothing was changed"}
	}
	n := &graphNode{name: name, observations: []string{}}
	g.nodes = append(g.nodes, n)
	g.named[name] = n
	return n, nil
}

// ops are the operations that make the store's notes those of the graph.
func (g *graph) ops() []crmem.Op {
	var ops []crmem.Op
	for _, n := range g.nodes {
		old, there := g.old[n.name]
		gone := !n.entity && len(n.relations) == 0
		switch {
		case !n.changed:
		case gone && there:
			ops = append(ops, crmem.Remove{Name: n.name})
		case gone:
		case there:
			ops = append(ops, crmem.Update{Name: n.name, Content: n.text(), Aliases: old.Aliases})
		default:
			ops = append(ops, crmem.Add{Name: n.name, Content: n.text(), Kind: crmem.Note})
		}
	}
	return ops
}
