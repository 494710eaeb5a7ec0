package foreign

import (
	"cmp"
	"errors"
	"io"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// readClaudeCode reads a session file of Claude Code, as in
// ~/.claude/projects/DIR/UUID.jsonl:
//
//   - user and assistant lines become messages in the order of the file, which
//     includes abandoned branches. The lines of one response (message.id) become
//     one message, followed by the results of its tools;
//   - messages that the user typed while a tool ran (queued_command, and enqueue
//     without a later message of that text) become messages of the user;
//   - texts of Claude Code in the place of the user's, such as notifications and
//     commands with their output, become messages of the role system;
//   - a tool's result becomes a message of the role tool;
//   - the summary of a compaction becomes a compaction;
//   - lines of sub-agents, lines of the tool itself (isMeta, reminders, error
//     messages), duplicates, and lines of other types are counted and omitted.
//
// The title is that of the last custom-title line, else of the last ai-title
// line, else of the last summary line whose leaf is in the file. Other summary
// lines belong to other sessions.
func readClaudeCode(r io.Reader, from Mark) (Transcript, error) {
	c := claudeReader{builder: builder{from: from}, seen: make(map[string]bool), typed: make(map[string]int)}
	if err := c.read(r, c.record); err != nil {
		return Transcript{}, err
	}
	title := c.custom
	if title == "" {
		title = c.ai
	}
	for i := len(c.summaries) - 1; i >= 0 && title == ""; i-- {
		if c.seen[c.summaries[i].leaf] {
			title = c.summaries[i].title
		}
	}
	c.insertQueued()
	c.t.Mark.Answer = cmp.Or(digest(c.answer), from.Answer)
	t, err := c.finish("claude-code", c.id, title)
	if errors.Is(err, ErrNoMessages) && c.sidechain {
		err = ErrSubAgent
	}
	return t, err
}

type claudeReader struct {
	builder
	id        string          // of the session: that of the last line, because a fork begins with the lines of another session
	seen      map[string]bool // uuids of the lines that were read
	sidechain bool

	typed  map[string]int // number of the user's messages by text
	queued []claudeQueued

	custom, ai string
	summaries  []struct{ leaf, title string }

	// The answer that is being read, to which the next line may belong.
	answer string // its message.id, or ""
	item   int    // its index in t.Items
	size   int    // of its line, at most
}

// claudeContent is the parsed blocks of a message.
type claudeContent struct {
	text, thinking string
	calls          []sessionlog.ToolCall
	results        []sessionlog.Message
	injected       bool // there was text of the tool's own
}

func (c *claudeContent) empty() bool {
	return c.text == "" && c.thinking == "" && len(c.calls)+len(c.results) == 0
}

func (c *claudeReader) record(o object) error {
	typ, err := o.str("type")
	if err != nil {
		return err
	}
	switch typ {
	case "user", "assistant":
		return c.readMessage(typ, o)
	case "attachment":
		return c.attachment(o)
	case "queue-operation":
		c.queueOperation(o)
	case "custom-title":
		c.custom = o.text("customTitle")
	case "ai-title":
		c.ai = o.text("aiTitle")
	case "summary":
		c.summaries = append(c.summaries, struct{ leaf, title string }{o.text("leafUuid"), o.text("summary")})
	default:
		c.skipNamed("type", typ)
	}
	return nil
}

// begin reads the fields of a line with a message, and reports whether to read the
// message.
func (c *claudeReader) begin(o object) bool {
	if o.flag("isSidechain") {
		c.sidechain = true
		c.skip("sub-agent")
		return false
	}
	if id := o.text("sessionId"); id != "" {
		c.id = id
	}
	c.dir = cmp.Or(c.dir, o.text("cwd"))
	if id := o.text("uuid"); id != "" && c.seen[id] {
		c.skip("written twice")
		return false
	}
	return true
}

// readMessage reads a user or assistant line.
func (c *claudeReader) readMessage(typ string, o object) error {
	if !c.begin(o) {
		return nil
	}
	m, err := o.sub("message")
	if err != nil {
		return err
	}
	c.at(o.text("timestamp"))
	id := o.text("uuid")
	content, err := c.blocks(m)
	if err != nil {
		return err
	}
	if id != "" {
		c.seen[id] = true
	}
	switch {
	case o.flag("isMeta"):
		c.skip("isMeta")
		return nil
	case o.flag("isApiErrorMessage") || m.text("model") == "<synthetic>":
		c.skip("not the model's")
		return nil
	}
	if content.injected {
		c.skip("injected")
		if content.empty() {
			return nil
		}
	}
	switch {
	case o.flag("isCompactSummary"):
		c.answer = ""
		c.summary(content.text)
	case typ == "assistant":
		c.assistant(m.text("id"), content)
	default:
		for _, r := range content.results {
			c.message(c.line, r)
		}
		if content.text != "" || len(content.results) == 0 {
			c.userText(content.text, isProgram(o))
		}
	}
	return nil
}

// assistant adds a line of an answer to the message that the answer's first
// line began, if no other message follows it.
func (c *claudeReader) assistant(id string, content claudeContent) {
	m := sessionlog.Message{
		Role: record.RoleAssistant, Content: content.text, ReasoningContent: content.thinking, ToolCalls: content.calls,
	}
	c.earlier = c.earlier || id != "" && digest(id) == c.from.Answer
	c.buf = m.AppendLine(c.buf[:0])
	if n := len(c.buf); id != "" && id == c.answer && c.size+n <= maxImportedLine {
		c.size += n
		old := &c.t.Items[c.item].Message
		old.Content = join(old.Content, m.Content)
		old.ReasoningContent = join(old.ReasoningContent, m.ReasoningContent)
		old.ToolCalls = append(old.ToolCalls, m.ToolCalls...)
		return
	}
	if n := c.message(c.line, m); n > 0 {
		c.answer, c.item, c.size = id, len(c.t.Items)-1, n
	}
}

// claudeInjected are the elements with instructions to the model, which are omitted.
var claudeInjected = []string{"system-reminder", "local-command-caveat"}

// blocks reads the content of a message: text, or an array of blocks.
func (c *claudeReader) blocks(m object) (content claudeContent, err error) {
	blocks, err := m.blocks("content")
	if err != nil {
		return content, err
	}
	for _, b := range blocks {
		var text string
		switch typ := b.text("type"); typ {
		case "text":
			if text, err = b.str("text"); isInjected(text) {
				content.injected = true
			} else {
				content.text = join(content.text, text)
			}
		case "thinking":
			text, err = b.str("thinking")
			content.thinking = join(content.thinking, text)
		case "image", "document":
			content.text = join(content.text, "["+typ+"]")
		case "tool_use":
			var id, name string
			if id, err = b.str("id"); err == nil {
				name, err = b.str("name")
			}
			content.calls = append(content.calls, sessionlog.ToolCall{
				ID: id, Function: sessionlog.Function{Name: name, Arguments: compactJSON(b["input"])},
			})
		case "tool_result":
			r := sessionlog.Message{Role: record.RoleTool}
			if r.ToolCallID, err = b.str("tool_use_id"); err == nil {
				r.Content, err = c.plain(b, "content")
			}
			content.results = append(content.results, r)
		default:
			c.skipNamed("block", typ)
		}
		if err != nil {
			return content, err
		}
	}
	return content, nil
}
