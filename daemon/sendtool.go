package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"crabmem/daemon/agent"
	"crabmem/daemon/box"
	"crabmem/daemon/tool"
	"crabmem/sessionlog/record"
)

// Limits of the tool send.
const (
	maxSend  = 64 << 10 // bytes of a text
	maxSends = 20       // texts of agents that a conversation has not received yet
)

// sendSource begins the source of an agent's text for another conversation. The session and the
// text's digest follow.
const sendSource = "send/"

type sendArgs struct {
	To      string `json:"to" jsonschema:"a conversation, as tg:7, tg:-100/5, or hook:NAME/ID"`
	Content string `json:"content" jsonschema:"the text"`
}

// sendTool returns the tool send, which an agent has only if its configuration names it. A text is
// delivered once for each turn, also if the run continues after a restart.
func (d *Daemon) sendTool() tool.Tool {
	return tool.New(tool.Send, "Send a text to another conversation. Your answer goes to this one.", func(ctx context.Context, c tool.Call, args sendArgs) (string, error) {
		t := agent.TurnOf(ctx)
		switch {
		case t == nil || t.Session.Log == nil:
			return "", errors.New("send is only available in a session")
		case strings.TrimSpace(args.Content) == "" || len(args.Content) > maxSend:
			return "", fmt.Errorf("content has %d bytes, want 1 to %d", len(args.Content), maxSend)
		}
		if err := d.mayDeliver(args.To, t.Session.CreatedBy, t.Sender); err != nil {
			return "", err
		}
		text, of, open, added := d.record(args.Content), t.Session.Log.ID(), 0, false
		owed := box.Delivery{Source: fmt.Sprintf("%s%s/%.8x", sendSource, of, sha256.Sum256([]byte(text))), Key: cmp.Or(t.Request, newestWork(t), c.ID), Session: of}
		err := d.changeBox(args.To, func(f *box.File) bool {
			for _, o := range f.Deliveries {
				if o.State == box.Pending && strings.HasPrefix(o.Source, sendSource) {
					open++
				}
			}
			added = open < maxSends && f.Send(owed, box.Send, text)
			return added
		})
		switch {
		case err != nil:
			return "", err
		case open >= maxSends:
			return "", fmt.Errorf("%d texts wait for %s: send it later", open, args.To)
		case !added:
			return args.To + " has this text already", nil
		}
		return "accepted for " + args.To, nil
	})
}

// newestWork returns the key of the work results that a run answers, or "".
func newestWork(t *agent.Turn) string {
	for _, m := range slices.Backward(t.Session.Messages) {
		if m.Role == record.RoleUser {
			return strings.Join(m.Work, " ")
		}
	}
	return ""
}
