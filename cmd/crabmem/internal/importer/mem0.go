package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

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
		o, err := parseObject(raw)
		if err != nil {
			left.add("invalid record: "+err.Error(), fmt.Sprintf("record %d", i))
			return nil
		}
		if foreign.LoneSurrogate(string(raw)) >= 0 {
			left.add("lone surrogate, replaced by U+FFFD", fmt.Sprintf("record %d", i))
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
	where := id
	if where == "" {
		where = fmt.Sprintf("record %d", i)
	}
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
		source, relation, target := plain(o["source"]), plain(o["relationship"]), plain(o["target"])
		if relation == "" {
			relation = plain(o["relation"])
		}
		if target == "" {
			target = plain(o["destination"])
		}
		line := "- " + source + " — " + relation + " → " + target
		for _, k := range o.keys("source", "relationship", "relation", "target", "destination") {
			line += ", " + k + ": " + inLine(o[k])
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), len(lines) > 0
}
