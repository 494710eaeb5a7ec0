package importer

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
)

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
				if end, ok := chats[0].Meta.End(); !ok || end.Format(time.RFC3339) != "2026-03-01T09:30:06Z" {
					t.Errorf("ended at %v, %t", end, ok)
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
		{`"content":[{"type":"tool_result","tool_use_id":"1","content":"r"}]`, "tool: r", "[]"},
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
