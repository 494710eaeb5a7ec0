package channel

import (
	"slices"
	"strings"
	"time"

	"crabmem/bm25/clip"
	"crabmem/daemon/box"
	"crabmem/daemon/trust"
)

const (
	maxEarlier = 50    // messages before the one to the agent
	maxQuoted  = 1_000 // bytes of each
	maxGroups  = 1_000 // with such messages
)

// Group describes a message in a group.
type Group struct {
	Listed    bool   // the channel reads the group
	Open      bool   // and the messages of all senders
	Addressed bool   // the message is for the agent
	Context   bool   // other messages precede the next one for the agent
	Name      string // of the sender
}

// earlier is a message that was not for the agent.
type earlier struct{ id, text string }

// counter counts messages that are ignored.
type counter struct {
	messages int // since the last log line
	reported time.Time
}

// count counts an ignored message, and logs the count at most once an hour.
func (l *loop) count(c *counter, text string, m *Message) {
	c.messages++
	if now := l.Now(); c.reported.IsZero() || now.Sub(c.reported) >= strangers {
		l.Log.Warn(text, "messages", c.messages, "last_sender", m.Sender, "last_conversation", m.Conversation)
		c.messages, c.reported = 0, now
	}
}

// ignore counts a message of a stranger.
func (l *loop) ignore(m *Message) {
	l.count(&l.ignored, "ignored messages of senders that allowed_users does not contain, or in such groups", m)
}

// admit reports whether the agent reads a message. It keeps messages that precede a later one.
func (l *loop) admit(m *Message, allowed *[]string) (ok bool, err error) {
	isUser, g := m.Sender != "" && slices.Contains(*allowed, m.Sender), m.Group
	switch {
	case g == nil && isUser:
		return true, nil
	case g == nil:
		if m.Sender == "" || identity(m.Conversation) != l.p.Prefix+m.Sender || m.Button != "" || !l.Pair(m.Sender, m.Text) {
			l.ignore(m)
			return false, nil
		}
		*allowed = append(*allowed, m.Sender)
		m.Text = string(help) // the code is used
		return true, nil
	case !g.Listed || !isUser && !g.Open:
		if g.Addressed {
			l.ignore(m)
		}
		return false, nil
	}
	m.Received.Sender, m.Received.Name = m.Sender, clip.Bytes(g.Name, maxName)
	if g.Addressed {
		m.Received.ReplyTo = m.ID
		return true, nil
	}
	if ok, err = l.continues(m); !ok && err == nil && g.Context {
		l.remember(m)
	}
	return ok, err
}

// continues reports whether a message in a group belongs to one that is for the agent: a part of
// its album, or the rest of its text.
func (l *loop) continues(m *Message) (ok bool, err error) {
	err = l.box.Update(m.Conversation, func(f *box.File) bool {
		if m.Album != "" {
			ok = slices.Contains(f.Albums, m.Album) || slices.Contains(albums(f.Waiting), m.Album)
		} else if n := len(f.Waiting); n > 0 {
			ok = isRest(&f.Waiting[n-1], &box.Message{Received: m.Received})
		}
		return false
	})
	return ok, err
}

// remember keeps a message in a group for the next one that is for the agent.
func (l *loop) remember(m *Message) {
	list := l.earlier[m.Conversation]
	if len(l.earlier) >= maxGroups && list == nil {
		clear(l.earlier)
	}
	if !slices.ContainsFunc(list, func(e earlier) bool { return e.id == m.ID }) {
		list = append(list, earlier{m.ID, "[channel: earlier, not for the agent, " + from(&m.Received) + "]\n" + clip.Bytes(m.content(), maxQuoted) + separator})
		l.earlier[m.Conversation] = list[max(0, len(list)-maxEarlier):]
	}
}

// quote returns the messages that precede the next one for the agent.
func (l *loop) quote(conversation string) string {
	var b strings.Builder
	for _, e := range l.earlier[conversation] {
		b.WriteString(e.text)
	}
	return b.String()
}

// from returns the sender of a message in a group.
func from(r *box.Received) string { return "from " + quoted(r.Name) + ", ID " + r.Sender }

// body returns the text of a message in a turn. In a group the sender precedes it, unless it is a
// command, or the message before has the same sender.
func body(before []box.Message, m *box.Message) string {
	text := m.Content + m.FileText
	switch {
	case m.Sender == "" || len(before) == 0 && isSlash(m):
		return text
	case m.Quote == "" && len(before) > 0 && before[len(before)-1].Sender == m.Sender && !isSlash(&before[len(before)-1]):
		return text
	}
	return m.Quote + "[channel: " + from(&m.Received) + "]\n" + text
}

// owner returns the prefix of the identities that share a conversation's limits.
func owner(conversation string) string {
	return conversation[:strings.IndexByte(conversation, ':')+1]
}

// mayAnswer reports whether a message's sender may answer a question. In a group, only the person
// whom the agent asks may answer it. If the question names no person, an admin who is a user may.
func (l *loop) mayAnswer(q *box.Question, m *Message) bool {
	if m.Group == nil || q.By != "" {
		return m.Group == nil || q.By == m.Sender
	}
	return l.Level(l.p.Prefix+m.Sender) == trust.Admin && slices.Contains(l.Allowed(), m.Sender)
}
