package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"crabmem/crmem"
	"crabmem/daemon/box"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/trust"
)

// The paths below /webhook are for services that cannot wait for an answer. A message is
// on disk before its request is answered, and so is the answer of the agent until a
// client reads it.
var hookRoutes = []route{
	{method: "POST", path: hookPath + "send", summary: "Store a message to an agent, and answer it later", in: of[hookMessage](), once: true, out: of[hookAccepted](), status: 202,
		fails: []int{403, 409, 429}, run: with((*call).sendHook)},
	{method: "GET", path: hookPath + "poll/{conversation}", summary: "Read the answers of a conversation", out: of[hookAnswers](), status: 200, fails: []int{429}, waits: true,
		query: []op.Field{{Name: "after", Doc: "only answers after this seq, and remove those up to it; absent: remove all that are returned", Type: of[int]()},
			{Name: "wait", Doc: "seconds to wait for an answer", Type: of[int](), Max: 60}},
		run: (*call).pollHook},
	{method: "GET", path: hookPath + "health", summary: "Report whether gateway and daemon answer", open: true, out: of[health](), status: 200, run: (*call).health},
}

const (
	hookPath        = "/webhook/"
	hookOrigin      = "hook:" // begins the identity of a conversation; the name of the key, a slash, and the conversation follow
	defaultSender   = "webhook"
	maxConversation = 128 // bytes of an ID
	maxSender       = 128
	hookRuns        = 4 // concurrent, of all conversations
	hookTime        = 30 * time.Minute
	hookLook        = time.Second
	hookKeep        = 24 * time.Hour // of answers
)

type hookMessage struct {
	Conversation string `json:"conversation_id" jsonschema:"at most 128 bytes, without a slash"`
	Content      string `json:"content"`
	Sender       string `json:"sender_id,omitempty" jsonschema:"precedes the content, unless it is webhook"`
	Agent        string `json:"agent_id,omitempty" jsonschema:"absent: crab"`
}

type hookAccepted struct {
	ID string `json:"id" jsonschema:"of the message"`
}

type hookAnswers struct {
	Messages []hookAnswer `json:"messages"`
}

type hookAnswer struct {
	Seq      uint64  `json:"seq" jsonschema:"ascending in a conversation"`
	Type     string  `json:"type" jsonschema:"always text"`
	Content  string  `json:"content"`
	Kind     string  `json:"kind" jsonschema:"reply; wake: results of an agent's work arrived; cron: of a scheduled run"`
	Filename *string `json:"filename" jsonschema:"always null"`
}

// hooks answers the messages of conversations.
type hooks struct {
	box  *box.Box
	runs *room

	mu     sync.Mutex
	active map[string]bool // conversations with a worker
}

// openHooks opens the box, and answers the messages that an earlier gateway left.
func (g *Gateway) openHooks() {
	var err error
	if g.hooks.box, err = box.Open(box.Options{FS: g.o.FS, Home: g.o.Home, Dir: box.Webhook, Keep: hookKeep, Now: g.o.Now}); err != nil {
		g.o.Log.Warn("webhook", "error", err)
	}
	g.hooks.runs, g.hooks.active = newRoom(hookRuns), make(map[string]bool)
	for _, conversation := range g.hooks.box.Waiting() {
		g.answer(conversation)
	}
}

// hookIdentity returns the identity of a conversation of the key.
func (c *call) hookIdentity(id string) (string, error) {
	return hookOrigin + c.key.Name + "/" + id, CheckConversation(id)
}

// CheckConversation returns an error for an ID that no webhook conversation can have.
func CheckConversation(id string) error {
	if id == "" || len(id) > maxConversation || strings.Contains(id, "/") || strings.ContainsFunc(id, unicode.IsControl) {
		return invalidf("conversation_id: want 1 to %d bytes, without slashes and control characters", maxConversation)
	}
	return nil
}

func (c *call) sendHook(in *hookMessage) (any, error) {
	conversation, err := c.hookIdentity(in.Conversation)
	if err != nil {
		return nil, err
	}
	m := box.Message{Agent: in.Agent, Content: in.Content}
	if m.Agent == "" {
		m.Agent = config.Crab
	}
	switch {
	case strings.TrimSpace(in.Content) == "":
		return nil, invalidf("content is empty")
	case len(in.Sender) > maxSender || strings.ContainsFunc(in.Sender, unicode.IsControl):
		return nil, invalidf("sender_id: want at most %d bytes, without control characters", maxSender)
	}
	if err := c.permitAgent(m.Agent); err != nil {
		return nil, err
	}
	if in.Sender != "" && in.Sender != defaultSender {
		m.Content = in.Sender + ": " + in.Content
	}
	id, err := c.g.hooks.box.Add(hookOrigin+c.key.Name+"/", conversation, c.once, m)
	switch {
	case errors.Is(err, box.ErrFull):
		return nil, problemf(http.StatusTooManyRequests, "full", "too many messages wait for an answer, or too many conversations").fix("poll the conversations, then send again").after(10)
	case errors.Is(err, box.ErrReuse):
		return nil, problemf(http.StatusConflict, "reused", "another message has this Idempotency-Key").fix("send the message with another key")
	case err != nil:
		return nil, c.hookFailure(err)
	}
	c.g.answer(conversation)
	return hookAccepted{id}, nil
}

// hookFailure returns the problem of an error of a file.
func (c *call) hookFailure(err error) *Problem {
	p := problemf(http.StatusInternalServerError, "failed", "the gateway could not store or read the conversation").fix("the log of the gateway has the cause")
	p.hidden = err
	return p
}

// pollHook returns the answers of a conversation. It may wait for one.
func (c *call) pollHook() (any, error) {
	conversation, err := c.hookIdentity(c.r.PathValue("conversation"))
	if err != nil {
		return nil, err
	}
	drain := !c.query.Has("after")
	late := time.NewTimer(time.Duration(c.number("wait")) * time.Second)
	defer late.Stop()
	out := hookAnswers{Messages: []hookAnswer{}}
	for {
		list, changed, err := c.g.hooks.box.Read(conversation, c.number("after"), drain)
		if err != nil {
			return nil, c.hookFailure(err)
		}
		for _, a := range list {
			out.Messages = append(out.Messages, hookAnswer{Seq: a.Seq, Type: "text", Content: a.Content, Kind: string(cmp.Or(a.Kind, box.Reply))})
		}
		if len(list) > 0 {
			return out, nil
		}
		select {
		case <-changed:
		case <-time.After(hookLook): // the daemon may add a text
		case <-late.C:
			return out, nil
		case <-c.g.ending.Done():
			return out, nil
		case <-c.r.Context().Done():
			return nil, context.Canceled
		}
	}
}

// answer begins to answer the messages of a conversation, in order, unless a worker does.
// The worker ends when no message waits, or the gateway does.
func (g *Gateway) answer(conversation string) {
	g.hooks.mu.Lock()
	defer g.hooks.mu.Unlock()
	if g.hooks.active[conversation] || g.ending.Err() != nil {
		return
	}
	g.hooks.active[conversation] = true
	g.background.Go(func() {
		for g.answerNext(conversation) {
		}
	})
}

// answerNext answers the next message. It returns false when the worker ends.
func (g *Gateway) answerNext(conversation string) bool {
	g.hooks.mu.Lock()
	m, ok, err := g.hooks.box.Next(conversation)
	if !ok || err != nil {
		delete(g.hooks.active, conversation) // a later message begins another worker
		g.hooks.mu.Unlock()
		if err != nil {
			g.o.Log.Error("webhook", "error", err)
		}
		return false
	}
	g.hooks.mu.Unlock()
	content, err := g.runHook(conversation, &m)
	if err == nil {
		err = g.hooks.box.Finish(conversation, m.ID, content)
	}
	if err == nil {
		return true
	}
	if g.ending.Err() == nil {
		g.o.Log.Error("webhook: a message remains until the gateway starts again", "error", err)
	}
	g.hooks.mu.Lock()
	delete(g.hooks.active, conversation)
	g.hooks.mu.Unlock()
	return false
}

// runHook returns the answer to a message, or the text of its error. It repeats a run that
// the daemon did not answer: the ID of the message makes it one turn.
func (g *Gateway) runHook(conversation string, m *box.Message) (string, error) {
	name, _, _ := strings.Cut(strings.TrimPrefix(conversation, hookOrigin), "/")
	d := &client.Client{Addr: g.o.Daemon, Header: op.Header{As: conversation, By: crmem.Actor{Client: crmem.ClientHTTP}}}
	defer d.Close() //nolint:errcheck // nothing is buffered
	var retry client.Retry
	for {
		content, err := g.tryHook(d, name, conversation, m)
		if err == nil {
			return content, nil
		}
		if g.ending.Err() != nil {
			return "", err
		}
		p := g.problem(err)
		again := retry.Again(p.Status, p.Kind)
		g.o.Log.Warn("webhook: a run failed", "again", again, "error", err)
		if !again {
			return "error: " + p.Detail, nil
		}
		if err := retry.Wait(g.ending); err != nil {
			return "", err
		}
	}
}

// tryHook runs the agent. A run waits for the share of its key, and that of an untrusted
// identity first for its rate.
func (g *Gateway) tryHook(d *client.Client, key, conversation string, m *box.Message) (string, error) {
	h, err := d.Hello(g.ending)
	if err != nil {
		return "", err
	}
	by := party{space.KeyOrigin + key, trust.Level(h.Trust) == trust.Untrusted}
	if by.isUntrusted {
		if err := g.clients.of(space.KeyOrigin + key).untrusted.Wait(g.ending); err != nil {
			return "", err
		}
	}
	if err := g.hooks.runs.wait(g.ending, by, 1); err != nil {
		return "", err
	}
	defer g.hooks.runs.give(by, 1)
	ctx, cancel := context.WithTimeout(g.ending, hookTime)
	defer cancel()
	r, err := op.SendMessage.Do(ctx, d, op.Message{Content: m.Content, Agent: m.Agent, Sender: conversation, Request: m.ID})
	if errors.Is(err, context.DeadlineExceeded) {
		return "error: the run took too long", nil
	}
	return r.Content, err
}
