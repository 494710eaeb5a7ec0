package foreign

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// readGemini reads a session file of Gemini CLI, as in
// ~/.gemini/tmp/PROJECT/chats/session-TIME-ID.jsonl:
//
//   - user and gemini lines become messages in the order of the file, which includes
//     messages that the user took back ($rewindTo). A later line of the same id adds
//     calls, and results of calls, which become messages of the role tool;
//   - $set contains facts about the session, or all messages after a compaction: a
//     message with a snapshot becomes a compaction;
//   - texts of Gemini CLI and of hooks before those of the user, duplicates, and lines of
//     other types are counted and omitted.
//
// The title is the summary of the session.
func readGemini(r io.Reader, from Mark) (Transcript, error) {
	g := geminiReader{builder: builder{from: from}, index: make(map[string]int), seen: make(map[string]bool)}
	if err := g.read(r, g.record); err != nil {
		return Transcript{}, err
	}
	for _, m := range g.messages {
		g.line = m.line
		if m.summary {
			g.summary(m.Content)
			continue
		}
		g.message(m.line, m.Message)
		for _, r := range m.results {
			g.message(m.line, r)
		}
	}
	t, err := g.finish("gemini-cli", g.id, g.title)
	if g.subAgent {
		err = ErrSubAgent
	}
	return t, err
}

type geminiReader struct {
	builder
	id, title string
	subAgent  bool
	messages  []geminiMessage
	index     map[string]int  // in messages, by id
	seen      map[string]bool // texts by role, calls, and results
}

type geminiMessage struct {
	sessionlog.Message
	line    int64
	summary bool
	results []sessionlog.Message
}

func (g *geminiReader) record(o object) error {
	set, err := o.sub("$set")
	switch {
	case err != nil:
		return err
	case o.has("$rewindTo"):
		g.skip("taken back; the messages stay")
		return nil
	case o.has("id"):
		return g.readMessage(o, false)
	case set == nil:
		set = o // the first line
	}
	if id := set.text("sessionId"); id != "" {
		g.id = id
	}
	if title := set.text("summary"); title != "" {
		g.title = title
	}
	g.subAgent = g.subAgent || set.text("kind") == "subagent"
	g.at(set.text("startTime"))
	list, err := set.blocks("messages")
	g.earlier = g.earlier || len(list) > 0
	for _, m := range list {
		err = errors.Join(err, g.readMessage(m, true))
	}
	return err
}

// readMessage reads a message. A copy is from a list of all messages, in which a message
// may have a new id.
func (g *geminiReader) readMessage(o object, isCopy bool) error {
	role := map[string]string{"user": record.RoleUser, "gemini": record.RoleAssistant}[o.text("type")]
	if role == "" {
		g.skipNamed("type", o.text("type"))
		return nil
	}
	g.at(o.text("timestamp"))
	content := o["content"]
	if o.has("displayContent") { // without the files that the user named
		content = o["displayContent"]
	}
	text, err := geminiText(content, false)
	if err != nil {
		return err
	}
	thoughts, err := o.blocks("thoughts")
	if err != nil {
		return err
	}
	calls, err := o.blocks("toolCalls")
	if err != nil {
		return err
	}
	i, known := g.index[o.text("id")]
	n := len(g.messages)
	switch {
	case known:
	case text == "" && role == record.RoleUser, text == geminiThanks && n > 0 && g.messages[n-1].summary:
		g.skip("injected")
		return nil
	case isCopy && g.seen[role+"\x00"+text]:
		g.skip("written twice")
		return nil
	default:
		i, g.index[o.text("id")] = n, n
		g.messages = append(g.messages, geminiMessage{line: g.line, summary: role == record.RoleUser && strings.Contains(text, "<state_snapshot>")})
		g.messages[n].Role = role
	}
	g.t.Mark.Answer = digest(o.text("id")) // a later line may repeat it
	g.earlier = g.earlier || g.t.Mark.Answer == g.from.Answer && g.from.Offset > 0
	m := &g.messages[i]
	m.Content = cmp.Or(m.Content, text) // a later copy may be shorter
	g.seen[role+"\x00"+text] = true
	if m.ReasoningContent == "" {
		for _, t := range thoughts {
			m.ReasoningContent = join(m.ReasoningContent, strings.TrimPrefix(t.text("subject")+": "+t.text("description"), ": "))
		}
	}
	for _, c := range calls {
		err = errors.Join(err, g.call(m, c))
	}
	return err
}

// call adds a call to a message, and its result.
func (g *geminiReader) call(m *geminiMessage, o object) error {
	id := o.text("id")
	if key := "call\x00" + id; !g.seen[key] {
		g.seen[key] = id != ""
		m.ToolCalls = append(m.ToolCalls, sessionlog.ToolCall{ID: id, Function: sessionlog.Function{Name: o.text("name"), Arguments: compactJSON(o["args"])}})
	}
	key := "result\x00" + id
	if !o.has("result") || g.seen[key] {
		return nil
	}
	g.seen[key] = id != ""
	text, err := geminiText(o["result"], true)
	m.results = append(m.results, sessionlog.Message{Role: record.RoleTool, Content: text, ToolCallID: id})
	return err
}

// geminiThanks is the answer that Gemini CLI writes after a snapshot.
const geminiThanks = "Got it. Thanks for the additional context!"

// geminiText returns the text of a part, or of a list of parts, without the elements that
// Gemini CLI writes before the user's text. Responses of functions are in results alone:
// a message repeats them.
func geminiText(v json.RawMessage, result bool) (text string, err error) {
	list, err := object{"parts": v}.blocks("parts")
	if JSONType(v) == "object" {
		list, err = []object{decode[object](v)}, nil
	}
	for _, p := range list {
		response := p.object("functionResponse")
		switch {
		case p.has("text") && !p.flag("thought"):
			s := p.text("text")
			for _, tag := range []string{"session_context", "hook_context"} {
				if strings.HasPrefix(strings.TrimSpace(s), "<"+tag+">") {
					_, s, _ = strings.Cut(s, "</"+tag+">")
				}
			}
			text = join(text, strings.Trim(s, "\n"))
		case response != nil && result:
			text = join(text, cmp.Or(response.object("response").text("output"), compactJSON(response["response"])))
		case p.has("inlineData"), p.has("fileData"):
			text = join(text, "[file]")
		}
	}
	return text, err
}
