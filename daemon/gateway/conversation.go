package gateway

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/gateway/chats"
	"crabmem/daemon/op"
)

// chatTurn is the newest message of a conversation, whose client sends all messages.
type chatTurn struct {
	c       *call
	in      *chatRequest
	message op.Message
	mark    chats.Mark
	named   bool // by X-Crabmem-Session
	known   bool // the gateway knows what the client saw
}

// conversation returns the message of a request, in the session of its conversation, and
// takes a slot for its run. A session is that of the conversation only if the client saw
// exactly the other messages of the request, and of one session only. Otherwise the
// message begins a session, and quotes the messages before it.
func (c *call) conversation(in *chatRequest) (t *chatTurn, end func(), err error) {
	last := len(in.Messages) - 1
	if last < 0 || in.Messages[last].Role != "user" {
		return nil, nil, invalidf("messages: the last one must have the role user")
	}
	named := c.r.Header.Get("X-Crabmem-Session")
	t = &chatTurn{c: c, in: in, named: named != "", known: true}
	if t.message, end, err = c.prepare(&message{Agent: in.Model, Content: string(in.Messages[last].Content), Session: named, New: !t.named}); err != nil {
		return nil, nil, err
	}
	if t.message.Request == "" {
		t.message.Request, t.message.Fresh = "chat-"+randomID(), true
	}
	t.mark = chats.Mark{Owner: c.key.Identity(), Agent: cmp.Or(in.Model, config.Crab), Request: t.message.Request, Once: c.once != ""}
	t.mark.Chat = chats.Begin(in.User).Add("chat", c.r.Header.Get("X-OpenWebUI-Chat-Id"))
	seen := chats.Begin(t.mark.Owner)
	for _, m := range in.Messages[:last] {
		seen = seen.Add(m.Role, string(m.Content))
	}
	t.mark.Asked = seen.Add("user", string(in.Messages[last].Content))
	if err = t.find(named, seen); err != nil {
		end()
		return nil, nil, err
	}
	return t, end, nil
}

// find finds the session of the conversation, and takes its mark. seen is the state before
// the message.
func (t *chatTurn) find(named string, seen chats.State) error {
	table := t.c.g.chats
	if old, ok := table.Asked(t.mark.Owner, t.mark.Request); ok {
		if old.Asked != t.mark.Asked || t.named && named != old.Session {
			return problemf(http.StatusConflict, "request", "an earlier request has this Idempotency-Key and another body").fix("use another key")
		}
		t.mark = old
	} else if old, ok := t.failed(named); ok {
		t.mark, t.message.Request, t.message.Fresh = old, old.Request, false
	} else if t.named {
		if err := t.byName(named, seen); err != nil {
			return err
		}
	} else if m, ok := table.Take(seen, t.mark.Chat, t.mark.Agent); ok {
		t.mark.Session, t.mark.After = m.Session, m.Request
	} else {
		t.mark.New = true
	}
	t.set()
	return nil
}

// failed returns the mark of the call that a client of OpenAI repeats, because it failed.
func (t *chatTurn) failed(named string) (chats.Mark, bool) {
	if n, _ := strconv.Atoi(t.c.r.Header.Get("X-Stainless-Retry-Count")); n <= 0 {
		return chats.Mark{}, false
	}
	return t.c.g.chats.TakeFailed(t.mark, named)
}

// byName takes the mark of a session that the client names. If the request contains
// earlier messages of the conversation, they must be all that the client saw.
func (t *chatTurn) byName(named string, seen chats.State) error {
	s, err := op.ShowSession.Do(t.c.r.Context(), t.c.daemon, op.SessionID{Session: named})
	if err != nil {
		return err
	}
	if s.CreatedBy != t.mark.Owner {
		return problemf(http.StatusForbidden, "session", "the session is of another key").fix("send the message without X-Crabmem-Session")
	}
	last := len(t.in.Messages) - 1
	compare := slices.ContainsFunc(t.in.Messages[:last], func(m chatMessage) bool { return m.Role == "user" || m.Role == "assistant" })
	old, ok := t.c.g.chats.TakeSession(named, func(m *chats.Mark) bool { return !compare || m.Seen == seen })
	switch {
	case ok && compare:
		t.mark.After = old.Request
	case ok:
		t.mark.Asked = old.Seen.Add("user", string(t.in.Messages[last].Content))
	case compare:
		return problemf(http.StatusConflict, "conversation", "the session of X-Crabmem-Session has other messages than the request, or a run").
			fix("send only the newest message, or send all without X-Crabmem-Session: they begin a session")
	}
	t.mark.Session, t.known = named, ok
	return nil
}

// set sets where the message goes, and records the request.
func (t *chatTurn) set() {
	m, last := &t.message, len(t.in.Messages)-1
	m.Session, m.New, m.After, m.Content = t.mark.Session, t.mark.New, t.mark.After, string(t.in.Messages[last].Content)
	if t.mark.New {
		m.Session = ""
		if last > 0 {
			m.Content = quoted(t.in.Messages[:last]) + "\n" + m.Content
		}
	}
	t.c.g.chats.Ask(t.mark)
}

// renew reports whether the daemon refused to continue the session of a conversation:
// another client has continued or removed it. The message then begins a session.
func (t *chatTurn) renew(err error) bool {
	if t.named || t.mark.New || !client.IsKind(err, "continued") && !client.IsKind(err, "not_found") {
		return false
	}
	t.mark.Session, t.mark.After, t.mark.New = "", "", true
	t.set()
	return true
}

// answered keeps what the client saw of the session.
func (t *chatTurn) answered(answer, session string, repeated bool) {
	if !t.known || repeated && t.mark.Seen != (chats.State{}) { // the session may have gone on
		return
	}
	t.mark.Session, t.mark.Seen = session, t.mark.Asked.Add("assistant", answer)
	t.c.g.chats.Put(t.mark)
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
