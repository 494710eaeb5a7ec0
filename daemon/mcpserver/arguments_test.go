package mcpserver

import (
	"strings"
	"testing"

	"crabmem/crmem"
)

// TestArguments: the server accepts numbers in text and null in place of an omitted
// argument, and describes wrong arguments in words.
func TestArguments(t *testing.T) {
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
		{compat: CompatAnthropic, tool: "memory", args: `{"command":"view","path":"/memories/f","view_range":["1","-1"],"file_text":null,"insert_line":null}`, want: "Here's the content of /memories/f", ok: true},
		{tool: "remember", args: `{"name":"new","content":"text","aliases":null,"labels":["x"]}`, ok: true,
			want: "remembered the new note new, 4 bytes\nignored unknown arguments: \"labels\"; the arguments are aliases, caused_by, content, contradicts, expires, if_version, importance, name, part_of, related, supersedes, tags, type"},

		{tool: "recall", args: `{"query":null}`, want: "query must be text, and is null"},
		{tool: "recall", args: `{"query":"a","limit":"51"}`, want: "limit must be at most 50, and is 51"},
		{tool: "recall", args: `{"query":"a","limit":0}`, want: "limit must be at least 1, and is 0"},
		{tool: "recall", args: `{"query":"a","limit":1.5}`, want: "limit must be a whole number, and is 1.5"},
		{tool: "recall", args: `{"query":"a","limit":"many"}`, want: `limit must be a whole number, and is text "many"`},
		{tool: "recall", args: `{"query":"a","limit":"1e999"}`, want: `limit must be a whole number, and is text "1e999"`},
		{tool: "recall", args: `{"query":"a","limit":1e999}`, want: "limit must be at most 50, and is 1e999"},
		{tool: "recall", args: `{"query":5,"bodies":"yes"}`, want: `query must be text, and is a number; bodies must be true or false, and is text "yes"`},
		{tool: "recall", args: `{"query":"a","kind":"topic"}`, want: `kind must be note or archive, and is "topic"`},
		{tool: "recall", args: `{"query":"` + strings.Repeat("é", 16<<10+1) + `"}`, want: "query must have at most 16384 characters, and has 16385"},
		{tool: "recall", args: `{"query":"a","limits":5}`, want: `unknown argument "limits"; did you mean limit?`},
		{tool: "recall", args: `{"q":"a"}`, want: `query is missing; unknown argument "q"; did you mean query?`},
		{tool: "remember", args: `{"name":"n","text":"a"}`, want: `content is missing; unknown argument "text"; did you mean content?`},
		{tool: "remember", args: `{"title":"n","zzz":"a"}`, want: `name is missing; content is missing; unknown argument "title"; the arguments are aliases, caused_by, content, contradicts, expires, if_version, importance, name, part_of, related, supersedes, tags, type; unknown argument "zzz"; the arguments are aliases, caused_by, content, contradicts, expires, if_version, importance, name, part_of, related, supersedes, tags, type`},
		{tool: "remember", args: `{"name":"n","content":"a","aliases":"b"}`, want: `aliases must be a list, and is text "b"`},
		{tool: "remember", args: `{"name":"n","content":"a","aliases":["b",1]}`, want: "aliases[1] must be text, and is a number"},
		{tool: "remember", args: `{"name":"n","content":"a","name":"m"}`, want: `"name" occurs twice`},
		{tool: "recall", args: `["query"]`, want: "the arguments must be an object"},
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
