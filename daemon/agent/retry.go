package agent

import (
	"cmp"
	"context"
	"fmt"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// noResponse replaces a missing answer in requests. Chat templates require an answer
// between two messages of the user, and between a result and a message of the user.
const noResponse = "[no response]"

// unanswered returns the index of the user's message of the newest turn, and
// whether this turn has no answer: only calls, their results, and deliveries of work
// follow the message. Of deliveries without a turn before them, the first begins the
// turn. A summary is not a turn.
func (s *Session) unanswered() (user int, ok bool) {
	user = -1
	for i := len(s.Messages) - 1; i >= 0; i-- {
		switch m := &s.Messages[i]; {
		case m.Injected, m.Role == record.RoleTool, m.Role == record.RoleAssistant && len(m.ToolCalls) > 0:
		case m.Role == record.RoleUser && len(m.Work) > 0 && (i > 0 || s.Compactions == 0):
			user = i
		case m.Role == record.RoleUser && (i > 0 || s.Compactions == 0):
			return i, true
		default:
			return max(user, 0), user >= 0
		}
	}
	return max(user, 0), user >= 0
}

// Unanswered reports whether the newest turn has no answer.
func (s *Session) Unanswered() bool {
	_, open := s.unanswered()
	return open
}

// Interrupted reports whether the newest turn ended without an answer and
// without a failure in the log: its process was killed. A delivery of work is not a
// turn until the model is called.
func (s *Session) Interrupted() bool {
	user, open := s.unanswered()
	return (open && len(s.Messages[user].Work) == 0 || s.Streamed != "") && !s.Failed
}

// requestTurn returns the turn of the request, if the session contains it.
func (t *turn) requestTurn() (a sessionlog.RequestTurn, ok bool, err error) {
	if t.requestID == "" || t.Session.Log == nil {
		return a, false, nil
	}
	a, ok, err = t.Session.Log.Request(t.requestID)
	if ok && a.Content != t.Content {
		return a, true, fmt.Errorf("%w and another message", ErrRequest)
	}
	return a, ok, err
}

// begin adds the user's message to the session. If the newest turn has no answer
// and is of the same request, the run continues this turn, and the session has the
// message once. Two requests without an ID are the same if their messages are. Before
// another message, the streamed text of that turn becomes its answer. answered reports
// that the session contains the answer.
func (t *turn) begin(ctx context.Context) (answered bool, err error) {
	s := t.Session
	if t.stored {
		t.beginStored(ctx)
		return false, nil
	}
	earlier, known, err := t.requestTurn()
	if err != nil {
		return false, err
	}
	if earlier.Answered {
		t.answer, t.repeated = earlier.Answer, true
		t.emit(Event{Kind: User, Content: t.input, Line: earlier.Line, Repeated: true})
		t.emit(Event{Kind: TextDelta, Content: t.answer})
		return true, nil
	}
	user, open := s.unanswered()
	again := open && s.Messages[user].Content == t.Content && known == (t.requestID != "")
	if known && (!again || !earlier.Newest) {
		return false, fmt.Errorf("%w and no answer", ErrRequest)
	}
	if !again && t.after != "" && s.Log != nil {
		if last, ok, err := s.Log.Request(t.after); err != nil || !ok || !last.Newest || !last.Answered {
			return false, cmp.Or(err, ErrContinued)
		}
	}
	if !again && s.Streamed != "" {
		if err := t.append(sessionlog.Message{Role: record.RoleAssistant, Content: s.Streamed}); err != nil {
			return false, err
		}
	}
	s.Streamed, s.Failed = "", false
	t.newest = len(s.Messages)
	if again {
		t.newest = user
		t.Continued = s.Messages[user+1:]
		s.Messages[user].Sender = t.Sender
	}
	t.injected = t.Hooks.beforeRun(context.WithValue(ctx, emitKey{}, t.emit), &t.Turn)
	if !again {
		m := sessionlog.Message{Role: record.RoleUser, Content: t.Content, Sender: t.Sender, Request: t.requestID}
		if err := t.append(m); err != nil {
			return false, err
		}
		if earlier, _, err = t.requestTurn(); err != nil {
			return false, err
		}
	}
	t.emit(Event{Kind: User, Content: t.input, Line: earlier.Line})
	return false, nil
}

// beginStored begins a run with the newest turn's message, which the session contains.
func (t *turn) beginStored(ctx context.Context) {
	s := t.Session
	user, _ := s.unanswered()
	s.Streamed, s.Failed = "", false
	t.newest, t.Content, t.Literal = user, s.Messages[user].Content, true
	t.Continued = s.Messages[user+1:]
	s.Messages[user].Sender = t.Sender
	t.injected = t.Hooks.beforeRun(context.WithValue(ctx, emitKey{}, t.emit), &t.Turn)
}

// answered returns the first n messages for a request. It adds noResponse to each
// turn without an answer that is before another message of the user, and replaces
// empty answers.
func (s *Session) answered(n int) []sessionlog.Message {
	ms := make([]sessionlog.Message, 0, n+1)
	for i := range n {
		m := &s.Messages[i]
		ms = append(ms, *m)
		if m.Role == record.RoleAssistant && m.Content == "" && len(m.ToolCalls) == 0 { // providers refuse it
			ms[len(ms)-1].Content = noResponse
		}
		summary := i == 0 && s.Compactions > 0
		open := m.Role == record.RoleTool || m.Role == record.RoleUser && !summary
		if open && i+1 < len(s.Messages) && s.Messages[i+1].Role == record.RoleUser {
			ms = append(ms, sessionlog.Message{Role: record.RoleAssistant, Content: noResponse})
		}
	}
	return ms
}
