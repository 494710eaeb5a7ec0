// Package memgraph stores the knowledge graph of the reference memory server in
// notes.
//
// Each entity is a note with the entity's name. People can read and edit it:
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
// A note without the first part starts relations and is no entity. A word that
// would not be read back exactly is written as a JSON string.
package memgraph

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"crabmem/daemon/display"
)

const (
	entityHead    = "**Entity:** "
	relationsHead = "**Relations:**"
	arrow         = " → "
)

// Entity is an entity as the reference memory server sends it.
type Entity struct {
	Name         string   `json:"name" jsonschema:"The name of the entity"`
	EntityType   string   `json:"entityType" jsonschema:"The type of the entity"`
	Observations []string `json:"observations" jsonschema:"An array of observation contents associated with the entity"`
}

// Relation is a relation as the reference memory server sends it.
type Relation struct {
	From         string `json:"from" jsonschema:"The name of the entity where the relation starts"`
	To           string `json:"to" jsonschema:"The name of the entity where the relation ends"`
	RelationType string `json:"relationType" jsonschema:"The type of the relation"`
}

// Node is a note of the graph.
type Node struct {
	Name         string
	Entity       bool // false: the node only starts relations
	EntityType   string
	Observations []string
	Relations    []Relation // that start here
	Changed      bool       // for the caller: KeepRelations sets it, Text ignores it
}

// ParseNode reads a note. It returns false if the note contains no node. Lines that
// people added are observations.
func ParseNode(name, text string) (*Node, bool) {
	if !strings.HasPrefix(text, strings.TrimSuffix(entityHead, " ")) && !strings.HasPrefix(text, relationsHead) {
		return nil, false
	}
	n := &Node{Name: name, Observations: []string{}}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	kind, ok := strings.CutPrefix(lines[0], strings.TrimSuffix(entityHead, " "))
	switch {
	case ok:
		n.Entity, n.EntityType = true, unquoteWord(strings.TrimPrefix(kind, " "))
		lines = lines[1:]
	case lines[0] != relationsHead:
		return nil, false
	}
	var item *string // the incomplete observation
	related := false
	blank := 0 // blank lines after the item
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
				n.Relations = append(n.Relations, r)
				item = nil
				break
			}
			fallthrough
		default:
			if !listed {
				text = line
			}
			n.Observations = append(n.Observations, text)
			item = &n.Observations[len(n.Observations)-1]
		}
		blank = 0
	}
	return n, true
}

func parseRelation(from, text string) (Relation, bool) {
	kind, to, found := strings.Cut(text, arrow)
	if strings.HasPrefix(text, `"`) {
		dec := json.NewDecoder(strings.NewReader(text))
		if err := dec.Decode(&kind); err != nil {
			return Relation{}, false
		}
		to, found = strings.CutPrefix(text[dec.InputOffset():], arrow)
	}
	return Relation{From: from, To: unquoteWord(to), RelationType: kind}, found
}

// Text returns the text of the note.
func (n *Node) Text() string {
	var b strings.Builder
	if n.Entity {
		b.WriteString(entityHead + quoteWord(n.EntityType) + "\n")
		for i, o := range n.Observations {
			if i == 0 {
				b.WriteString("\n")
			}
			b.WriteString("- " + strings.ReplaceAll(o, "\n", "\n  ") + "\n")
		}
		if len(n.Relations) > 0 {
			b.WriteString("\n")
		}
	}
	for i, r := range n.Relations {
		if i == 0 {
			b.WriteString(relationsHead + "\n\n")
		}
		b.WriteString("- " + quoteWord(r.RelationType) + arrow + quoteWord(r.To) + "\n")
	}
	return b.String()
}

// quoteWord encodes a word for unquoteWord and parseRelation.
func quoteWord(s string) string {
	plain := s != "" && s[0] != '"' && strings.TrimSpace(s) == s && !strings.Contains(s, strings.TrimSpace(arrow))
	for _, r := range s {
		plain = plain && !unicode.IsControl(r)
	}
	if plain {
		return s
	}
	text, _ := display.JSON(s) // a string has an encoding
	return string(text)
}

func unquoteWord(s string) string {
	var word string
	if strings.HasPrefix(s, `"`) && json.Unmarshal([]byte(s), &word) == nil {
		return word
	}
	return s
}

// KeepRelations removes the relations for which f returns false.
func (n *Node) KeepRelations(f func(Relation) bool) {
	before := len(n.Relations)
	n.Relations = slices.DeleteFunc(n.Relations, func(r Relation) bool { return !f(r) })
	n.Changed = n.Changed || len(n.Relations) != before
}
