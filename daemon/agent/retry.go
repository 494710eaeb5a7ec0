package agent

import (
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// noResponse replaces a missing answer in requests. Chat templates require an answer
// between two messages of the user, and between a result and a message of the user.
const noResponse = "[no response]"

// unanswered returns the index of the user's message of the newest turn, and
// whether this turn has no answer: only calls and their results follow the
// message. A summary is not a turn.
func (s *Session) unanswered() (user int, ok bool) {
	for i := len(s.Messages) - 1; i >= 0; i-- {
		switch m := &s.Messages[i]; {
		case m.Injected, m.Role == record.RoleTool, m.Role == record.RoleAssistant && len(m.ToolCalls) > 0:
		case m.Role == record.RoleUser:
			return i, i > 0 || s.Compactions == 0
		default:
			return 0, false
		}
	}
	return 0, false
}

// Interrupted reports whether the newest turn ended without an answer and
// without a failure in the log: its process was killed.
func (s *Session) Interrupted() bool {
	_, open := s.unanswered()
	return (open || s.Streamed != "") && !s.Failed
}

// begin adds the user's message to the session. If the newest turn has no answer
// and the same message, the run continues this turn, and the session has the
// message once. Before another message, the streamed text of that turn becomes
// its answer.
func (t *turn) begin() error {
	s := t.Session
	user, open := s.unanswered()
	again := open && s.Messages[user].Content == t.Content
	if !again && s.Streamed != "" {
		if err := t.append(sessionlog.Message{Role: record.RoleAssistant, Content: s.Streamed}); err != nil {
			return err
		}
	}
	s.Streamed, s.Failed = "", false
	t.newest = len(s.Messages)
	if again {
		t.newest = user
		t.Continued = s.Messages[user+1:]
		s.Messages[user].Sender = t.Sender
	}
	t.injected = t.Hooks.beforeRun(&t.Turn)
	if again {
		return nil
	}
	return t.append(sessionlog.Message{Role: record.RoleUser, Content: t.Content, Sender: t.Sender})
}

// answered returns the first n messages for a request. It adds noResponse to each
// turn without an answer that is before another message of the user.
func (s *Session) answered(n int) []sessionlog.Message {
	ms := make([]sessionlog.Message, 0, n+1)
	for i := range n {
		m := &s.Messages[i]
		ms = append(ms, *m)
		summary := i == 0 && s.Compactions > 0
		open := m.Role == record.RoleTool || m.Role == record.RoleUser && !summary
		if open && i+1 < len(s.Messages) && s.Messages[i+1].Role == record.RoleUser {
			ms = append(ms, sessionlog.Message{Role: record.RoleAssistant, Content: noResponse})
		}
	}
	return ms
}
