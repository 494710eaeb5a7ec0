package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// The paths of this file have the shapes of the OpenAI API, version 1: a model is an
// agent.
var openaiRoutes = []route{
	{method: "GET", path: "/v1/models", summary: "List the agents as models of OpenAI", out: of[openaiModels](), status: 200, style: openaiStyle, run: (*call).openaiModels},
	{method: "GET", path: "/v1/models/{id}", summary: "Describe an agent as a model of OpenAI", out: of[openaiModel](), status: 200, style: openaiStyle, run: (*call).openaiModel},
	{method: "POST", path: "/v1/chat/completions", summary: "Send a message to an agent, as to a model of OpenAI", in: of[chatRequest](), once: true, out: of[chatAnswer](), status: 200,
		events: map[string]reflect.Type{}, fails: []int{403, 409, 429, client.StatusCanceled}, style: openaiStyle, run: with((*call).chat)},
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
	switch {
	case p.Status >= 500:
		e.Error.Type = "server_error"
	case p.Kind == cancelled:
		e.Error.Type = cancelled
	}
	return e
}

// chatRequest is a request for a completion. Ignored are the fields that it does not
// use, such as temperature. Fields that change the form of the answer are refused.
type chatRequest struct {
	Model    string        `json:"model" jsonschema:"the name of an agent"`
	Messages []chatMessage `json:"messages" jsonschema:"the last one is of the user"`
	Stream   bool          `json:"stream,omitempty"`
	Usage    bool          `json:"-"` // of stream_options
	User     string        `json:"-"` // the value of user, as it was sent
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
	if v := string(all["tool_choice"]); v != "" && v != "null" && v != `"auto"` {
		return errors.New("tool_choice: want auto: set tool_choice of the agent in config.toml")
	}
	var format struct{ Type string }
	if v := all["response_format"]; v != nil && json.Unmarshal(v, &format) != nil || format.Type != "" && format.Type != "text" {
		return errors.New("response_format: want the type text: describe the format in the message")
	}
	r.User = string(all["user"])
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

func (u *chatUsage) add(more *agent.TokenUsage) {
	u.Prompt += uint64(more.Prompt)
	u.Completion += uint64(more.Completion)
	u.Total = u.Prompt + u.Completion
}

func (c *call) openaiModels() (any, error) {
	all, err := op.ListAgents.Do(c.r.Context(), c.daemon, op.AgentNames{Only: c.key.Agents})
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
	a, err := op.ShowAgent.Do(c.r.Context(), c.daemon, op.AgentName{Name: c.r.PathValue("id"), AgentNames: op.AgentNames{Only: c.key.Agents}})
	if client.IsKind(err, "unknown_agent") {
		return nil, problemOf(err).fix("GET /v1/agents lists the agents")
	}
	return c.modelOf(a.Name), err
}

// chat runs an agent, and answers as OpenAI does.
func (c *call) chat(in *chatRequest) (any, error) {
	t, end, err := c.conversation(in)
	if err != nil {
		return nil, err
	}
	defer end()
	if len(in.Ignored) > 0 {
		c.w.Header().Set("X-Crabmem-Ignored", printable(strings.Join(in.Ignored, ", ")))
	}
	a := &chatAnswer{ID: "chatcmpl-" + randomID(), Object: "chat.completion", Created: c.g.o.Now().Unix(), Model: in.Model}
	if in.Stream {
		return nil, c.chatStream(t, a, end)
	}
	c.unlimited()
	r, err := op.SendMessage.Do(c.r.Context(), c.daemon, t.message)
	if t.renew(err) {
		r, err = op.SendMessage.Do(c.r.Context(), c.daemon, t.message)
	}
	if err != nil {
		c.g.chats.Fail(t.mark)
		return nil, err
	}
	c.w.Header().Set("X-Crabmem-Session", r.Session)
	t.answered(r.Content, r.Session, r.Repeated)
	stop := "stop"
	a.Choices = []chatChoice{{Message: &chatText{Role: "assistant", Content: &r.Content}, FinishReason: &stop}}
	a.Usage = &chatUsage{}
	a.Usage.add(&r.Usage)
	return a, nil
}

// randomID returns a text that cannot be guessed.
func randomID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// chatWriter is the sink of a stream in the shape of OpenAI: it sends only texts.
type chatWriter struct {
	out      *eventStream
	a        *chatAnswer
	began    bool // the message is in the session
	spoke    bool // the first chunk is sent
	session  string
	repeated bool
	text     strings.Builder
	usage    chatUsage
}

func (w *chatWriter) send(choices ...chatChoice) error {
	if empty := ""; !w.spoke {
		w.spoke = true
		if err := w.send(chatChoice{Delta: &chatText{Role: "assistant", Content: &empty}}); err != nil {
			return err
		}
	}
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

// chatStream sends the answer as it is written. An error after the first text or comment
// has no status: it is an event, and the stream does not end with [DONE].
func (c *call) chatStream(t *chatTurn, a *chatAnswer, end func()) error {
	ctx, out, leave, err := c.openStream()
	if err != nil {
		return err
	}
	defer leave()
	a.Object = "chat.completion.chunk"
	w := &chatWriter{out: out, a: a}
	err = c.chatEvents(ctx, t, w)
	if !w.began && t.renew(err) {
		err = c.chatEvents(ctx, t, w)
	}
	if err != nil {
		c.g.chats.Fail(t.mark)
	}
	switch {
	case err == errSent || err != nil && !out.isOpen():
		return err
	case err != nil:
		end()
		b, _ := json.Marshal(openaiErrorOf(c.g.problem(err))) // texts and numbers
		_ = out.copy([]byte("data: " + string(b) + "\n\n"))   // the client may be gone
		return errSent
	}
	t.answered(w.text.String(), w.session, w.repeated)
	end()
	stop := "stop"
	_ = w.send(chatChoice{Delta: &chatText{}, FinishReason: &stop})
	if t.in.Usage {
		a.Usage = &w.usage
		_ = w.send()
	}
	_ = out.copy([]byte("data: [DONE]\n\n"))
	return errSent
}

// chatEvents sends the texts of a run. The error is errSent if the client is gone.
func (c *call) chatEvents(ctx context.Context, t *chatTurn, w *chatWriter) error {
	run := &runWriter{g: c.g, out: w, agent: t.message.Agent}
	for e, err := range op.StreamMessage.All(ctx, c.daemon, t.message) {
		if err != nil {
			return err
		}
		switch e.Kind {
		case agent.Start:
			w.session = e.Session
		case agent.User:
			w.began, w.repeated = true, e.Repeated
			c.w.Header().Set("X-Crabmem-Session", w.session)
			w.out.await()
		case agent.Usage:
			w.usage.add(e.Usage)
		default:
			if run.write(e) != nil {
				return errSent
			}
		}
	}
	return nil
}

// errSent is returned by a route that has sent its response.
var errSent = errors.New("the response is sent")
