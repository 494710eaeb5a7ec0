package mcpserver

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/mcpserver/compat/memgraph"
	"crabmem/daemon/mcpserver/mcptest"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A step of a contract: a call, and what the answer is.
type step struct {
	tool  string
	args  dict
	text  string // exactly
	fails bool
	// structured is the answer's structure, as JSON; "" is not looked at.
	structured string
	// data wants the answer after its first line between marks, which text is
	// without.
	data bool
}

var referenceSteps = []step{
	{tool: "read_graph", args: dict{}, text: "{\n  \"entities\": [],\n  \"relations\": []\n}", structured: `{"entities":[],"relations":[]}`},
	{tool: "create_entities", args: dict{"entities": []memgraph.Entity{{Name: "Ada", EntityType: "person", Observations: []string{"wrote <programs>", "two\nlines"}}, {Name: "engine", EntityType: "machine", Observations: []string{}}}},
		text:       "[\n  {\n    \"name\": \"Ada\",\n    \"entityType\": \"person\",\n    \"observations\": [\n      \"wrote <programs>\",\n      \"two\\nlines\"\n    ]\n  },\n  {\n    \"name\": \"engine\",\n    \"entityType\": \"machine\",\n    \"observations\": []\n  }\n]",
		structured: `{"entities":[{"name":"Ada","entityType":"person","observations":["wrote <programs>","two\nlines"]},{"name":"engine","entityType":"machine","observations":[]}]}`},
	{tool: "create_entities", args: dict{"entities": []memgraph.Entity{{Name: "Ada", EntityType: "again", Observations: []string{"x"}}}}, text: "[]", structured: `{"entities":[]}`},
	{tool: "create_relations", args: dict{"relations": []memgraph.Relation{{From: "Ada", To: "engine", RelationType: "wrote_for"}, {From: "engine", To: "Babbage", RelationType: "built by"}}},
		structured: `{"relations":[{"from":"Ada","to":"engine","relationType":"wrote_for"},{"from":"engine","to":"Babbage","relationType":"built by"}]}`},
	{tool: "create_relations", args: dict{"relations": []memgraph.Relation{{From: "Ada", To: "engine", RelationType: "wrote_for"}}}, text: "[]", structured: `{"relations":[]}`},
	{tool: "add_observations", args: dict{"observations": []memgraph.NewObservations{{EntityName: "Ada", Contents: []string{"wrote <programs>", "knew Babbage"}}}},
		text:       "[\n  {\n    \"entityName\": \"Ada\",\n    \"addedObservations\": [\n      \"knew Babbage\"\n    ]\n  }\n]",
		structured: `{"results":[{"entityName":"Ada","addedObservations":["knew Babbage"]}]}`},
	{tool: "add_observations", args: dict{"observations": []memgraph.NewObservations{{EntityName: "engine", Contents: []string{"brass"}}, {EntityName: "nobody", Contents: []string{"x"}}}}, fails: true, text: "Entity with name nobody not found"},
	{tool: "search_nodes", args: dict{"query": "BABBAGE"},
		structured: `{"entities":[{"name":"Ada","entityType":"person","observations":["wrote <programs>","two\nlines","knew Babbage"]}],"relations":[{"from":"Ada","to":"engine","relationType":"wrote_for"}]}`},
	{tool: "search_nodes", args: dict{"query": "mach"},
		structured: `{"entities":[{"name":"engine","entityType":"machine","observations":[]}],"relations":[{"from":"Ada","to":"engine","relationType":"wrote_for"},{"from":"engine","to":"Babbage","relationType":"built by"}]}`},
	{tool: "search_nodes", args: dict{"query": "nothing like it"}, structured: `{"entities":[],"relations":[]}`},
	{tool: "open_nodes", args: dict{"names": []string{"engine", "nobody"}},
		structured: `{"entities":[{"name":"engine","entityType":"machine","observations":[]}],"relations":[{"from":"Ada","to":"engine","relationType":"wrote_for"},{"from":"engine","to":"Babbage","relationType":"built by"}]}`},
	{tool: "delete_observations", args: dict{"deletions": []memgraph.OldObservations{{EntityName: "Ada", Observations: []string{"knew Babbage", "never said"}}, {EntityName: "nobody", Observations: []string{"x"}}}},
		text: "Observations deleted successfully", structured: `{"success":true,"message":"Observations deleted successfully"}`},
	{tool: "delete_relations", args: dict{"relations": []memgraph.Relation{{From: "engine", To: "Babbage", RelationType: "built by"}, {From: "a", To: "b", RelationType: "c"}}},
		text: "Relations deleted successfully", structured: `{"success":true,"message":"Relations deleted successfully"}`},
	{tool: "read_graph", args: dict{},
		structured: `{"entities":[{"name":"Ada","entityType":"person","observations":["wrote <programs>","two\nlines"]},{"name":"engine","entityType":"machine","observations":[]}],"relations":[{"from":"Ada","to":"engine","relationType":"wrote_for"}]}`},
	{tool: "create_relations", args: dict{"relations": []memgraph.Relation{{From: "nobody", To: "Ada", RelationType: "knows"}}}, structured: `{"relations":[{"from":"nobody","to":"Ada","relationType":"knows"}]}`},
	{tool: "delete_entities", args: dict{"entityNames": []string{"engine", "someone"}},
		text: "Entities deleted successfully", structured: `{"success":true,"message":"Entities deleted successfully"}`},
	{tool: "read_graph", args: dict{},
		structured: `{"entities":[{"name":"Ada","entityType":"person","observations":["wrote <programs>","two\nlines"]}],"relations":[{"from":"nobody","to":"Ada","relationType":"knows"}]}`},
	{tool: "delete_entities", args: dict{"entityNames": []string{"Ada"}}},
	{tool: "read_graph", args: dict{}, structured: `{"entities":[],"relations":[]}`},
}

// takeSteps makes the calls and compares the answers.
func takeSteps(t *testing.T, s *mcp.ClientSession, steps []step) {
	t.Helper()
	for i, c := range steps {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		if err != nil {
			t.Fatalf("step %d, %s: %v", i, c.tool, err)
		}
		text := mcptest.Text(t, res)
		if c.data {
			head, rest, _ := strings.Cut(text, "\n")
			text = head + "\n" + strings.Join(dataIn(t, rest), "\n")
		}
		if res.IsError != c.fails || c.text != "" && text != c.text {
			t.Errorf("step %d, %s %v:\n got error %t, %q\nwant error %t, %q", i, c.tool, c.args, res.IsError, text, c.fails, c.text)
		}
		if c.structured == "" {
			continue
		}
		var want any
		if err := json.Unmarshal([]byte(c.structured), &want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, res.StructuredContent); d != "" {
			t.Errorf("step %d, %s %v:\n%s", i, c.tool, c.args, d)
		}
	}
}

func TestReference(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir, compat(CompatReference))
	takeSteps(t, s, referenceSteps)

	// Other notes are no entities, and are left alone.
	for name, kind := range map[string]crmem.Kind{"plain": crmem.Note, "talk": crmem.Archive} {
		fill(t, dir, crmem.Entry{Name: name, Kind: kind, Content: "* not an entity"})
		mcptest.Refused(t, s, "create_entities", dict{"entities": []memgraph.Entity{{Name: "fresh", EntityType: "x", Observations: []string{}}, {Name: name, EntityType: "x", Observations: []string{}}}}, `"`+name+`" names an entry of kind (note|archive), not an entity. Try: choose another name`)
		mcptest.Refused(t, s, "create_relations", dict{"relations": []memgraph.Relation{{From: name, To: "x", RelationType: "y"}}}, `not an entity`)
		must[doneOut](t, s, "delete_entities", dict{"entityNames": []string{name}})
	}
	mcptest.Refused(t, s, "create_entities", dict{"entities": []memgraph.Entity{{Name: "", EntityType: "x", Observations: []string{}}}}, "invalid")
	mcptest.Refused(t, s, "create_entities", dict{"entities": "Ada"}, `^wrong arguments: entities must be a list, and is text "Ada". Try: follow the input schema`)
	if g, _ := must[memgraph.Part](t, s, "read_graph", nil); len(g.Entities) != 0 {
		t.Errorf("a call that was refused left %+v", g)
	}
	if text := content(t, dir, "plain"); text != "* not an entity" {
		t.Errorf("the note is %q now", text)
	}
	// What people add to the note of an entity is in the graph; aliases stay.
	must[entitiesIO](t, s, "create_entities", dict{"entities": []memgraph.Entity{{Name: "Grace", EntityType: "person", Observations: []string{"one"}}}})
	addNote(t, dir, "Grace", "**Entity:** person\n\n- one\n\nadded by hand\n", "Hopper")
	must[addObservationsOut](t, s, "add_observations", dict{"observations": []memgraph.NewObservations{{EntityName: "Grace", Contents: []string{"two"}}}})
	if text := content(t, dir, "Hopper"); text != "**Entity:** person\n\n- one\n- added by hand\n- two\n" {
		t.Errorf("the note is %q", text)
	}
	read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: graphURI})
	if err != nil || !strings.Contains(read.Contents[0].Text, "added by hand") {
		t.Errorf("the resource: %+v %v", read, err)
	}
}

// TestReferenceServer takes the same steps with the reference server, and
// compares what the two offer.
func TestReferenceServer(t *testing.T) {
	t.Parallel()
	cmd := mcptest.Npx(t, "reference-server", "@modelcontextprotocol/server-memory@2026.8.31")
	cmd.Env = append(os.Environ(), "MEMORY_FILE_PATH="+filepath.Join(t.TempDir(), "memory.jsonl"))
	theirs, err := mcptest.Client().Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	ours := serve(t, t.TempDir(), compat(CompatReference))
	takeSteps(t, theirs, referenceSteps)
	if d := cmp.Diff(offered(t, theirs), offered(t, ours)); d != "" {
		t.Errorf("the tools differ:\n%s", d)
	}
}

// offered are the tools of a server, without what says nothing of the contract.
func offered(t *testing.T, s *mcp.ClientSession) map[string]any {
	res, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var strip func(v any) any
	strip = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range []string{"$schema", "additionalProperties", "execution"} {
				delete(v, k)
			}
			for k := range v {
				v[k] = strip(v[k])
			}
		case []any:
			for i := range v {
				v[i] = strip(v[i])
			}
		}
		return v
	}
	tools := make(map[string]any)
	for _, tool := range res.Tools {
		b, err := json.Marshal(tool)
		var v any
		if err == nil {
			err = json.Unmarshal(b, &v)
		}
		if err != nil {
			t.Fatal(err)
		}
		tools[tool.Name] = strip(v)
	}
	return tools
}

const memoryNotes = "# Notes\n\nFavorite color: blue\nlast"

var anthropicSteps = []step{
	{args: dict{"command": "view", "path": "/memories"}, text: "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n0B\t/memories"},
	{args: dict{"command": "create", "path": "/memories/notes.md", "file_text": memoryNotes}, text: "File created successfully at: /memories/notes.md"},
	{args: dict{"command": "create", "path": "/memories/notes.md", "file_text": "x"}, fails: true, text: "Error: File /memories/notes.md already exists"},
	{args: dict{"command": "create", "path": "/memories", "file_text": "x"}, fails: true, text: "Error: File /memories already exists"},
	{args: dict{"command": "create", "path": "/memories/notes.md/below", "file_text": "x"}, fails: true, text: "Error: /memories/notes.md is a file, not a directory"},
	{args: dict{"command": "create", "path": "/memories/a/b/c.txt", "file_text": strings.Repeat("x", 1536)}, text: "File created successfully at: /memories/a/b/c.txt"},
	{args: dict{"command": "create", "path": "/memories/a/d.txt", "file_text": strings.Repeat("x", 1<<20)}, text: "File created successfully at: /memories/a/d.txt"},
	{args: dict{"command": "create", "path": "/memories/a", "file_text": ""}, fails: true, text: "Error: /memories/a is a directory"},
	{args: dict{"command": "create", "path": "/memories/.hidden", "file_text": "x"}, text: "File created successfully at: /memories/.hidden"},
	{args: dict{"command": "create", "path": "/memories/node_modules/x", "file_text": ""}, text: "File created successfully at: /memories/node_modules/x"},
	{args: dict{"command": "view", "path": "/memories/"}, text: "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n" +
		"1.0M\t/memories\n1.0M\t/memories/a/\n1.5K\t/memories/a/b/\n1M\t/memories/a/d.txt\n34B\t/memories/notes.md", data: true},
	{args: dict{"command": "view", "path": "/memories/a"}, text: "Here're the files and directories up to 2 levels deep in /memories/a, excluding hidden items and node_modules:\n" +
		"1.0M\t/memories/a\n1.5K\t/memories/a/b/\n1.5K\t/memories/a/b/c.txt\n1M\t/memories/a/d.txt", data: true},
	{args: dict{"command": "view", "path": "/memories/.hidden"}, text: "Here's the content of /memories/.hidden with line numbers:\n     1\tx", data: true},
	{args: dict{"command": "view", "path": "/memories/notes.md"}, text: "Here's the content of /memories/notes.md with line numbers:\n     1\t# Notes\n     2\t\n     3\tFavorite color: blue\n     4\tlast", data: true},
	{args: dict{"command": "view", "path": "/memories/notes.md", "view_range": []int{3, 3}}, text: "Here's the content of /memories/notes.md with line numbers:\n     3\tFavorite color: blue", data: true},
	{args: dict{"command": "view", "path": "/memories/notes.md", "view_range": []int{3, -1}}, text: "Here's the content of /memories/notes.md with line numbers:\n     3\tFavorite color: blue\n     4\tlast", data: true},
	{args: dict{"command": "view", "path": "/memories/notes.md", "view_range": []int{5, 9}}, fails: true, text: "Error: Invalid `view_range` parameter: [5, 9]. It should be within the range of lines of the file: [1, 4]"},
	{args: dict{"command": "view", "path": "/memories/nothing"}, fails: true, text: "The path /memories/nothing does not exist. Please provide a valid path."},
	{args: dict{"command": "str_replace", "path": "/memories/notes.md", "old_str": "Favorite color: blue", "new_str": "Favorite color: green"},
		text: "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     1\t# Notes\n     2\t\n     3\tFavorite color: green\n     4\tlast", data: true},
	{args: dict{"command": "str_replace", "path": "/memories/notes.md", "old_str": "blue", "new_str": "x"}, fails: true,
		text: "No replacement was performed, old_str `blue` did not appear verbatim in /memories/notes.md."},
	{args: dict{"command": "str_replace", "path": "/memories/notes.md", "old_str": "", "new_str": "x"}, fails: true,
		text: "No replacement was performed, old_str `` did not appear verbatim in /memories/notes.md."},
	{args: dict{"command": "str_replace", "path": "/memories/notes.md", "old_str": "t", "new_str": "x"}, fails: true,
		text: "No replacement was performed. Multiple occurrences of old_str `t` in lines: 1, 3, 4. Please ensure it is unique"},
	{args: dict{"command": "str_replace", "path": "/memories/a", "old_str": "t", "new_str": "x"}, fails: true, text: "Error: The path /memories/a does not exist. Please provide a valid path."},
	{args: dict{"command": "insert", "path": "/memories/notes.md", "insert_line": 2, "insert_text": "- new\n"}, text: "The file /memories/notes.md has been edited."},
	{args: dict{"command": "insert", "path": "/memories/notes.md", "insert_line": 0, "insert_text": "first"}, text: "The file /memories/notes.md has been edited."},
	{args: dict{"command": "insert", "path": "/memories/notes.md", "insert_line": 7, "insert_text": "x"}, fails: true,
		text: "Error: Invalid `insert_line` parameter: 7. It should be within the range of lines of the file: [0, 6]"},
	{args: dict{"command": "insert", "path": "/memories/nothing", "insert_line": 0, "insert_text": "x"}, fails: true, text: "Error: The path /memories/nothing does not exist"},
	{args: dict{"command": "view", "path": "/memories/notes.md"}, text: "Here's the content of /memories/notes.md with line numbers:\n     1\tfirst\n     2\t# Notes\n     3\t\n     4\t- new\n     5\tFavorite color: green\n     6\tlast", data: true},
	{args: dict{"command": "rename", "old_path": "/memories/nothing", "new_path": "/memories/x"}, fails: true, text: "Error: The path /memories/nothing does not exist"},
	{args: dict{"command": "rename", "old_path": "/memories/notes.md", "new_path": "/memories/a"}, fails: true, text: "Error: The destination /memories/a already exists"},
	{args: dict{"command": "rename", "old_path": "/memories/notes.md", "new_path": "/memories/a/d.txt"}, fails: true, text: "Error: The destination /memories/a/d.txt already exists"},
	{args: dict{"command": "rename", "old_path": "/memories/a", "new_path": "/memories/a/inside"}, fails: true, text: "Error: cannot move /memories/a into itself"},
	{args: dict{"command": "rename", "old_path": "/memories/a", "new_path": "/memories/notes.md/a"}, fails: true, text: "Error: cannot move /memories/a into /memories/notes.md, which is a file"},
	{args: dict{"command": "rename", "old_path": "/memories/notes.md", "new_path": "/memories/old/notes.md"}, text: "Successfully renamed /memories/notes.md to /memories/old/notes.md"},
	{args: dict{"command": "rename", "old_path": "/memories/a/b", "new_path": "/memories/z"}, text: "Successfully renamed /memories/a/b to /memories/z"},
	{args: dict{"command": "rename", "old_path": "/memories", "new_path": "/memories/z2"}, fails: true, text: "Error: Cannot rename the /memories directory itself"},
	{args: dict{"command": "delete", "path": "/memories/a"}, text: "Successfully deleted /memories/a"},
	{args: dict{"command": "delete", "path": "/memories/a"}, fails: true, text: "Error: The path /memories/a does not exist"},
	{args: dict{"command": "delete", "path": "/memories"}, fails: true, text: "Error: Cannot delete the /memories directory itself"},
	{args: dict{"command": "view", "path": "/memories"}, text: "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n" +
		"1.5K\t/memories\n47B\t/memories/old/\n47B\t/memories/old/notes.md\n1.5K\t/memories/z/\n1.5K\t/memories/z/c.txt", data: true},
}

func TestAnthropic(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir, compat(CompatAnthropic))
	for i := range anthropicSteps {
		anthropicSteps[i].tool = "memory"
	}
	takeSteps(t, s, anthropicSteps)
	for _, path := range []string{
		"", "/", "memories/x", "/memoriesx", "/memories/../x", "/memories/..", "/memories/./x", "/memories//x", "/memories/x/../../y", "/memories/..\\x",
		"/memories/%2e%2e/x", "/memories/%2E./x", "/memories/x%2fy", "/memories/%5c", "/memories/x\x00", "/memories/a\nb", "/memories/ /x", "/memories/...", "/etc/passwd",
		"file:///memories/x", "/memories/" + strings.Repeat("a/", 40) + "b", "/memories/\u202ex", "~/memories/x", "/Memories/x", "/memories/" + strings.Repeat("x", 2000),
	} {
		for _, args := range []dict{
			{"command": "create", "path": path, "file_text": "x"}, {"command": "view", "path": path}, {"command": "delete", "path": path},
			{"command": "rename", "old_path": "/memories/z", "new_path": path}, {"command": "rename", "old_path": path, "new_path": "/memories/q"},
			{"command": "insert", "path": path, "insert_text": "x"}, {"command": "str_replace", "path": path, "old_str": "x"},
		} {
			mcptest.Refused(t, s, "memory", args, "^(Error: Invalid path |wrong arguments: (new_|old_|)path must have at most 1024 characters, and has 2010)")
		}
	}
	list := entriesIn(t, filepath.Join(dir, "memory.db"))
	if len(list) != 4 {
		t.Errorf("entries %+v", list)
	}
	for _, e := range list {
		if path.Clean(e.Name) != e.Name || strings.HasSuffix(e.Name, ".md") {
			t.Errorf("the note %q", e.Name)
		}
	}
	// An archive is seen, and never changed.
	fill(t, dir, crmem.Entry{Name: "/memories/talk", Kind: crmem.Archive, Content: "said"})
	for _, args := range []dict{
		{"command": "delete", "path": "/memories/talk"}, {"command": "rename", "old_path": "/memories/talk", "new_path": "/memories/q"},
		{"command": "insert", "path": "/memories/talk", "insert_text": "x"}, {"command": "str_replace", "path": "/memories/talk", "old_str": "said"},
	} {
		mcptest.Refused(t, s, "memory", args, "^Error: /memories/talk is the archive of a conversation")
	}
	mcptest.Refused(t, s, "memory", dict{"command": "erase", "path": "/memories/z"}, `^wrong arguments: command must be view, create, str_replace, insert, delete, or rename, and is "erase"`)
	mcptest.Refused(t, s, "memory", dict{"command": "view", "path": "/memories/z", "view_range": []int{1}}, "^wrong arguments: view_range must have 2 items, and has 1")
	reader := serve(t, dir, compat(CompatAnthropic), readOnly)
	mcptest.Refused(t, reader, "memory", dict{"command": "delete", "path": "/memories/z"}, `^wrong arguments: command must be view, and is "delete"`)
	// A file larger than an answer comes in parts, and a directory too.
	must[any](t, s, "memory", dict{"command": "create", "path": "/memories/long", "file_text": strings.Repeat("0123456789\n", 40000)})
	_, text := mcptest.Call(t, s, "memory", dict{"command": "view", "path": "/memories/long"})
	if len(text) > display.MaxShownText+1000 || !strings.HasSuffix(text, ", -1])") {
		t.Errorf("%d bytes, that end in %q", len(text), text[len(text)-100:])
	}
}

// TestAnthropicNotes: the file /memories/NAME.md is the note NAME, for notes that
// exist and for new ones.
func TestAnthropicNotes(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir,
		crmem.Entry{ID: 1, Name: "deploy steps", Aliases: []string{"ship"}, CreatedAt: 7, Content: "build\ntag"},
		crmem.Entry{ID: 2, Name: "team/ada", Content: "x"},
		crmem.Entry{ID: 3, Name: "talk", Kind: crmem.Archive, Content: "said"},
		crmem.Entry{ID: 4, Name: "/memories/old.md", Content: "written before"},
		crmem.Entry{ID: 5, Name: "old", Content: "has the same path"},
		crmem.Entry{ID: 6, Name: "a\nb", Content: "no path"},
		crmem.Entry{ID: 7, Name: "../up", Content: "no path"},
		crmem.Entry{ID: 8, Name: "/memories/plain", Content: "p"},
		crmem.Entry{ID: 9, Name: strings.Repeat("n", 1020), Content: "no path: too long"},
	)
	s := serve(t, dir, compat(CompatAnthropic))
	list := func(want string) {
		t.Helper()
		_, text := mcptest.Call(t, s, "memory", dict{"command": "view", "path": "/memories"})
		if got := strings.Join(dataIn(t, text)[1:], " "); got != want || !strings.HasSuffix(text, "\n(4 further notes with names that are not paths: crabmem list shows the names)") {
			t.Errorf("%s\nwant %s", text, want)
		}
	}
	list("9B\t/memories/deploy steps.md 14B\t/memories/old.md 1B\t/memories/plain 1B\t/memories/team/ 1B\t/memories/team/ada.md")
	for i, c := range []struct {
		args  dict
		fails bool
		text  string // the beginning
	}{
		{dict{"command": "view", "path": "/memories/deploy steps.md"}, false, "Here's the content of /memories/deploy steps.md with line numbers:"},
		{dict{"command": "view", "path": "/memories/ship.md"}, true, "The path /memories/ship.md does not exist."},
		{dict{"command": "view", "path": "/memories/deploy steps"}, true, "The path /memories/deploy steps does not exist."},
		{dict{"command": "create", "path": "/memories/deploy steps.md", "file_text": "x"}, true, "Error: File /memories/deploy steps.md already exists"},
		{dict{"command": "create", "path": "/memories/talk.md", "file_text": "x"}, true, "Error: File /memories/talk.md already exists"},
		{dict{"command": "delete", "path": "/memories/talk.md"}, true, "Error: /memories/talk.md is the archive of a conversation"},
		{dict{"command": "insert", "path": "/memories/deploy steps.md", "insert_line": 2, "insert_text": "push"}, false, "The file /memories/deploy steps.md has been edited."},
		{dict{"command": "str_replace", "path": "/memories/team/ada.md", "old_str": "x", "new_str": "y"}, false, "The memory file has been edited."},
		{dict{"command": "create", "path": "/memories/tea.md", "file_text": "green"}, false, "File created successfully at: /memories/tea.md"},
		{dict{"command": "create", "path": "/memories/list.txt", "file_text": "t"}, false, "File created successfully at: /memories/list.txt"},
		{dict{"command": "create", "path": "/memories/.md", "file_text": "hidden"}, false, "File created successfully at: /memories/.md"},
		{dict{"command": "rename", "old_path": "/memories/team", "new_path": "/memories/people"}, false, "Successfully renamed /memories/team to /memories/people"},
		{dict{"command": "rename", "old_path": "/memories/deploy steps.md", "new_path": "/memories/deploy.md"}, false, "Successfully renamed"},
		{dict{"command": "rename", "old_path": "/memories/tea.md", "new_path": "/memories/talk.md"}, true, "Error: The destination /memories/talk.md already exists"},
		{dict{"command": "rename", "old_path": "/memories/plain", "new_path": "/memories/plain.md"}, false, "Successfully renamed"},
	} {
		if res, text := mcptest.Call(t, s, "memory", c.args); res.IsError != c.fails || !strings.HasPrefix(text, c.text) {
			t.Errorf("step %d, %v: error %t, %q", i, c.args, res.IsError, text)
		}
	}
	list("14B\t/memories/deploy.md 1B\t/memories/list.txt 14B\t/memories/old.md 1B\t/memories/people/ 1B\t/memories/people/ada.md 1B\t/memories/plain.md 5B\t/memories/tea.md")
	for name, want := range map[string]string{"deploy": "build\ntag\npush", "people/ada": "y", "tea": "green", "/memories/list.txt": "t", "/memories/.md": "hidden", "plain": "p", "talk": "said", "old": "has the same path"} {
		if got := content(t, dir, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, e := range entriesIn(t, filepath.Join(dir, "memory.db")) {
		if e.Name == "deploy" && (e.CreatedAt != 7 || !slices.Equal(e.Aliases, []string{"ship", "deploy steps"})) {
			t.Errorf("the renamed note: %+v", e)
		}
	}
	// Without the older file, the path is that of the note.
	must[any](t, s, "memory", dict{"command": "delete", "path": "/memories/old.md"})
	if _, text := mcptest.Call(t, s, "memory", dict{"command": "view", "path": "/memories/old.md"}); !strings.Contains(text, "has the same path") {
		t.Error(text)
	}
}
