package foreign

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// readCodex reads a rollout of Codex, as in
// ~/.codex/sessions/YYYY/MM/DD/rollout-TIME-UUID.jsonl, of any version. A line
// is {timestamp, type, payload}, or in old versions only the payload.
//
//   - items of the model's conversation (response_item) become messages:
//     consecutive reasoning, text, and calls are one message, and the output of a
//     call is a message of the role tool;
//   - the message of a compaction becomes a compaction. Items of its
//     replacement_history that are not in the file before it, as in a fork, become
//     messages before it;
//   - events, which repeat items, instructions of Codex to the model, and lines
//     of other types are counted and omitted.
//
// The title is the last name of the thread.
func readCodex(r io.Reader, from Mark) (Transcript, error) {
	c := codexReader{builder: builder{from: from}, id: from.ID, seen: make(map[string]int)}
	if err := c.read(r, c.record); err != nil {
		return Transcript{}, err
	}
	if c.began > 0 {
		c.t.Mark.Answer = "open"
	}
	c.flush()
	t, err := c.finish("codex", c.id, c.title)
	if c.subAgent {
		err = ErrSubAgent
	}
	return t, err
}

type codexReader struct {
	builder
	id, title string
	subAgent  bool
	seen      map[string]int // items by key
	users     []string       // texts of the messages of the user

	answer sessionlog.Message // that is being read
	began  int64              // the line where the response began; 0 without a response
	size   int                // of its line, at most
}

// codexItems are the types of items that old rollouts have without an envelope.
var codexItems = []string{
	"message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
	"local_shell_call", "local_shell_call_output",
}

func (c *codexReader) record(o object) error {
	typ, err := o.str("type")
	if err != nil {
		return err
	}
	payload, err := o.sub("payload")
	if err != nil {
		return err
	}
	if payload == nil {
		payload = o
	}
	c.at(payload.text("timestamp")) // a header's own time is the session's, and comes before
	c.at(o.text("timestamp"))
	switch {
	case typ == "session_meta" || typ == "" && o.has("id"):
		c.meta(payload)
	case typ == "response_item":
		return c.response(payload)
	case slices.Contains(codexItems, typ):
		return c.response(o)
	case typ == "compacted":
		return c.compacted(payload)
	case typ == "event_msg":
		if name := payload.text("thread_name"); payload.text("type") == "thread_name_updated" && name != "" {
			c.title = name
		}
		c.skip("event")
	case typ == "":
		c.skipNamed("record", o.text("record_type"))
	default:
		c.skipNamed("type", typ)
	}
	return nil
}

// meta reads the header. A fork has the header of its original session after
// its own.
func (c *codexReader) meta(o object) {
	if c.id != "" {
		c.skip("header of another session")
		return
	}
	c.id, c.dir = o.text("id"), o.text("cwd")
	c.subAgent = o.object("source").has("subagent") || o.text("thread_source") == "subagent"
}

func (c *codexReader) response(o object) error {
	typ, err := o.str("type")
	if err != nil {
		return err
	}
	if key := codexKey(typ, o); key != "" {
		c.seen[key]++
	}
	switch typ {
	case "message":
		return c.readMessage(o)
	case "reasoning":
		summary, err := c.plain(o, "summary")
		text, err2 := c.plain(o, "content")
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		c.add(sessionlog.Message{ReasoningContent: join(summary, text)})
	case "agent_message":
		text, err := c.plain(o, "content")
		if err != nil {
			return err
		}
		c.add(sessionlog.Message{Content: join(text, o.text("text"))})
	case "function_call", "custom_tool_call", "local_shell_call":
		call, err := codexCall(typ, o)
		if err != nil {
			return err
		}
		c.add(sessionlog.Message{ToolCalls: []sessionlog.ToolCall{call}})
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
		output, key := o, "output"
		if o.has(key) && o[key][0] == '{' { // in the form of the model's service
			output, key = o.object(key), "content"
		}
		text, err := c.plain(output, key)
		if err != nil {
			return err
		}
		c.flush()
		c.message(c.line, sessionlog.Message{Role: record.RoleTool, Content: text, ToolCallID: codexCallID(o)})
	default:
		c.skipNamed("item", typ)
	}
	return nil
}

// codexInjected are the elements that Codex puts into the conversation.
var codexInjected = []string{
	"environment_context", "user_instructions", "permissions instructions", "collaboration_mode", "multi_agent_mode",
	"apps_instructions", "skills_instructions", "plugins_instructions", "turn_aborted", "skill", "INSTRUCTIONS",
}

func codexInjects(text string) bool {
	return inTags(text, codexInjected) ||
		strings.HasPrefix(text, "# AGENTS.md instructions for ") && strings.HasSuffix(strings.TrimSpace(text), "</INSTRUCTIONS>")
}

// readMessage reads a message.
func (c *codexReader) readMessage(o object) error {
	role, err := o.str("role")
	if err != nil {
		return err
	}
	if role != record.RoleUser && role != record.RoleAssistant {
		c.skipNamed("role", role)
		return nil
	}
	blocks, err := o.blocks("content")
	if err != nil {
		return err
	}
	injected := len(blocks)
	if role == record.RoleUser {
		blocks = slices.DeleteFunc(blocks, func(b object) bool { return codexInjects(b.text("text")) })
	}
	if injected -= len(blocks); injected > 0 {
		c.skip("injected")
		if len(blocks) == 0 {
			return nil
		}
	}
	text, err := c.plainBlocks(blocks)
	if err != nil {
		return err
	}
	if role == record.RoleAssistant {
		c.add(sessionlog.Message{Content: text})
		return nil
	}
	c.flush()
	c.users = append(c.users, text)
	c.message(c.line, sessionlog.Message{Role: role, Content: text})
	return nil
}

func codexCallID(o object) string {
	if id := o.text("call_id"); id != "" {
		return id
	}
	return o.text("id")
}

// codexCall reads a call. The arguments are JSON in a string, a string, or a
// shell command.
func codexCall(typ string, o object) (sessionlog.ToolCall, error) {
	call := sessionlog.ToolCall{ID: codexCallID(o), Function: sessionlog.Function{Name: o.text("name")}}
	f := &call.Function
	switch typ {
	case "function_call":
		var err error
		if f.Arguments, err = o.str("arguments"); err != nil {
			return call, err
		}
		if f.Arguments == "" || json.Valid([]byte(f.Arguments)) {
			f.Arguments = compactJSON([]byte(f.Arguments))
		}
	case "custom_tool_call":
		input := o["input"]
		if !o.has("input") {
			input = []byte(`""`)
		}
		f.Arguments = `{"input":` + compactJSON(input) + `}`
	default:
		f.Name = "local_shell"
		f.Arguments = compactJSON(o["action"])
	}
	return call, nil
}

// add adds reasoning, text, or a call to the current response. After text or
// calls, anything but a call begins a new response.
func (c *codexReader) add(m sessionlog.Message) {
	m.Role = record.RoleAssistant
	if m.Content == "" && m.ReasoningContent == "" && len(m.ToolCalls) == 0 {
		c.skip("empty")
		return
	}
	c.buf = m.AppendLine(c.buf[:0])
	a, n := &c.answer, len(c.buf)
	spoke := a.Content != "" || len(a.ToolCalls) > 0
	if spoke && len(m.ToolCalls) == 0 || c.size+n > maxImportedLine {
		c.flush()
	}
	if c.began == 0 {
		c.earlier = c.earlier || c.from.Answer != "" && len(c.t.Items) == 0
		c.answer, c.began, c.size = m, c.line, n
		return
	}
	a.Content = join(a.Content, m.Content)
	a.ReasoningContent = join(a.ReasoningContent, m.ReasoningContent)
	a.ToolCalls = append(a.ToolCalls, m.ToolCalls...)
	c.size += n
}

// flush ends the answer that is being read.
func (c *codexReader) flush() {
	if c.began > 0 {
		c.message(c.began, c.answer)
	}
	c.answer, c.began, c.size = sessionlog.Message{}, 0, 0
}
