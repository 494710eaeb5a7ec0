package mcpserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"crabmem/crmem"
	"crabmem/daemon/guard"
	"crabmem/daemon/mcpserver/compat/memgraph"
	"crabmem/fuzz/race"
)

// rawServer takes messages as bytes, which no client in between can alter.
type rawServer struct {
	t       *testing.T
	db      string
	handler http.Handler
}

func newRawServer(t *testing.T, mode string) *rawServer {
	t.Helper()
	s := newTestServer(t, t.TempDir(), compat(mode))
	return &rawServer{t, s.o.Path, s.httpHandler(newBearer(testToken), guard.NewHosts("127.0.0.1", "80", nil), 1)}
}

// call returns the text of a tool's result, and whether the server accepted
// the call.
func (s *rawServer) call(tool, args string) (text string, ok bool) {
	s.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)
	r := httptest.NewRequest("POST", "http://127.0.0.1/mcp", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+testToken)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if w.Code >= 400 && w.Code < 500 {
		return w.Body.String(), false
	}
	var m struct {
		Error  *struct{ Message string }
		Result struct {
			Content []struct{ Text string }
			IsError bool
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil || w.Code != 200 || !utf8.Valid(w.Body.Bytes()) {
		s.t.Fatalf("%s %q: status %d, %v, %q", tool, args, w.Code, err, w.Body)
	}
	if m.Error != nil {
		return m.Error.Message, false
	}
	if len(m.Result.Content) != 1 {
		s.t.Fatalf("%s %q: %q", tool, args, w.Body)
	}
	return m.Result.Content[0].Text, !m.Result.IsError
}

// TestExactText: the server stores the text that it was sent or refuses the
// call and names the argument.
func TestExactText(t *testing.T) {
	for _, c := range []struct{ compat, tool, args, want string }{
		{"", "remember", `{"name":"a\ud800","content":"x"}`, `argument name: lone surrogate \ud800: send complete characters`},
		{"", "remember", `{"name":"a","content":"x\udc00y"}`, `argument content: lone surrogate \udc00: send complete characters`},
		{"", "remember", `{"name":"a","content":"\ud83d\u0041"}`, `argument content: lone surrogate \ud83d: send complete characters`},
		{"", "remember", `{"name":"a","content":"x","aliases":["b","\udfff"]}`, `argument aliases[1]: lone surrogate \udfff: send complete characters`},
		{"", "remember", `{"name":"a","content":"x","\ud800":1}`, `name of an argument: lone surrogate \ud800: send complete characters`},
		{"", "remember", "{\"name\":\"a\",\"content\":\"x\xff\"}", `argument content: invalid UTF-8: send text`},
		{"", "remember", "{\"name\":\"a\",\"content\":\"\xed\xa0\x80\"}", `argument content: invalid UTF-8: send text`},
		{"", "forget", `{"name":"\ud800"}`, `argument name: lone surrogate \ud800: send complete characters`},
		{"reference", "create_entities", `{"entities":[{"name":"a","entityType":"b","observations":["c","\ud800"]}]}`,
			`argument entities[0].observations[1]: lone surrogate \ud800: send complete characters`},
		{"reference", "create_relations", `{"relations":[{"from":"a","to":"\ud800","relationType":"b"}]}`,
			`argument relations[0].to: lone surrogate \ud800: send complete characters`},
		{"anthropic", "memory", `{"command":"create","path":"/memories/a","file_text":"\ud800"}`,
			`argument file_text: lone surrogate \ud800: send complete characters`},
	} {
		s := newRawServer(t, c.compat)
		if text, ok := s.call(c.tool, c.args); ok || text != c.want {
			t.Errorf("%s %q: accepted %t, %q, want %q", c.tool, c.args, ok, text, c.want)
		}
		if _, err := crmem.Open(s.db, &crmem.Options{ReadOnly: true, MustExist: true}); err == nil {
			t.Errorf("%s %q: the store was made", c.tool, c.args)
		}
	}
	s := newRawServer(t, "")
	if text, ok := s.call("remember", `{"name":"\ud83d\ude00","content":"\u0041\\ud800 \ud83d\ude00 \ufffd \u0000\r\n\u2028 日","aliases":["\\udc00"]}`); !ok {
		t.Fatal(text)
	}
	e := entriesIn(s.t, s.db)
	if len(e) != 1 || e[0].Name != "😀" || e[0].Content != "A\\ud800 😀 \ufffd \x00\r\n\u2028 日" || !slices.Equal(e[0].Aliases, []string{`\udc00`}) {
		t.Errorf("stored %+v", e)
	}
}

// toolsOf lists the tools of each contract. Those that create come first.
var toolsOf = map[string][]string{
	"":              {"remember", "recall", "get_memory", "list_memories", "memory_history", "forget", "session_search"},
	CompatReference: {"create_entities", "create_relations", "add_observations", "read_graph", "search_nodes", "open_nodes", "delete_observations", "delete_relations", "delete_entities"},
	CompatAnthropic: {"memory"},
}

// FuzzArguments calls every tool with any arguments. The server stores
// exactly the text that it was sent, or refuses the call, and serves the next.
func FuzzArguments(f *testing.F) {
	race.Skip(f)
	for _, seed := range []string{`{}`, `null`, `{"name":"a","content":"b"}`, `{"query":"a","limit":1e400}`, `{"command":"create","path":"/memories/x","file_text":"y"}`,
		`{"entities":[{"name":"a","entityType":"b","observations":["c"]}]}`, `{"cursor":"YWZ0ZXIgMQ"}`, `{"name":"\ud800"}`, `{"name":"a","name":"b"}`, `{"names":[null]}`,
		`{"name":"a","content":"\ud83d\ude00\\ud800\u0000"}`, `{"name":"a","content":"\ud83d\ud83d\ude00"}`, "{\"name\":\"a\",\"content\":\"\xff\"}",
		`{"name":"a","content":"b","aliases":["\u00e9","\udc00"]}`, `{"name":"a","Name":"b","content":"c","CONTENT":"d"}`,
		`{"entities":[{"name":"a\n- b","entityType":" \" → ","observations":["","- \r\n  x","**Relations:**"]}]}`,
		`{"command":"create","path":"/memories/x/","file_text":"a\r\nb\n\n"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, args string) {
		if !json.Valid([]byte(args)) {
			return
		}
		exact := isExact(args)
		for mode, tools := range toolsOf {
			s := newRawServer(t, mode)
			for _, tool := range tools {
				text, ok := s.call(tool, args)
				if ok && !exact {
					t.Errorf("%s accepts inexact text: %q: %q", tool, args, text)
				}
				if ok {
					checkStored(t, s, tool, args)
				}
			}
		}
	})
}

// isExact reports whether every string of a JSON text has an exact value.
func isExact(args string) bool {
	for args != "" {
		_, rest, found := strings.Cut(args, `"`)
		if !found {
			return true
		}
		end := 0
		for rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		if _, ok := exactString(rest[:end]); !ok {
			return false
		}
		args = rest[end+1:]
	}
	return true
}

// exactString returns the value of a JSON string without its quotes, and false
// if no text has that value.
func exactString(s string) (string, bool) {
	if !utf8.ValidString(s) {
		return "", false
	}
	var units []uint16
	for s != "" {
		if s[0] != '\\' {
			r, size := utf8.DecodeRuneInString(s)
			units, s = utf16.AppendRune(units, r), s[size:]
			continue
		}
		size := 2
		switch s[1] {
		case 'u':
			n, err := strconv.ParseUint(s[2:6], 16, 16)
			if err != nil {
				return "", false
			}
			units, size = append(units, uint16(n)), 6
		default:
			units = append(units, uint16(map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}[s[1]]))
		}
		s = s[size:]
	}
	text := utf16.Decode(units)
	return string(text), slices.Equal(utf16.Encode(text), units)
}

// checkStored compares the store with the arguments of a call that a writing
// tool accepted.
func checkStored(t *testing.T, s *rawServer, tool, args string) {
	t.Helper()
	members := func(raw json.RawMessage) map[string]json.RawMessage {
		var m map[string]json.RawMessage
		_ = json.Unmarshal(raw, &m)
		return m
	}
	text := func(raw json.RawMessage) string {
		lit := strings.TrimSpace(string(raw))
		if len(lit) < 2 || lit[0] != '"' {
			return ""
		}
		v, _ := exactString(lit[1 : len(lit)-1])
		return v
	}
	list := func(raw json.RawMessage) (l []json.RawMessage) {
		_ = json.Unmarshal(raw, &l)
		return l
	}
	find := func(name string) (crmem.Entry, bool) {
		for _, e := range entriesIn(s.t, s.db) {
			if e.Name == name {
				return e, true
			}
		}
		return crmem.Entry{}, false
	}
	in := members(json.RawMessage(args))
	switch {
	case tool == "remember":
		e, ok := find(text(in["name"]))
		if !ok || e.Content != text(in["content"]) {
			t.Errorf("remember %q stored %+v", args, e)
		}
		for _, a := range list(in["aliases"]) {
			if !slices.Contains(e.Aliases, text(a)) {
				t.Errorf("remember %q stored the aliases %q", args, e.Aliases)
			}
		}
	case tool == "memory" && text(in["command"]) == "create":
		if e, ok := find(strings.TrimSuffix(text(in["path"]), "/")); !ok || e.Content != text(in["file_text"]) {
			t.Errorf("create %q stored %+v", args, e)
		}
	case tool == "create_entities":
		seen := make(map[string]bool)
		for _, raw := range list(in["entities"]) {
			o := members(raw)
			name := text(o["name"])
			if seen[name] {
				continue
			}
			seen[name] = true
			e, _ := find(name)
			n, ok := memgraph.ParseNode(e.Name, e.Content)
			if !ok || n.Name != name || n.EntityType != text(o["entityType"]) {
				t.Errorf("create_entities %q stored %+v", args, e)
				continue
			}
			var want []string
			for _, obs := range list(o["observations"]) {
				want = append(want, text(obs))
			}
			if !slices.Equal(n.Observations, want) {
				t.Errorf("create_entities %q stored %q, want %q", args, n.Observations, want)
			}
		}
	}
}
