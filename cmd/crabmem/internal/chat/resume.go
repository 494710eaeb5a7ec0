package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/sessionlog"
)

const (
	// exchangeLines is the number of lines at the end of a session in which resume
	// looks for the last exchange. Of a longer exchange, it shows only a part.
	exchangeLines = 64
	// exchangeWidth limits each text of the last exchange, in columns.
	exchangeWidth = 200
)

// resume continues the conversation in a stored session. It shows the label of the
// session, its last exchange, and whether a run of another client is active.
func (ch *chat) resume(ctx context.Context, id string) error {
	h, err := op.ReadLines.Do(ctx, ch.Client, op.SessionPage{SessionID: op.SessionID{Session: id}, Limit: 1})
	if err != nil {
		return ch.Explain(err)
	}
	s := &h.Session
	if s.Error != "" {
		return &cli.Failure{Code: cli.ExitCorrupt, Kind: "format", Message: s.Error, Remedy: FormatRemedy}
	}
	own := uint64(0) // this chat follows its session
	if s.ID == ch.Stored {
		own = 1
	}
	ch.Stored, ch.Fresh, ch.Agent = s.ID, false, s.Agent
	text := fmt.Sprintf("resumed %s: %s, agent %s", display.SessionLabel(s.ID, s.Title), display.Plural(s.Messages, "message", "messages"), display.Label(s.Agent))
	text += ch.lastExchange(ctx, s.ID, h.Last)
	switch {
	case s.Active:
		text += "\nanother client's run is active in this session; /new creates a session"
	case s.Followers > own:
		text += "\nanother chat has this session open; /new creates a session"
	}
	if ch.info == nil {
		ch.resumed = text
		return nil
	}
	ch.info(text)
	return nil
}

// lastExchange returns the user's last message and the answer, each after a line end.
// After an error it returns what it has read: the next message reports the error.
func (ch *chat) lastExchange(ctx context.Context, id string, last int64) (text string) {
	var user, answer string
	q := op.SessionPage{SessionID: op.SessionID{Session: id}, After: max(last-exchangeLines, 0)}
	for more := true; more; {
		h, err := op.ReadLines.Do(ctx, ch.Client, q)
		q.After, _ = strconv.ParseInt(h.Next, 10, 64)
		more = err == nil && h.Next != ""
		for _, l := range h.Items {
			var m sessionlog.Message
			if json.Unmarshal(l.Record, &m) != nil {
				continue
			}
			switch {
			case m.Role == "user":
				user, answer = m.Content, ""
			case m.Role == "assistant" && m.Content != "":
				answer = m.Content
			}
		}
	}
	line := func(text string) string { return cli.Fit(display.Printable(display.OneLine(text)), exchangeWidth) }
	if user != "" {
		text = "\n> " + line(user)
	}
	if answer != "" {
		text += "\n" + line(answer)
	}
	return text
}

// resumeLast resumes the last session with the agent, and returns false if no session
// exists. It ignores errors: the daemon then selects the session at the first message.
func (ch *chat) resumeLast(ctx context.Context) bool {
	if ch.Remote {
		return true
	}
	list, err := op.ListSessions.Do(ctx, ch.Client, op.SessionFilter{Agent: ch.Agent, CreatedBy: "user", Limit: 1})
	if err == nil && len(list.Items) == 1 && list.Items[0].Error == "" && list.Items[0].Source == "" {
		_ = ch.resume(ctx, list.Items[0].ID)
	}
	return err != nil || len(list.Items) > 0
}
