package line

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"crabmem/sessionlog/record"
)

// sight is the oracle's view of a line. The oracle implements the rules of
// FORMAT.md with encoding/json, without regard to speed.
type sight struct {
	kind  record.Kind
	m     Message // of a message
	meta  Meta    // of a meta line or record
	text  string  // of a marker
	notes string  // of a bad line: the fault, for the classes that the parser distinguishes
}

// member is one member of an object, its key without escapes.
type member struct {
	key string
	raw json.RawMessage
}

// oracle returns the kind and values of a line (S1, S3 to S5, S9).
func oracle(line []byte, first bool) sight {
	if first {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	bad := func(why string) sight { return sight{kind: record.KindBad, notes: why} }
	if strings.Trim(string(line), " \t\r") == "" {
		return sight{kind: record.KindBlank}
	}
	switch {
	case !utf8.Valid(line):
		return bad("utf8")
	case !json.Valid(line):
		return bad("json")
	case loneSurrogate(line):
		return bad("surrogate")
	case depthOf(line) > 128:
		return bad("depth")
	}
	obj, err := members(line)
	if err != nil {
		return bad("object")
	}
	count := map[string]int{}
	value := map[string]json.RawMessage{}
	for _, m := range obj {
		count[m.key]++
		value[m.key] = m.raw
	}
	twice := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return count[k] > 1 })
	}
	if first && count["agent"]+count["created_by"]+count["created_at"] > 0 {
		var s sight
		ok := count["agent"] > 0 && count["created_by"] > 0 && count["created_at"] > 0 &&
			!twice("agent", "created_by", "created_at", "title", "uptime_secs", "source", "project", "parent")
		for k, to := range map[string]*string{"agent": &s.meta.Agent, "created_by": &s.meta.CreatedBy,
			"created_at": &s.meta.CreatedAt, "title": &s.meta.Title, "source": &s.meta.Source, "project": &s.meta.Project, "parent": &s.meta.Parent} {
			ok = ok && stringOf(value[k], to, false)
		}
		if !ok || !uintOf(value["uptime_secs"], &s.meta.UptimeSecs) {
			return bad("record")
		}
		s.kind = record.KindMeta
		return s
	}
	if twice("compact", "role", "meta") {
		return bad("record")
	}
	if v := value["compact"]; len(v) > 0 && v[0] == '"' {
		s := sight{kind: record.KindMarker}
		stringOf(v, &s.text, false)
		return s
	}
	if count["role"] > 0 {
		m, ok := oracleMessage(value)
		if !ok || twice("content", "reasoning_content", "tool_call_id", "tool_calls") {
			return bad("record")
		}
		return sight{kind: record.KindMessage, m: m}
	}
	if v := value["meta"]; len(v) > 0 && v[0] == '{' {
		s := sight{kind: record.KindMetaRecord}
		inner, _ := members(v)
		n := map[string]int{}
		for _, m := range inner {
			n[m.key]++
			ok := true
			switch m.key {
			case "title":
				ok = stringOf(m.raw, &s.meta.Title, false)
			case "uptime_secs":
				ok = uintOf(m.raw, &s.meta.UptimeSecs)
			}
			if !ok {
				return bad("record")
			}
		}
		if n["title"] > 1 || n["uptime_secs"] > 1 {
			return bad("record")
		}
		return s
	}
	if first {
		return bad("record")
	}
	return sight{kind: record.KindUnknown}
}

func oracleMessage(value map[string]json.RawMessage) (m Message, ok bool) {
	if !stringOf(value["role"], &m.Role, false) || !stringOf(value["content"], &m.Content, true) ||
		!stringOf(value["reasoning_content"], &m.ReasoningContent, true) || !stringOf(value["tool_call_id"], &m.ToolCallID, true) {
		return m, false
	}
	calls := value["tool_calls"]
	if len(calls) == 0 || string(calls) == "null" {
		return m, true
	}
	var list []json.RawMessage
	if json.Unmarshal(calls, &list) != nil || len(list) > 10_000 {
		return m, false
	}
	for _, raw := range list {
		var c ToolCall
		obj, err := members(raw)
		if err != nil {
			return m, false
		}
		n := map[string]int{}
		for _, e := range obj {
			n[e.key]++
			ok := true
			switch e.key {
			case "id":
				ok = stringOf(e.raw, &c.ID, true)
			case "type":
				ok = stringOf(e.raw, &c.Type, true)
			case "function":
				if string(e.raw) == "null" {
					break
				}
				f, err := members(e.raw)
				ok = err == nil
				fn := map[string]int{}
				for _, e := range f {
					fn[e.key]++
					switch e.key {
					case "name":
						ok = ok && stringOf(e.raw, &c.Function.Name, true)
					case "arguments":
						ok = ok && stringOf(e.raw, &c.Function.Arguments, true)
					}
				}
				ok = ok && fn["name"] < 2 && fn["arguments"] < 2
			}
			if !ok {
				return m, false
			}
		}
		if n["id"] > 1 || n["type"] > 1 || n["function"] > 1 {
			return m, false
		}
		m.ToolCalls = append(m.ToolCalls, c)
	}
	return m, true
}

// glimpse is a complete record in a bad line.
type glimpse struct {
	sight
	lo, hi int // with the white space after it, and at the start of the line also before it
}

// oraclePieces returns the complete records in a bad line (S7). It tries every
// offset of the line. If it is not sure, the search of the line may reach its
// limit.
func oraclePieces(line []byte, first bool) (ps []glimpse, sure bool) {
	const space = " \t\r"
	begin := line
	if first {
		begin = bytes.TrimPrefix(begin, []byte("\ufeff"))
	}
	begin = bytes.TrimLeft(begin, space)
	any := map[int]bool{len(line) - len(begin): true} // where a record of any kind may begin
	places := 0
	for i := range line {
		rest := line[i:]
		named := bytes.HasPrefix(rest, []byte(`{"role":`)) || bytes.HasPrefix(rest, []byte(`{"compact":`)) || bytes.HasPrefix(rest, []byte(`{"meta":`))
		if !named && !any[i] {
			continue
		}
		places++
		var raw json.RawMessage
		if rest[0] != '{' || json.NewDecoder(bytes.NewReader(rest)).Decode(&raw) != nil {
			continue
		}
		behind := bytes.TrimLeft(rest[len(raw):], space)
		if len(behind) > 0 && behind[0] != '{' {
			continue
		}
		lo, hi := i, len(line)-len(behind)
		if i == len(line)-len(begin) {
			lo = 0
		}
		s := oracle(raw, first && lo == 0)
		if s.kind == record.KindBad || !any[i] && s.kind == record.KindUnknown {
			continue
		}
		ps = append(ps, glimpse{s, lo, hi})
		any[hi] = true
	}
	return ps, places*len(line) < 4*len(line)+64<<10
}

// members returns the members of an object in their order.
func members(b []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("no object")
	}
	var ms []member
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{key: k.(string)}
		if err := d.Decode(&m.raw); err != nil {
			return nil, err
		}
		ms = append(ms, m)
	}
	return ms, nil
}

// stringOf reads a string; an absent one is empty.
func stringOf(raw json.RawMessage, to *string, null bool) bool {
	if len(raw) == 0 {
		return true
	}
	if raw[0] != '"' {
		return null && string(raw) == "null"
	}
	return json.Unmarshal(raw, to) == nil
}

func uintOf(raw json.RawMessage, to *uint64) bool {
	if len(raw) == 0 {
		return true
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	*to = n
	return err == nil
}

// loneSurrogate says whether JSON has half a pair of surrogates.
func loneSurrogate(b []byte) bool {
	half := false // a high one is open
	for i := 0; i < len(b); {
		n := uint64(0)
		switch {
		case b[i] != '\\':
			i++
		case i+6 <= len(b) && b[i+1] == 'u':
			n, _ = strconv.ParseUint(string(b[i+2:i+6]), 16, 32)
			i += 6
		default:
			i += 2
		}
		low := 0xdc00 <= n && n < 0xe000
		if half != low {
			return true
		}
		half = 0xd800 <= n && n < 0xdc00
	}
	return half
}

// depthOf returns how deep valid JSON is nested.
func depthOf(b []byte) (deepest int) {
	depth, inside := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case inside:
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}
