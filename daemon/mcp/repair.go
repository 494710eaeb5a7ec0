package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"crabmem/daemon/lazyregexp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxGlued limits the braces of a line at which a message is searched.
const maxGlued = 32

// repairer turns odd messages of a server into messages that the SDK accepts.
// It repairs an odd item of a list, or an odd part of a result, alone.
type repairer struct {
	odd func(text string) // receives a description of what was omitted
}

// message returns a message that the SDK can decode, or nil if the text is not
// one.
func (r *repairer) message(text []byte) []byte {
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
	if len(text) == 0 || text[0] != '{' {
		return nil
	}
	raw := text
	if !json.Valid(raw) {
		raw = withoutNaN(raw)
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	if _, ok := m["method"]; ok {
		return raw
	}
	changed := false
	set := func(name string, value any) {
		if b, err := json.Marshal(value); err == nil {
			m[name], changed = b, true
		}
	}
	if b, ok := m["error"]; ok && string(b) != "null" && json.Unmarshal(b, new(jsonrpc.Error)) != nil {
		set("error", jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: clipped(plain(b), maxDescription)})
	}
	if b, ok := r.result(m["result"]); ok {
		set("result", b)
	}
	if changed {
		if b, err := json.Marshal(m); err == nil {
			raw = b
		}
	}
	if _, err := jsonrpc.DecodeMessage(raw); err != nil {
		return nil
	}
	return raw
}

// response is message for the text of a response. A response that cannot be
// repaired becomes an error response, so that the call ends.
func (r *repairer) response(text []byte) []byte {
	if m := r.message(text); m != nil {
		return m
	}
	return unreadable(text)
}

// messages returns the messages of a line of a server's output. Text before a
// response, such as a log line without a line break, is ignored.
func (r *repairer) messages(line []byte) [][]byte {
	rest := line
	for range maxGlued {
		at := bytes.IndexByte(rest, '{')
		if at < 0 {
			break
		}
		start := len(bytes.Trim(line[:len(line)-len(rest)+at], "\ufeff \t\r")) == 0
		rest = rest[at:]
		var list [][]byte
		add := func(text []byte) bool {
			m := r.message(text)
			if m != nil && (start || !isRequest(m)) {
				list = append(list, m)
			}
			return m != nil
		}
		if !add(rest) {
			for d := json.NewDecoder(bytes.NewReader(rest)); ; {
				var v json.RawMessage
				if d.Decode(&v) != nil {
					break
				}
				add(v)
			}
		}
		if list != nil {
			return list
		}
		rest = rest[1:]
	}
	if m := unreadable(line); m != nil {
		return [][]byte{m}
	}
	return nil
}

// isRequest reports whether a message has a method.
func isRequest(message []byte) bool {
	var m struct{ Method json.RawMessage }
	return json.Unmarshal(message, &m) == nil && m.Method != nil
}

// result returns a repaired result, or false if the result needs no repair.
func (r *repairer) result(raw json.RawMessage) (json.RawMessage, bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil, false
	}
	tools, isList := m["tools"]
	content, isCall := m["content"]
	switch {
	case isList && json.Unmarshal(raw, new(sdk.ListToolsResult)) != nil:
		m["tools"] = r.tools(tools)
		if b, _ := json.Marshal(m); json.Unmarshal(b, new(sdk.ListToolsResult)) != nil {
			keepOnly(m, "tools", "nextCursor")
		}
	case isCall && json.Unmarshal(raw, new(sdk.CallToolResult)) != nil:
		m["content"] = parts(content)
		if b, _ := json.Marshal(m); json.Unmarshal(b, new(sdk.CallToolResult)) != nil {
			if failed := m["isError"]; string(failed) != "true" && string(failed) != `"true"` {
				delete(m, "isError")
			} else {
				m["isError"] = json.RawMessage("true")
			}
			keepOnly(m, "content", "structuredContent", "isError")
		}
	default:
		return nil, false
	}
	b, err := json.Marshal(m)
	return b, err == nil
}

func keepOnly(m map[string]json.RawMessage, names ...string) {
	maps.DeleteFunc(m, func(name string, _ json.RawMessage) bool { return !slices.Contains(names, name) })
}

// tools returns a list of tools without odd members of tools, and without tools
// that lack a name.
func (r *repairer) tools(raw json.RawMessage) json.RawMessage {
	var items, kept []json.RawMessage
	var odd []string
	if json.Unmarshal(raw, &items) != nil {
		return raw // no list can be made of it
	}
	for _, item := range items {
		if json.Unmarshal(item, new(sdk.Tool)) == nil {
			kept = append(kept, item)
			continue
		}
		var m map[string]json.RawMessage
		_ = json.Unmarshal(item, &m) // nil: has no name
		var name string
		if json.Unmarshal(m["name"], &name) != nil || name == "" {
			odd = append(odd, "omitted a tool without a name")
			continue
		}
		for member, v := range m {
			if b, _ := json.Marshal(map[string]json.RawMessage{member: v}); json.Unmarshal(b, new(sdk.Tool)) != nil {
				delete(m, member)
				odd = append(odd, fmt.Sprintf("ignored the invalid %s of tool %s", oneLine(clipped(member, maxToolName)), oneLine(clipped(name, maxToolName))))
			}
		}
		if b, err := json.Marshal(m); err == nil {
			kept = append(kept, b)
		}
	}
	if odd != nil {
		slices.Sort(odd)
		r.odd(clipped(strings.Join(odd, "; "), maxDescription))
	}
	b, err := json.Marshal(kept)
	if err != nil || kept == nil {
		return json.RawMessage("[]")
	}
	return b
}

// parts returns the content of a result as a list. It replaces a part that
// cannot be decoded by a text.
func parts(raw json.RawMessage) json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		items = []json.RawMessage{raw}
	}
	for i, item := range items {
		if json.Unmarshal(fmt.Appendf(nil, `{"content":[%s]}`, item), new(sdk.CallToolResult)) == nil {
			continue
		}
		text := plain(item)
		var m map[string]json.RawMessage
		if json.Unmarshal(item, &m) == nil && m != nil {
			kind := "no type"
			if t := plain(m["type"]); t != "" {
				kind = "type " + oneLine(clipped(t, 100))
			}
			text = "[content of " + kind + " that is not valid"
			if t, ok := m["text"]; ok {
				text += "]\n" + plain(t)
			} else {
				text += ": " + clipped(string(item), maxDescription) + "]"
			}
		}
		if b, err := json.Marshal(map[string]string{"type": "text", "text": text}); err == nil {
			items[i] = b
		}
	}
	b, err := json.Marshal(items)
	if err != nil {
		return json.RawMessage("[]")
	}
	return b
}

// plain returns a JSON value as text: the value of a string, a member named
// message, or the JSON text.
func plain(raw json.RawMessage) string {
	var text string
	var m struct{ Message string }
	switch {
	case json.Unmarshal(raw, &text) == nil:
		return text
	case json.Unmarshal(raw, &m) == nil && m.Message != "":
		return m.Message
	}
	return string(raw)
}

// notJSON matches strings, and numbers that JSON lacks.
var notJSON = lazyregexp.New(`"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity|inf)\b`)

// withoutNaN replaces numbers that JSON lacks by null.
func withoutNaN(text []byte) []byte {
	return notJSON().ReplaceAllFunc(text, func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		return []byte("null")
	})
}

var (
	messageID  = lazyregexp.New(`"id"\s*:\s*(-?[0-9]+|"[^"\\]{1,100}")`)
	isResponse = lazyregexp.New(`"(?:result|error)"\s*:`)
)

// unreadable returns an error response for a response that is not valid, or nil
// if the text does not look like a response with an ID.
func unreadable(text []byte) []byte {
	id := messageID().FindSubmatch(text)
	if id == nil || !bytes.Contains(text, []byte(`"jsonrpc"`)) || bytes.Contains(text, []byte(`"method"`)) || !isResponse().Match(text) {
		return nil
	}
	message := "server sent an invalid response: " + clipped(oneLine(strings.ToValidUTF8(string(text), "\uFFFD")), 500)
	b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id[1]), "error": map[string]any{"code": jsonrpc.CodeParseError, "message": message}})
	return b
}
