package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
)

const fixtures = "../../../../testdata/import"

var now = time.Unix(1_790_000_000, 0)

// memoryOf reads a fixture of notes.
func memoryOf(t testing.TB, fsys vfs.FS, path string) *Memory {
	t.Helper()
	kind, err := Detect(t.Context(), fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	var m *Memory
	switch kind {
	case RFC0038:
		m, err = ReadRFC0038(fsys, path, nil)
	case BasicMemory, Markdown:
		m, err = ReadMarkdown(kind, fsys, path, nil)
	case Mem0:
		var f *Files
		if f, err = Open(fsys, kind, path); err == nil {
			err = f.Each(nil, func(r io.Reader) (err error) {
				m, err = ReadMem0(r)
				return err
			})
		}
	default:
		t.Fatalf("%s is %s", path, kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func planOf(t testing.TB, m *Memory, s *crmem.Store, mode Mode) *Plan {
	t.Helper()
	p, err := m.Plan(s, mode, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func apply(t testing.TB, s *crmem.Store, ops []crmem.Op) {
	t.Helper()
	if len(ops) == 0 {
		return
	}
	if err := s.Apply(ops...); err != nil {
		t.Fatal(err)
	}
}

// exported is all that a store says.
func exported(s *crmem.Store) string {
	var b strings.Builder
	for e := range s.All() {
		b.WriteString(e.Name + "\n" + e.Content + "\n" + strings.Join(e.Aliases, "\n") + "\n")
	}
	return b.String()
}

// facts are the texts of a JSON value, but for those under some keys.
func facts(v any, but ...string) (list []string) {
	switch v := v.(type) {
	case string:
		for line := range strings.SplitSeq(v, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				list = append(list, line)
			}
		}
	case []any:
		for _, x := range v {
			list = append(list, facts(x, but...)...)
		}
	case map[string]any:
		for k, x := range v {
			if !slices.Contains(but, k) {
				list = append(list, facts(x, but...)...)
			}
		}
	}
	return list
}

func readJSON(t *testing.T, path string) (v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func left(list []Left, reason string) int {
	for _, l := range list {
		if strings.Contains(l.Reason, reason) {
			return l.Count
		}
	}
	return 0
}

// named reports whether an omission has a name.
func named(list []Left, name string) bool {
	return slices.ContainsFunc(list, func(l Left) bool { return slices.Contains(l.Where, name) })
}

func TestEveryFactOfNotes(t *testing.T) {
	for _, name := range []string{"rfc0038", "legacy", "basic-memory", "obsidian", "mem0.json"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(fixtures, name)
			m := memoryOf(t, vfs.OS{}, path)
			s := crmem.New(nil)
			apply(t, s, planOf(t, m, s, Refuse).Ops)
			text := exported(s)
			var want []string
			if name == "mem0.json" {
				want = facts(readJSON(t, path), "hash", "created_at")
			} else {
				want = treeFacts(t, m, path)
			}
			if len(want) < 4 {
				t.Fatalf("only %d facts", len(want))
			}
			for _, f := range want {
				if named(m.Left, f) {
					continue
				}
				if !strings.Contains(text, f) && !strings.Contains(text, strings.ReplaceAll(f, "\n", " ")) {
					t.Errorf("%q is lost", f)
				}
			}
			if p := planOf(t, m, s, Refuse); len(p.Ops) > 0 || p.Skipped != len(m.Notes) {
				t.Errorf("imported twice: %+v", p)
			}
		})
	}
}

// treeFacts are the lines of a tree's pages, those that are left out apart.
func treeFacts(t *testing.T, m *Memory, dir string) (want []string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		rel = filepath.ToSlash(rel)
		for _, l := range m.Left {
			for _, w := range l.Where {
				if (rel == w || strings.HasPrefix(rel, w+"/")) && !strings.Contains(l.Reason, "kept") && !strings.Contains(l.Reason, "taken by") {
					return nil
				}
			}
		}
		for _, step := range m.Manual {
			if strings.HasPrefix(step, rel+" ") {
				return nil
			}
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			line = strings.TrimSpace(line)
			for _, key := range []string{"title: ", "name: ", "description: ", "permalink: ", "- "} {
				if !strings.Contains(line, "[") {
					line = strings.TrimPrefix(line, key)
				}
			}
			if line != "---" && !strings.HasPrefix(line, "alias") {
				want = append(want, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(want, func(s string) bool { return s == "" })
}

// chatsOf reads a fixture of conversations.
func chatsOf(t testing.TB, fsys vfs.FS, path string) (chats []*Chat, lefts []Left) {
	t.Helper()
	kind, err := Detect(t.Context(), fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(fsys, kind, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lefts = f.Left
	if err := f.Each(nil, func(r io.Reader) error {
		l, err := ReadChats(kind, r, func(h *Chat) error {
			chats = append(chats, h)
			return nil
		})
		lefts = append(lefts, l...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return chats, lefts
}

func TestEveryFactOfChats(t *testing.T) {
	but := map[string][]string{
		"chatgpt": {"left", "id", "parent", "children", "current_node", "status", "content_type", "model_slug", "default_model_slug", "mime_type", "language", "domain"},
		"claude":  {"type", "updated_at", "account", "start_timestamp", "stop_timestamp", "file_type", "sender"},
	}
	for _, name := range []string{"chatgpt", "claude"} {
		t.Run(name, func(t *testing.T) {
			chats, lefts := chatsOf(t, vfs.OS{}, filepath.Join(fixtures, name))
			disk := faultfs.NewMem()
			d, err := sessionlog.OpenDir("/sessions", &sessionlog.Options{FS: disk})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			im, err := d.NewImporter(false)
			if err != nil {
				t.Fatal(err)
			}
			defer im.Close()
			var text strings.Builder
			for turn := range 2 {
				for _, h := range chats {
					if h.Err != nil {
						continue
					}
					did, err := im.Import(h.Meta, h.Items)
					if err != nil {
						t.Fatal(err)
					}
					if want := (sessionlog.ImportResult{ID: did.ID, Created: turn == 0}); did != want {
						t.Errorf("turn %d of %s: %+v, want %+v", turn+1, h.ID, did, want)
					}
					fmt.Fprintf(&text, "%+v\n", h.Meta)
					for _, it := range h.Items {
						fmt.Fprintf(&text, "%+v\n", it.Message)
					}
				}
			}
			all := text.String() + strings.ReplaceAll(text.String(), `\"`, `"`)
			drop := append(slices.Clone(but[name]), "uuid", "created_at")
			for _, f := range facts(readJSON(t, filepath.Join(fixtures, name, "conversations.json")), drop...) {
				if f != "Never begun" && f != "all" && f != "finished_successfully" && f != "system" && !strings.Contains(all, f) {
					t.Errorf("%q is lost", f)
				}
			}
			for _, id := range []string{"000000000001", "000000000002"} {
				if !strings.Contains(all, id) {
					t.Errorf("no session of %s", id)
				}
			}
			if name == "chatgpt" {
				if n := left(lefts, "outside the current branch"); n != 1 {
					t.Errorf("%d messages outside the current branch", n)
				}
				if got := chats[0].Meta.CreatedAt; got != "2026-03-01T09:30:00.123456+00:00" {
					t.Errorf("created at %s", got)
				}
				var roles []string
				for _, it := range chats[0].Items {
					roles = append(roles, it.Message.Role)
				}
				if got := strings.Join(roles, " "); got != "system user assistant assistant tool tool assistant" {
					t.Error(got)
				}
				if c := chats[0].Items[3].Message.ToolCalls; len(c) != 1 || c[0].Function.Name != "python" || chats[0].Items[4].Message.ToolCallID != c[0].ID {
					t.Errorf("the call is %+v, its answer %+v", c, chats[0].Items[4])
				}
			} else if left(lefts, `"token_budget"`) != 1 || left(lefts, `"account"`) != 3 {
				t.Errorf("left out %+v", lefts)
			}
		})
	}
}

// mem0 makes an export of memories, each an id and a text.
func mem0(pairs ...string) *Memory {
	var list []map[string]string
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, map[string]string{"id": pairs[i], "memory": pairs[i+1]})
	}
	b, _ := json.Marshal(list)
	m, err := ReadMem0(bytes.NewReader(b))
	if err != nil {
		panic(err)
	}
	return m
}

// pages makes a tree of basic-memory, each a path and a text.
func pages(t testing.TB, pairs ...string) *Memory {
	t.Helper()
	disk := faultfs.NewMem()
	if err := disk.Mkdir("/brain", 0o700); err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		name := "/brain/" + pairs[i]
		if err := vfs.MkdirAll(disk, filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		disk.WriteFile(name, []byte(pairs[i+1]), 0o600)
	}
	m, err := ReadMarkdown(BasicMemory, disk, "/brain", nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestChangedSource(t *testing.T) {
	page := func(title, text string) string { return "---\ntitle: " + title + "\ntags: [x]\n---\n" + text + "\n" }
	cases := []struct {
		name   string
		first  *Memory
		here   func(s *crmem.Store) []crmem.Op
		second *Memory
		want   string // added replaced skipped conflicts, then the names
	}{
		{"text", pages(t, "a.md", page("A", "one")), nil, pages(t, "a.md", page("A", "two")), "0 1 0 0 A"},
		{"title", pages(t, "a.md", page("A", "one")), nil, pages(t, "a.md", page("B", "one")), "0 1 0 0 B"},
		{"title that is taken", pages(t, "a.md", page("A", "one"), "b.md", page("B", "x")), nil,
			pages(t, "a.md", page("B", "one"), "b.md", page("B", "x")), "0 1 1 0 B,B (brain/a.md)"},
		{"tags", pages(t, "a.md", page("A", "one")), nil, pages(t, "a.md", "---\ntitle: A\ntags: [y]\n---\none"), "0 1 0 0 A"},
		{"edited here alone", pages(t, "a.md", page("A", "one")), edit("A", "mine"), pages(t, "a.md", page("A", "one")), "0 0 1 0 A"},
		{"edited here and there", pages(t, "a.md", page("A", "one")), edit("A", "mine"), pages(t, "a.md", page("A", "two")), "0 0 0 1 A"},
		{"alias added here, changed there", pages(t, "a.md", page("A", "one")), func(*crmem.Store) []crmem.Op {
			return []crmem.Op{crmem.Alias{Name: "A", Aliases: []string{"x", "z"}}}
		}, pages(t, "a.md", page("A", "two")), "0 0 0 1 A"},
		{"renamed here", pages(t, "a.md", page("A", "one")), rename("A", "Z"), pages(t, "a.md", page("A", "one")), "0 0 1 0 Z"},
		{"renamed here, changed there", pages(t, "a.md", page("A", "one")), rename("A", "Z"), pages(t, "a.md", page("A", "two")), "0 0 0 1 Z"},
		{"forgotten here", pages(t, "a.md", page("A", "one")), func(*crmem.Store) []crmem.Op { return []crmem.Op{crmem.Remove{Name: "A"}} },
			pages(t, "a.md", page("A", "one")), "1 0 0 0 A"},
		{"gone there", pages(t, "a.md", page("A", "one"), "b.md", page("B", "two")), nil, pages(t, "b.md", page("B", "two")), "0 0 1 0 A,B"},
		{"one of the name before", pages(t, "b.md", page("A", "one")), nil, pages(t, "a.md", page("A", "two"), "b.md", page("A", "one")), "1 0 1 0 A,A (brain/a.md)"},
		{"one takes the name of a renamed one", pages(t, "a.md", page("A", "one")), nil, pages(t, "a.md", page("B", "one"), "b.md", page("A", "two")), "1 1 0 0 A,B"},
		{"one before takes the name of a renamed one", pages(t, "b.md", page("A", "one")), nil, pages(t, "a.md", page("A", "two"), "b.md", page("B", "one")), "1 1 0 0 A (brain/a.md),B"},
		{"a note of here has the other name", pages(t, "b.md", page("A", "one")), func(*crmem.Store) []crmem.Op { return []crmem.Op{crmem.Add{Name: "A (brain/a.md)", Content: "mine"}} },
			pages(t, "a.md", page("A", "two"), "b.md", page("A", "one")), "0 0 1 1 A,A (brain/a.md)"},
		{"moved there", pages(t, "a.md", page("A", "one")), nil, pages(t, "b.md", page("A", "one")), "0 0 1 0 A"},
		{"a note of here has the name", pages(t), func(*crmem.Store) []crmem.Op { return []crmem.Op{crmem.Add{Name: "A", Content: "mine"}} },
			pages(t, "a.md", page("A", "one"), "b.md", page("B", "one")), "1 0 0 1 A"},
		{"memory without a name", mem0("1", "Likes tea"), nil, mem0("1", "Likes green tea"), "0 1 0 0 Likes tea"},
		{"memories of one text", mem0("1", "Likes tea", "2", "Likes tea\nand milk"), nil, mem0("1", "Likes tea", "2", "Likes tea\nand milk", "3", "Likes tea"), "0 0 3 0 Likes tea,Likes tea and milk"},
		{"a line of another note in the text", mem0("1", "x\n\nImported from mem0: \"2\" (0123456789abcdef)"), nil, mem0("2", "y"), "1 0 0 0 x,y"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := crmem.New(nil)
			apply(t, s, planOf(t, c.first, s, Refuse).Ops)
			if c.here != nil {
				apply(t, s, c.here(s))
			}
			before := exported(s)
			p := planOf(t, c.second, s, Refuse)
			if exported(s) != before {
				t.Error("a plan changed the store")
			}
			keep, replace := planOf(t, c.second, s, Keep), planOf(t, c.second, s, Replace)
			if len(keep.Conflicts) > 0 || keep.Kept != len(p.Conflicts) || len(replace.Conflicts) > 0 {
				t.Errorf("%d conflicts; to keep %+v, to replace %+v", len(p.Conflicts), keep, replace)
			}
			if len(p.Updated) != p.Replaced {
				t.Errorf("updated %q, want %d names", p.Updated, p.Replaced)
			}
			for _, conflict := range p.Conflicts {
				if conflict.Edited == strings.HasPrefix(c.name, "a note of here") {
					t.Errorf("%+v", conflict)
				}
			}
			if len(p.Conflicts) == 0 {
				apply(t, s, p.Ops)
				if again := planOf(t, c.second, s, Refuse); len(again.Ops) > 0 || len(again.Conflicts) > 0 {
					t.Errorf("imported again: %+v", again)
				}
			}
			var names []string
			for e := range s.All() {
				names = append(names, e.Name)
			}
			slices.Sort(names)
			if got := fmt.Sprintf("%d %d %d %d %s", p.Added, p.Replaced, p.Skipped, len(p.Conflicts), strings.Join(names, ",")); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if len(p.Conflicts) > 0 {
				apply(t, s, replace.Ops)
				if again := planOf(t, c.second, s, Refuse); len(again.Ops) > 0 || len(again.Conflicts) > 0 {
					t.Errorf("replaced, and then: %+v", again)
				}
			}
		})
	}
}

func TestChatsStopsAtTheErrorOfTake(t *testing.T) {
	const chat = `{"uuid":"a","chat_messages":[{"sender":"human","text":"x"}]}`
	stop := errors.New("stop")
	for _, text := range []string{"[" + chat + "," + chat + "]", chat + "\n" + chat, `{"conversations":[` + chat + "," + chat + "]}"} {
		calls := 0
		_, err := ReadChats(Claude, strings.NewReader(text), func(*Chat) error { calls++; return stop })
		if !errors.Is(err, stop) || calls != 1 {
			t.Errorf("%s: %d calls, %v", text, calls, err)
		}
	}
}

func TestContentsOfChatGPT(t *testing.T) {
	for _, c := range []struct{ content, text, reasoning, left string }{
		{`{"parts":["x"]}`, "x", "", "[]"},
		{`{"content_type":"reasoning_recap","content":"Thought for 5 s"}`, "", "Thought for 5 s", "[]"},
		{`{"content_type":"thoughts","thoughts":[{"summary":"a","content":"b"}]}`, "", "a\n\nb", "[]"},
		{`{"parts":["x\ue200` + strings.Repeat("k", 41) + `\ue201"]}`, "x", "", `[{citation mark "` + strings.Repeat("k", 39) + `…" 1 [a]}]`},
	} {
		text := `[{"id":"a","current_node":"1","mapping":{"1":{"message":{"author":{"role":"assistant"},"content":` + c.content + `}}}}]`
		var got sessionlog.Message
		left, err := ReadChats(ChatGPT, strings.NewReader(text), func(h *Chat) error {
			got = h.Items[0].Message
			return h.Err
		})
		if err != nil || got.Content != c.text || got.ReasoningContent != c.reasoning || fmt.Sprint(left) != c.left {
			t.Errorf("%s: %q, reasoning %q, left %v, %v", c.content, got.Content, got.ReasoningContent, left, err)
		}
	}
}

// TestContentsOfClaude reads one message, and results of its tools.
func TestContentsOfClaude(t *testing.T) {
	result := func(content string) string {
		return `"content":[{"type":"tool_use","name":"f"},{"type":"tool_result","content":` + content + `}]`
	}
	for _, c := range []struct{ message, want, left string }{
		{`"text":"a b","content":[{"type":"text","text":"a  b"}]`, "assistant: a  b", "[]"},
		{`"text":"a b c","content":[{"type":"text","text":"a b"}]`, "assistant: a b", "[]"},
		{`"text":"b","content":[{"type":"text","text":"a b"}]`, "assistant: a b", "[]"},
		{`"text":"y","content":[{"type":"text","text":"x"}]`, "assistant: x\n\ny", "[]"},
		{`"text":"y"`, "assistant: y", "[]"},
		{`"text":"y","files":[{"file_name":"f","extracted_content":"x"}]`, "assistant: y\n\n[file f]\n\nx", "[]"},
		{`"text":"y","files":[{"name":"f"}]`, "assistant: y\n\n[file f]", "[{a file without content in the export 1 [f]}]"},
		{result(`[{"type":"text","text":"r"},{"type":"image"}]`), "assistant:  f({}) tool: r\n\n{\"type\":\"image\"}", "[]"},
		{result(`"r"`), "assistant:  f({}) tool: r", "[]"},
		{`"sender":"robot","text":"y"`, "", `[{message with unknown sender "robot" 1 [a]}]`},
	} {
		text := `[{"uuid":"a","chat_messages":[{"uuid":"m","sender":"assistant",` + c.message + `}]}]`
		var got []string
		left, err := ReadChats(Claude, strings.NewReader(text), func(h *Chat) error {
			for _, i := range h.Items {
				line := fmt.Sprintf("%s: %s", i.Message.Role, i.Message.Content)
				for _, call := range i.Message.ToolCalls {
					line += fmt.Sprintf(" %s(%s)", call.Function.Name, call.Function.Arguments)
				}
				got = append(got, line)
			}
			return nil
		})
		if strings.Join(got, " ") != c.want || fmt.Sprint(left) != c.left || err != nil {
			t.Errorf("%s: %q, left %v, %v", c.message, got, left, err)
		}
	}
}

// TestTitlesAreCut checks which titles of conversations are reported as cut.
func TestTitlesAreCut(t *testing.T) {
	for _, n := range []int{0, 1, maxLabel, maxLabel + 1} {
		for _, end := range []string{"", "…"} {
			title := strings.Repeat("x", max(n-utf8.RuneCountInString(end), 0)) + end
			text := `[{"uuid":"a","name":"` + title + `","chat_messages":[{"sender":"human","text":"x"}]}]`
			var got string
			left, err := ReadChats(Claude, strings.NewReader(text), func(h *Chat) error {
				got = h.Meta.Title
				return nil
			})
			cut := utf8.RuneCountInString(title) > maxLabel
			if err != nil || (got != title) != cut || utf8.RuneCountInString(got) > maxLabel || cut && end == "" && fmt.Sprint(left) != "[{title truncated to 200 characters 1 [a]}]" || !cut && len(left) > 0 {
				t.Errorf("%d bytes: %d, left %v, %v", len(title), len(got), left, err)
			}
		}
	}
}

// TestNewestLeaf reads conversations without a current node: the newest message that no
// other follows ends the conversation.
func TestNewestLeaf(t *testing.T) {
	node := func(id, parent string, time int) string {
		return fmt.Sprintf(`%q:{"parent":%q,"message":{"author":{"role":"user"},"create_time":%d,"content":{"parts":[%q]}}}`, id, parent, time, id)
	}
	leaves := []string{node("root", "", 90)}
	for i := range 30 {
		leaves = append(leaves, node(fmt.Sprint("leaf", 10+i), "root", 10+i%15))
	}
	for want, nodes := range map[string][]string{
		"root leaf39": leaves, // of equal times, the largest ID
		"a":           {node("a", "", 1)},
		"b a":         {node("a", "b", 1), node("b", "", 5)},
		"b a ":        {node("a", "b", 0), node("b", "", 0)},
	} {
		var got []string
		_, err := ReadChats(ChatGPT, strings.NewReader(`[{"id":"x","mapping":{`+strings.Join(nodes, ",")+`}}]`), func(h *Chat) error {
			for _, i := range h.Items {
				got = append(got, i.Message.Content)
			}
			return nil
		})
		if strings.Join(got, " ") != strings.TrimSpace(want) || err != nil {
			t.Errorf("%q, want %s: %v", got, want, err)
		}
	}
}

// TestDuplicatesOfMem0 reads records with equal IDs.
func TestDuplicatesOfMem0(t *testing.T) {
	m := mem0("1", "x", "2", "y", "1", "x", "2", "z", "2", "z")
	var ids []string
	for _, n := range m.Notes {
		ids = append(ids, n.ID)
	}
	if got := fmt.Sprint(ids, m.Left); got != "[1 2 2#2] [{duplicate 2 [1 2]} {duplicate ID; took all records 1 [2]}]" {
		t.Errorf("notes and omissions %s", got)
	}
}

func TestTallyIsBounded(t *testing.T) {
	var tally Tally
	if tally.AddCount("none", "", 0); len(tally) != 0 {
		t.Errorf("no omissions are counted: %v", tally)
	}
	for i := range 63 {
		tally.add(fmt.Sprintf("r%02d", i), "")
	}
	for i := range 10 {
		tally.add("last", fmt.Sprintf("place %d", i))
		tally.add("last", fmt.Sprintf("place %d", i))
	}
	tally.AddCount("more", "x", 2)
	tally.AddCount("another", "y", 3)
	tally.AddCount("last", "", 1)
	tally.add("r00", strings.Repeat("é", 81))
	if n := len(tally); n != 65 {
		t.Errorf("%d reasons, want 64 and the others", n)
	}
	for i, want := range []string{"{last 21 [place 0 place 1 place 2 place 3 place 4 place 5 place 6 place 7]}", "{other reasons 5 [x y]}"} {
		if got := fmt.Sprint(tally[63+i]); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got, want := fmt.Sprint(tally[:2]), "[{r00 2 ["+strings.Repeat("é", 79)+"…]} {r01 1 []}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	tally = nil
	for _, n := range []int{80, 81, 82} {
		tally.add(strings.Repeat("r", n), "")
	}
	if len(tally) != 2 || tally[0].Reason != strings.Repeat("r", 80) || tally[1].Reason != strings.Repeat("r", 79)+"…" {
		t.Errorf("reasons of 80 and more characters: %v", tally)
	}
}

func edit(name, text string) func(s *crmem.Store) []crmem.Op {
	return func(s *crmem.Store) []crmem.Op {
		e, err := s.Get(name)
		if err != nil {
			panic(err)
		}
		return []crmem.Op{crmem.Update{Name: name, Content: text + "\n\n" + e.Content, Aliases: e.Aliases}}
	}
}

func rename(from, to string) func(s *crmem.Store) []crmem.Op {
	return func(s *crmem.Store) []crmem.Op {
		e, err := s.Get(from)
		if err != nil {
			panic(err)
		}
		e.Name, e.ID = to, 0
		return []crmem.Op{crmem.Remove{Name: from}, crmem.Restore{Entry: e}}
	}
}

func TestDetect(t *testing.T) {
	for text, want := range map[string]string{
		"": Crabmem, "{}": Crabmem, "[]": Crabmem, "null": Crabmem, "\x00": Crabmem, "[[[": Crabmem, `{"name":"x"`: Crabmem,
		`{"id":1,"name":"x","kind":"note"}`:                              Crabmem,
		"\ufeff" + `[{"title":"x","mapping":{`:                           ChatGPT,
		`{"title":"x","mapping":{}}`:                                     ChatGPT,
		`[{"uuid":"x","name":"y","account":{"a":[1]},"chat_messages":[`:  Claude,
		`{"uuid":"x","name":"y","docs":[]}`:                              Claude,
		`[{"uuid":"x","name":"y","prompt_template":""}]`:                 Claude,
		`{"uuid":"x","docs":[]}`:                                         Crabmem,
		`{"uuid":"x","name":"y"}`:                                        Crabmem,
		`{"id":"x","name":"y","data":1}`:                                 Crabmem,
		`{"type":"entity","name":"A","entityType":"p","observations":[]`: MemoryJSON,
		`{"type":"relation","from":"A","to":"B","relationType":"r"}`:     MemoryJSON,
		`{"entities":[],"relations":[]}`:                                 MemoryJSON,
		`{"results":[{"id":"1","memory":"x"}]}`:                          Mem0,
		`{"results":[],"relations":[]}`:                                  Mem0,
		`{"memories":[]}`:                                                Mem0,
		`[{"id":"1","text":"x"}]`:                                        Mem0,
	} {
		kind, r := DetectReader(strings.NewReader(text))
		if b, err := io.ReadAll(r); kind != want || string(b) != text || err != nil {
			t.Errorf("%q is %s, want %s; read %q, %v", text, kind, want, b, err)
		}
	}
}

// TestNamesAtTheirLimits checks names and aliases that are as long as they may be, and
// longer ones.
func TestNamesAtTheirLimits(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for in, want := range map[string]string{
		x(maxBase): x(maxBase) + " true", x(maxBase + 1): x(maxBase-3) + "… false", "a\nb": "a b false", "a b": "a b true",
	} {
		name, whole := baseName(in)
		if got := fmt.Sprint(name, " ", whole); got != want {
			t.Errorf("base name of %d bytes: %s", len(in), got)
		}
	}
	for in, want := range map[string]string{
		"a b c d e f g h": "a b c d e f g h", "a b c d e f g h i": "a b c d e f g h", "a\n\tb.,;:": "a b",
		x(64): x(64), x(65): x(63), x(5000): x(63), strings.Repeat(" ", 4096) + "x": "",
	} {
		if got := firstWords(in); got != want {
			t.Errorf("first words of %.80q: %q, want %q", in, got, want)
		}
	}
	n, left := Note{ID: "i", Name: "name", Text: "text"}, Tally{}
	for _, s := range []string{" a ", "a", "", "name", x(maxLabel), x(maxLabel + 1), "b\nc"} {
		n.addAlias(s, &left)
	}
	if want := []string{"a", x(maxLabel)}; !slices.Equal(n.Aliases, want) || n.Text != "text\n\nalias: "+x(maxLabel+1)+"\n\nalias: b\nc" ||
		fmt.Sprint(left) != "[{too long for an alias, or contains a control character; kept in the text 2 [i]}]" {
		t.Errorf("aliases %q, text %q, left %v", n.Aliases, n.Text, left)
	}
	for i := range maxAliases {
		n.addAlias(fmt.Sprint(i), &left)
	}
	if len(n.Aliases) != maxAliases || n.Aliases[maxAliases-1] != fmt.Sprint(maxAliases-3) || left[1].Count != 2 {
		t.Errorf("%d aliases, left %v", len(n.Aliases), left)
	}
	for _, id := range []string{"", "a", x(maxID), x(maxID + 1), "a\nb"} {
		s := newNoteSet(Mem0)
		s.note(Note{ID: id, Text: "text \n"}, "")
		got := s.memory().Notes[0]
		if short := len(id) <= maxID && !strings.Contains(id, "\n"); (got.ID == id) != short || !short && !strings.HasPrefix(got.ID, "sha256:") || got.Text != "text" {
			t.Errorf("ID of %d bytes: %.20q, text %q", len(id), got.ID, got.Text)
		}
	}
}
