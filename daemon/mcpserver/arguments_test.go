package mcpserver

import (
	"reflect"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/mcpserver/mcptest"
	"crabmem/fuzz/race"
)

// TestArguments: the server accepts numbers in text and null in place of an omitted
// argument, and describes wrong arguments in words.
func TestArguments(t *testing.T) {
	race.Skip(t)
	const try = " Try: follow the input schema of the tool"
	for _, c := range []struct {
		compat, tool, args string
		want               string // the text of the result, or its beginning if accepted
		ok                 bool
	}{
		{tool: "recall", args: `{"query":"a","limit":"1"}`, want: "1 of 2 matches", ok: true},
		{tool: "recall", args: `{"query":"a","limit":" 1 ","bodies":"true"}`, want: "1 of 2 matches", ok: true},
		{tool: "recall", args: `{"query":"a","limit":null,"kind":null,"bodies":null,"budget_tokens":null}`, want: "2 of 2 matches", ok: true},
		{tool: "list_memories", args: `{"cursor":null,"limit":"1"}`, want: "1 of 2 entries", ok: true},
		{tool: "list_memories", args: `null`, want: "2 of 2 entries", ok: true},
		{tool: "list_memories", args: `[]`, want: "2 of 2 entries", ok: true},
		{tool: "list_memories", args: `""`, want: "2 of 2 entries", ok: true},
		{tool: "list_memories", args: `"{\"limit\":\"1\"}"`, want: "1 of 2 entries", ok: true},
		{tool: "list_memories", args: `{"limit":1.0,"kind":" Note "}`, want: "1 of 2 entries", ok: true},
		{tool: "recall", args: `{"query":"a","limit":0,"kind":"","bodies":"False","budget_tokens":"","tags":"","after":"","type":""}`, want: "2 of 2 matches", ok: true},
		{tool: "recall", args: `{"query":"a","limit":[],"kind":{},"bodies":"null","tags":{}}`, want: "2 of 2 matches", ok: true},
		{tool: "recall", args: `{"query":5,"tags":"[]"}`, want: "0 of 0 matches", ok: true},
		{tool: "remember", args: `{"name":true,"content":42,"aliases":["",1],"tags":"[\"a\",null]"}`, want: "remembered the new note true, 2 bytes", ok: true},
		{compat: CompatAnthropic, tool: "memory", args: `{"command":"view","path":"/memories/f","view_range":["1","-1"],"file_text":null,"insert_line":null}`, want: "Here's the content of /memories/f", ok: true},
		{tool: "remember", args: `{"name":"new","content":"text","aliases":null,"labels":["x"]}`, ok: true,
			want: "remembered the new note new, 4 bytes\nignored unknown arguments: \"labels\"; the arguments are aliases, caused_by, content, contradicts, conversation, date, expires, if_version, importance, name, part_of, position, related, role, supersedes, tags, type"},

		{tool: "recall", args: `{"query":null}`, want: "query must be text, and is null"},
		{tool: "recall", args: `{"query":"a","limit":-1}`, want: "limit must be at least 1, and is -1"},
		{tool: "recall", args: `{"query":"a","budget_tokens":19}`, want: "budget_tokens must be at least 20, and is 19"},
		{tool: "recall", args: `{"query":"a","limit":1.5}`, want: "limit must be a whole number, and is 1.5"},
		{tool: "recall", args: `{"query":"a","limit":"many"}`, want: `limit must be a whole number, and is text "many"`},
		{tool: "recall", args: `{"query":"a","limit":"1e999"}`, want: `limit must be a whole number, and is text "1e999"`},
		{tool: "recall", args: `{"query":[5],"bodies":"yes"}`, want: `query must be text, and is a list; bodies must be true or false, and is text "yes"`},
		{tool: "recall", args: `{"query":"a","kind":"topic"}`, want: `kind must be note or archive, and is "topic"`},
		{tool: "recall", args: `{"query":"` + strings.Repeat("é", 16<<10+1) + `"}`, want: "query must have at most 16384 characters, and has 16385"},
		{tool: "recall", args: `{"query":"a","limits":5}`, want: `unknown argument "limits"; did you mean limit?`},
		{tool: "recall", args: `{"q":"a"}`, want: `query is missing; unknown argument "q"; did you mean query?`},
		{tool: "remember", args: `{"name":"n","text":"a"}`, want: `content is missing; unknown argument "text"; did you mean content?`},
		{tool: "remember", args: `{"title":"n","zzz":"a"}`, want: `name is missing; content is missing; unknown argument "title"; the arguments are aliases, caused_by, content, contradicts, conversation, date, expires, if_version, importance, name, part_of, position, related, role, supersedes, tags, type; unknown argument "zzz"; the arguments are aliases, caused_by, content, contradicts, conversation, date, expires, if_version, importance, name, part_of, position, related, role, supersedes, tags, type`},
		{tool: "remember", args: `{"name":"n","content":"a","aliases":"b"}`, want: `aliases must be a list, and is text "b": send a list, such as ["b"]`},
		{tool: "remember", args: `{"name":"n","content":"a","aliases":"['b']"}`, want: `aliases must be a list, and is text "['b']": send a list, such as ["['b']"]`},
		{tool: "remember", args: `{"name":"n","content":"a","aliases":["b",{"c":1}]}`, want: "aliases[1] must be text, and is an object"},
		{tool: "remember", args: `{"name":"n","content":"a","aliases":"[\"b\",{\"c\":1}]"}`, want: "aliases[1] must be text, and is an object"},
		{tool: "remember", args: `{"name":"n","content":"a","tags":"[\"\\ud800\"]"}`, want: "lone surrogate in JSON text: send complete characters"},
		{tool: "remember", args: `{"name":"","content":"a"}`, want: "name is empty"},
		{tool: "recall", args: `"{\"query\":\"\\ud800\"}"`, want: "lone surrogate in JSON text: send complete characters"},
		{tool: "recall", args: `"query"`, want: "the arguments must be an object"},
		{tool: "remember", args: `{"name":"n","content":"a","name":"m"}`, want: `"name" occurs twice`},
		{tool: "recall", args: `["query"]`, want: "the arguments must be an object"},
		{compat: CompatReference, tool: "create_entities", args: `{"entities":"[{\"name\":\"a\",\"entityType\":\"b\",\"observations\":[\"\",1]}]"}`, want: "[\n  {\n    \"name\": \"a\",\n    \"entityType\": \"b\",\n    \"observations\": [\n      \"\",\n      \"1\"", ok: true},
		{compat: CompatReference, tool: "create_entities", args: `{"entities":[{"name":"a","entityType":"b"}]}`, want: "entities[0].observations is missing"},
		{compat: CompatReference, tool: "add_observations", args: `{"observations":[{"entityName":"a","contents":["b",{}]}]}`, want: "observations[0].contents[1] must be text, and is an object"},
	} {
		s := newRawServer(t, c.compat)
		fill(t, strings.TrimSuffix(s.db, "/memory.db"), crmem.Entry{Name: "/memories/f", Content: "a"}, crmem.Entry{Name: "m2", Content: "a b"})
		text, ok := s.call(c.tool, c.args)
		if c.ok && (!ok || !strings.HasPrefix(text, c.want)) {
			t.Errorf("%s %s: accepted %t, %q, want %q", c.tool, c.args, ok, text, c.want)
		} else if !c.ok && (ok || text != "wrong arguments: "+c.want+try && text != "wrong arguments: "+c.want+"."+try) {
			t.Errorf("%s %s: accepted %t, %q, want %q", c.tool, c.args, ok, text, c.want)
		}
	}
}

// TestArgumentNotes: a note about an argument is in the text and in the structure.
func TestArgumentNotes(t *testing.T) {
	s := newTestServer(t, t.TempDir())
	client := connectStdio(t, s, nil)
	res, text := mcptest.Call(t, client, "recall", map[string]any{"query": "a", "limit": 500, "max_results": 3})
	want := []any{"limit 500 was read as 50, the maximum",
		`ignored unknown arguments: "max_results"; the arguments are after, before, bodies, budget_tokens, diverse, expand, fusion, half_life, importance, in, kind, lambda, limit, min_share, project, query, sort, tags, type`}
	got := res.StructuredContent.(map[string]any)["argument_notes"]
	if !reflect.DeepEqual(got, want) || !strings.HasSuffix(text, "\n"+want[0].(string)+"\n"+want[1].(string)) {
		t.Errorf("%q, and %q", got, text)
	}
	if res, _ := mcptest.Call(t, client, "recall", map[string]any{"query": "a"}); res.StructuredContent.(map[string]any)["argument_notes"] != nil {
		t.Errorf("%v", res.StructuredContent)
	}
}
