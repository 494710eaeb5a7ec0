package gateway

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"crabmem/daemon/client"
)

// The paths of this file have the shapes of the OpenAI API, version 1: a model is an
// agent.
var openaiRoutes = []route{
	{method: "GET", path: "/v1/models", summary: "List the agents as models of OpenAI", out: of[openaiModels](), status: 200, style: openaiStyle, run: (*call).openaiModels},
	{method: "GET", path: "/v1/models/{id}", summary: "Describe an agent as a model of OpenAI", out: of[openaiModel](), status: 200, style: openaiStyle, run: (*call).openaiModel},
	{method: "POST", path: "/v1/chat/completions", summary: "Send a message to an agent, as to a model of OpenAI", in: of[chatRequest](), once: true, out: of[chatAnswer](), status: 200,
		events: map[string]reflect.Type{}, fails: []int{403, 409, 429}, style: openaiStyle, run: with((*call).chat)},
}

// openaiStyle is the style of a route whose refusals have the shape of OpenAI's.
const openaiStyle = "openai"

type openaiModels struct {
	Object string        `json:"object"`
	Data   []openaiModel `json:"data"`
}

type openaiModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// openaiError is the body of a refusal.
type openaiError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	} `json:"error"`
}

func openaiErrorOf(p *Problem) (e openaiError) {
	e.Error.Message, e.Error.Type, e.Error.Code = p.Detail, "invalid_request_error", p.Kind
	if p.Remedy != "" {
		e.Error.Message += ": " + p.Remedy
	}
	if p.Status >= 500 {
		e.Error.Type = "server_error"
	}
	return e
}

// chatRequest is a request for a completion. Ignored are the fields that it does not
// use, such as temperature.
type chatRequest struct {
	Model    string        `json:"model" jsonschema:"the name of an agent"`
	Messages []chatMessage `json:"messages" jsonschema:"the last one is of the user"`
	Stream   bool          `json:"stream,omitempty"`
	Usage    bool          `json:"-"` // of stream_options
	Ignored  []string      `json:"-"`
}

type chatMessage struct {
	Role    string      `json:"role"`
	Content chatContent `json:"content"`
}

// chatContent is a text, or a list of parts that are texts.
type chatContent string

// UnmarshalJSON refuses parts that are not texts.
func (c *chatContent) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte(`"`)) {
		return json.Unmarshal(b, (*string)(c))
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(b, &parts); err != nil {
		return errors.New("content: want a text or a list of parts")
	}
	for _, p := range parts {
		if p.Type != "text" {
			return fmt.Errorf("content: a part of type %q, want text", printable(p.Type))
		}
		*c += chatContent(p.Text)
	}
	return nil
}

// UnmarshalJSON collects the fields that are ignored.
func (r *chatRequest) UnmarshalJSON(b []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	var options struct {
		Usage bool `json:"include_usage"`
	}
	for name, to := range map[string]any{"model": &r.Model, "messages": &r.Messages, "stream": &r.Stream, "stream_options": &options} {
		if v, ok := all[name]; ok && string(v) != "null" {
			if err := json.Unmarshal(v, to); err != nil {
				return err
			}
		}
		delete(all, name)
	}
	r.Usage = options.Usage
	for _, name := range []string{"tools", "functions"} {
		if v := string(all[name]); v != "" && v != "null" && v != "[]" {
			return fmt.Errorf("%s: an agent has its own tools", name)
		}
	}
	if v := string(all["n"]); v != "" && v != "null" && v != "1" {
		return errors.New("n: want 1")
	}
	r.Ignored = slices.Sorted(maps.Keys(all))
	return nil
}

type chatAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
}

type chatChoice struct {
	Index        int       `json:"index"`
	Message      *chatText `json:"message,omitempty"`
	Delta        *chatText `json:"delta,omitempty"`
	FinishReason *string   `json:"finish_reason"`
}

type chatText struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type chatUsage struct {
	Prompt     uint64 `json:"prompt_tokens"`
	Completion uint64 `json:"completion_tokens"`
	Total      uint64 `json:"total_tokens"`
}

func (u *chatUsage) add(more *client.Usage) {
	u.Prompt += more.Prompt
	u.Completion += more.Completion
	u.Total = u.Prompt + u.Completion
}

func (c *call) openaiModels() (any, error) {
	all, err := c.agents()
	list := openaiModels{Object: "list", Data: []openaiModel{}}
	for i := range all {
		list.Data = append(list.Data, c.modelOf(all[i].Name))
	}
	return list, err
}

func (c *call) modelOf(agent string) openaiModel {
	return openaiModel{ID: agent, Object: "model", Created: c.g.began.Unix(), OwnedBy: "crabmem"}
}

func (c *call) openaiModel() (any, error) {
	a, err := c.readAgent()
	if err != nil {
		return nil, err
	}
	return c.modelOf(a.(Agent).Name), nil
}

// maxChats limits how many conversations are known.
const maxChats = 4096

// chatTable finds the session of a conversation whose client sends all messages each
// time. It forgets the oldest conversations.
type chatTable struct {
	mu      sync.Mutex
	session map[string]string
	order   []string
}

func (t *chatTable) get(key string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session[key]
}

func (t *chatTable) set(key, session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session == nil {
		t.session = make(map[string]string)
	}
	if _, known := t.session[key]; !known {
		t.order = append(t.order, key)
	}
	t.session[key] = session
	for ; len(t.order) > maxChats; t.order = t.order[1:] {
		delete(t.session, t.order[0])
	}
}

// hashOfChat returns the key of a conversation that consists of messages.
func (c *call) hashOfChat(model string, messages []chatMessage) string {
	h := sha256.New()
	for _, part := range []string{c.key.Identity(), model} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	for _, m := range messages {
		fmt.Fprintf(h, "%d:%s%d:%s", len(m.Role), m.Role, len(m.Content), m.Content)
	}
	return string(h.Sum(nil))
}

// chatID returns the key of the conversation that a header names, or "".
func (c *call) chatID() string {
	if id := c.r.Header.Get("X-OpenWebUI-Chat-Id"); id != "" && len(id) <= defaultSize {
		return "chat\x00" + c.key.Identity() + "\x00" + id
	}
	return ""
}

// conversation returns the message of a request, in the session of its conversation. If
// the gateway does not know the conversation, the message begins a session, and quotes
// the messages before it.
func (c *call) conversation(in *chatRequest) (*message, error) {
	last := len(in.Messages) - 1
	if last < 0 || in.Messages[last].Role != "user" {
		return nil, invalidf("messages: the last one must have the role user")
	}
	m := &message{Agent: in.Model, Content: string(in.Messages[last].Content), Session: c.r.Header.Get("X-Crabmem-Session")}
	if m.Session == "" && c.chatID() != "" {
		m.Session = c.g.chats.get(c.chatID())
	}
	if m.Session == "" && last > 0 {
		m.Session = c.g.chats.get(c.hashOfChat(in.Model, in.Messages[:last]))
	}
	if m.New = m.Session == ""; m.New && last > 0 {
		m.Content = quoted(in.Messages[:last]) + "\n" + m.Content
	}
	return m, nil
}

// quoted returns messages as a text that no message can end.
func quoted(messages []chatMessage) string {
	var b strings.Builder
	for _, m := range messages {
		for line := range strings.SplitSeq(m.Role+": "+string(m.Content), "\n") {
			b.WriteString("> " + line + "\n")
		}
	}
	return b.String()
}

// chat runs an agent, and answers as OpenAI does.
func (c *call) chat(in *chatRequest) (any, error) {
	newest, err := c.conversation(in)
	if err != nil {
		return nil, err
	}
	m, end, err := c.prepare(newest)
	if err != nil {
		return nil, err
	}
	defer end()
	if len(in.Ignored) > 0 {
		c.w.Header().Set("X-Crabmem-Ignored", printable(strings.Join(in.Ignored, ", ")))
	}
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	a := &chatAnswer{ID: "chatcmpl-" + base64.RawURLEncoding.EncodeToString(random[:]), Object: "chat.completion", Created: c.g.o.Now().Unix(), Model: in.Model}
	if in.Stream {
		return nil, c.chatStream(in, m, a, end)
	}
	c.unlimited()
	r, err := c.daemon.Send(c.r.Context(), m)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("X-Crabmem-Session", r.StoredID)
	c.answered(in, r.Content, r.StoredID)
	stop := "stop"
	a.Choices = []chatChoice{{Message: &chatText{Role: "assistant", Content: &r.Content}, FinishReason: &stop}}
	a.Usage = &chatUsage{}
	a.Usage.add(&r.Usage)
	return a, nil
}

// answered keeps the session of a conversation.
func (c *call) answered(in *chatRequest, answer, session string) {
	if id := c.chatID(); id != "" {
		c.g.chats.set(id, session)
	}
	all := append(slices.Clone(in.Messages), chatMessage{"assistant", chatContent(answer)})
	c.g.chats.set(c.hashOfChat(in.Model, all), session)
}

// chatWriter is the sink of a stream in the shape of OpenAI: it sends only texts.
type chatWriter struct {
	out   *eventStream
	a     *chatAnswer
	text  strings.Builder
	usage chatUsage
}

func (w *chatWriter) send(choices ...chatChoice) error {
	a := *w.a
	a.Choices = append([]chatChoice{}, choices...)
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return w.out.copy([]byte("data: " + string(b) + "\n\n"))
}

func (w *chatWriter) event(_ string, data any) error {
	c, ok := data.(chunk)
	if !ok || c.Content == "" {
		return nil
	}
	w.text.WriteString(c.Content)
	return w.send(chatChoice{Delta: &chatText{Content: &c.Content}})
}

// chatStream sends the answer as it is written. An error after the first event has no
// status: it is an event, and the stream does not end with [DONE].
func (c *call) chatStream(in *chatRequest, m client.Message, a *chatAnswer, end func()) error {
	ctx, out, leave, err := c.openStream()
	if err != nil {
		return err
	}
	defer leave()
	a.Object = "chat.completion.chunk"
	w := &chatWriter{out: out, a: a}
	run := &runWriter{g: c.g, out: w, agent: m.Agent}
	began, session, empty := false, "", ""
	for e, err := range withoutNotes(c.daemon.Stream(ctx, m)) {
		switch {
		case err != nil && !began:
			return err
		case err != nil:
			end()
			b, _ := json.Marshal(openaiErrorOf(c.g.problem(err))) // texts and numbers
			_ = out.copy([]byte("data: " + string(b) + "\n\n"))   // the client may be gone
			return errSent
		case e.Kind == "start":
			began, session = true, e.StoredID
			c.w.Header().Set("X-Crabmem-Session", session)
			err = w.send(chatChoice{Delta: &chatText{Role: "assistant", Content: &empty}})
		case e.Kind == "usage":
			w.usage.add(e.Usage)
		default:
			err = run.write(e)
		}
		if err != nil {
			return errSent // the client is gone
		}
	}
	c.answered(in, w.text.String(), session)
	end()
	stop := "stop"
	_ = w.send(chatChoice{Delta: &chatText{}, FinishReason: &stop})
	if in.Usage {
		a.Usage = &w.usage
		_ = w.send()
	}
	_ = out.copy([]byte("data: [DONE]\n\n"))
	return errSent
}

// errSent is returned by a route that has sent its response.
var errSent = errors.New("the response is sent")
