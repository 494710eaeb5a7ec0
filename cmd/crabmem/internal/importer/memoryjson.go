package importer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/mcpserver/compat/memgraph"
	"crabmem/sessionlog/foreign"
)

// The file of the reference memory server, memory.json or memory.jsonl, has a
// line of JSON for each entity and each relation. The output of its tool
// read_graph, one object with both, is accepted too.

// maxMemoryJSON limits the file to the maximum size of a store.
const maxMemoryJSON = 1 << 30

// memoryRecord is an entity or a relation of it.
type memoryRecord struct {
	Type         string   `json:"type"`
	Name         *string  `json:"name"`
	EntityType   *string  `json:"entityType"`
	Observations []string `json:"observations"`
	From         *string  `json:"from"`
	To           *string  `json:"to"`
	RelationType *string  `json:"relationType"`
}

// memoryKeys are the imported keys of a record.
var memoryKeys = map[string][]string{
	"entity":   {"type", "name", "entityType", "observations"},
	"relation": {"type", "from", "to", "relationType"},
}

// memoryJSON collects the graph of such a file.
type memoryJSON struct {
	nodes []*memgraph.Node
	named map[string]*memgraph.Node
	first map[string]int // the first record with a name
	seen  map[memgraph.Relation]bool

	warnings []string
	found    int // number of warnings, including suppressed ones
}

// maxMemoryWarnings bounds the warnings; the others are counted.
const maxMemoryWarnings = 5

// readMemoryJSON reads the file. It returns an entry for each note of the graph,
// and a warning for each change or omission.
func readMemoryJSON(r io.Reader) ([]Line, []string, error) {
	m := memoryJSON{named: make(map[string]*memgraph.Node), first: make(map[string]int), seen: make(map[memgraph.Relation]bool)}
	in := bufio.NewReader(io.LimitReader(r, maxMemoryJSON+1))
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(3)
	}
	dec := json.NewDecoder(in)
	for n := 1; ; n++ {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if err == io.EOF {
			break
		}
		if err == nil && dec.InputOffset() > maxMemoryJSON {
			err = fmt.Errorf("input is larger than %s, the limit", display.Size(maxMemoryJSON))
		}
		if err == nil {
			err = m.add(n, raw)
		}
		if err != nil {
			return nil, m.warnings, &RecordError{"record", n, err}
		}
	}
	if more := m.found - maxMemoryWarnings; more > 0 {
		m.warnings = append(m.warnings, fmt.Sprintf("and %s", display.Plural(more, "more warning", "more warnings")))
	}
	var lines []Line
	for _, n := range m.nodes {
		lines = append(lines, Line{Number: m.first[n.Name], Entry: crmem.Entry{Name: n.Name, Content: n.Text()}})
	}
	return lines, m.warnings, nil
}

// warn adds a warning about record n.
func (m *memoryJSON) warn(n int, format string, args ...any) {
	if m.found++; m.found <= maxMemoryWarnings {
		m.warnings = append(m.warnings, fmt.Sprintf("record %d: ", n)+fmt.Sprintf(format, args...))
	}
}

// add adds a line: an entity, a relation, or a complete graph.
func (m *memoryJSON) add(n int, raw json.RawMessage) error {
	if !utf8.Valid(raw) {
		return errors.New("invalid UTF-8")
	}
	if i := foreign.LoneSurrogate(string(raw)); i >= 0 {
		return fmt.Errorf("unpaired surrogate at byte %d", i)
	}
	var line struct {
		Type      string            `json:"type"`
		Entities  []json.RawMessage `json:"entities"`
		Relations []json.RawMessage `json:"relations"`
	}
	if err := unmarshalRecord(raw, &line); err != nil {
		return err
	}
	if line.Type != "" || line.Entities == nil && line.Relations == nil {
		return m.record(n, line.Type, raw)
	}
	for _, e := range line.Entities {
		if err := m.record(n, "entity", e); err != nil {
			return err
		}
	}
	for _, r := range line.Relations {
		if err := m.record(n, "relation", r); err != nil {
			return err
		}
	}
	return nil
}

func unmarshalRecord(raw json.RawMessage, v any) error {
	err := json.Unmarshal(raw, v)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%q is a JSON %s", e.Field, e.Value)
	}
	return err
}

func (m *memoryJSON) record(n int, kind string, raw json.RawMessage) error {
	var rec memoryRecord
	if err := unmarshalRecord(raw, &rec); err != nil {
		return err
	}
	taken, known := memoryKeys[kind]
	if !known {
		return fmt.Errorf("type is %s, want entity or relation", display.Quoted(kind))
	}
	var keys map[string]json.RawMessage
	if err := unmarshalRecord(raw, &keys); err != nil {
		return err
	}
	for k := range keys {
		if !slices.Contains(taken, k) {
			m.warn(n, "omitted unknown key %s", display.Quoted(k))
		}
	}
	if kind == "entity" {
		return m.entity(n, rec)
	}
	return m.relation(n, rec)
}

// node returns the node of a name, and creates it if it is missing.
func (m *memoryJSON) node(n int, name string) *memgraph.Node {
	node := m.named[name]
	if node == nil {
		node = &memgraph.Node{Name: name, Observations: []string{}}
		m.nodes, m.named[name], m.first[name] = append(m.nodes, node), node, n
	}
	return node
}

// entity adds an entity. It merges duplicates, which writers without a lock may
// leave.
func (m *memoryJSON) entity(n int, rec memoryRecord) error {
	if rec.Name == nil || rec.EntityType == nil {
		return errors.New("entity without name or entityType")
	}
	node := m.node(n, *rec.Name)
	if !node.Entity {
		node.Entity, node.EntityType, node.Observations = true, *rec.EntityType, append([]string{}, rec.Observations...)
		return nil
	}
	m.warn(n, "merged duplicate entity %s", display.Quoted(*rec.Name))
	more := rec.Observations
	if node.EntityType != *rec.EntityType {
		more = append([]string{"entity type: " + *rec.EntityType}, more...)
	}
	for _, o := range more {
		if !slices.Contains(node.Observations, o) {
			node.Observations = append(node.Observations, o)
		}
	}
	return nil
}

func (m *memoryJSON) relation(n int, rec memoryRecord) error {
	if rec.From == nil || rec.To == nil || rec.RelationType == nil {
		return errors.New("relation without from, to, or relationType")
	}
	r := memgraph.Relation{From: *rec.From, To: *rec.To, RelationType: *rec.RelationType}
	if m.seen[r] {
		m.warn(n, "omitted duplicate relation")
		return nil
	}
	m.seen[r] = true
	node := m.node(n, *rec.From)
	node.Relations = append(node.Relations, r)
	return nil
}
