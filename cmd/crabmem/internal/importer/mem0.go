package importer

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/mcpserver/compat/memgraph"
	"crabmem/sessionlog/foreign"
)

// An export of mem0 is a list of memories, either directly or under "results" or
// "memories", with the relations of its graph next to it:
//
//	{"results":[{"id":"…","memory":"Likes black coffee","hash":"…","metadata":{"mood":"calm"},
//	 "user_id":"ada","categories":["food"],"created_at":"2026-03-01T09:30:00-07:00","updated_at":null}]}
//
// A memory becomes a note. Its first words become the name. Its other values
// follow the text, one per line.

// mem0Text are the possible keys of a memory's text.
var mem0Text = []string{"memory", "text", "data", "content"}

// mem0Left are keys of a memory without meaning of their own.
var mem0Left = []string{"hash", "score"}

// ReadMem0 reads an export.
func ReadMem0(r io.Reader) (*Memory, error) {
	m := &Memory{Kind: Mem0}
	var left Tally
	said := make(map[string]bool) // id and text
	count := make(map[string]int) // by id
	err := elements(r, []string{"results", "memories"}, func(i int, raw json.RawMessage) error {
		o := left.record(raw, fmt.Sprintf("record %d", i))
		if o == nil {
			return nil
		}
		n, ok := mem0Note(i, o, &left)
		if !ok {
			return nil
		}
		same := n.ID + "\x00" + sumOf("", n.Text, nil)
		if said[same] {
			left.add("duplicate", n.ID)
			return nil
		}
		said[same] = true
		if count[n.ID]++; count[n.ID] > 1 {
			left.add("duplicate ID; took all records", n.ID)
			n.ID = fmt.Sprintf("%s#%d", n.ID, count[n.ID])
			if count[n.ID] > 0 {
				left.add("ID is in use", n.ID)
				return nil
			}
			count[n.ID]++
		}
		m.add(n, &left)
		return nil
	}, func(key string, v json.RawMessage) {
		switch relations, ok := mem0Relations(v); {
		case key == "relations" && ok:
			m.add(Note{ID: key, Name: "mem0 relations", Text: relations}, &left)
		case key == "next":
			m.Manual = append(m.Manual, "the export has more pages (next: "+cut(plain(v), 200)+"): import those pages, too")
		default:
			left.add(fmt.Sprintf("%q of the export", key), cut(plain(v), 40))
		}
	})
	m.Left = left.Sorted()
	return m, err
}

func mem0Note(i int, o object, left *Tally) (Note, bool) {
	id := as[string](o["id"])
	if foreign.JSONType(o["id"]) == "number" {
		id = plain(o["id"])
	}
	where := cmp.Or(id, fmt.Sprintf("record %d", i))
	key := ""
	for _, k := range mem0Text {
		if strings.TrimSpace(o.str(k)) != "" {
			key = k
			break
		}
	}
	if key == "" {
		left.add("memory without text", where)
		return Note{}, false
	}
	n := Note{ID: id, Text: trimEnd(o.str(key)), Created: o.when("created_at")}
	switch {
	case len(id) > maxID || strings.ContainsFunc(id, unicode.IsControl):
		left.add("ID is too long, or contains a control character", where)
		return Note{}, false
	case id == "":
		sum := sha256.Sum256([]byte(n.Text))
		n.ID = "sha256:" + hex.EncodeToString(sum[:8])
		left.add("no ID; identified by its text", n.ID)
	}
	var lines []string
	for _, k := range o.keys("id", key) {
		v := o[k]
		switch {
		case slices.Contains(mem0Left, k):
			left.add(fmt.Sprintf("%q of a memory", k), where)
		case k == "created_at" && n.Created.Equal(n.Created.Truncate(time.Second)) && !n.Created.IsZero():
		case foreign.JSONType(v) == "object":
			for _, sub := range as[object](v).keys() {
				lines = append(lines, k+"."+sub+": "+inLine(as[object](v)[sub]))
			}
		default:
			lines = append(lines, k+": "+inLine(v))
		}
	}
	n.Text = joined(n.Text, strings.Join(lines, "\n"))
	return n, true
}

// inLine returns a value on one line.
func inLine(v json.RawMessage) string {
	words := as[[]json.RawMessage](v)
	if len(words) == 0 {
		words = []json.RawMessage{v}
	}
	var b []string
	for _, w := range words {
		s := plain(w)
		if strings.ContainsFunc(s, unicode.IsControl) || len(words) > 1 && strings.Contains(s, ",") {
			s = compact(w)
		}
		b = append(b, s)
	}
	return strings.Join(b, ", ")
}

// mem0Relations are the edges of the graph, a line each.
func mem0Relations(v json.RawMessage) (string, bool) {
	var lines []string
	for _, raw := range as[[]json.RawMessage](v) {
		o := as[object](raw)
		if o == nil {
			return "", false
		}
		relation, target := cmp.Or(plain(o["relationship"]), plain(o["relation"])), cmp.Or(plain(o["target"]), plain(o["destination"]))
		line := "- " + plain(o["source"]) + " — " + relation + " → " + target
		for _, k := range o.keys("source", "relationship", "relation", "target", "destination") {
			line += ", " + k + ": " + inLine(o[k])
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), len(lines) > 0
}

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
