package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/box"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/role"
	"crabmem/daemon/session"
	"crabmem/daemon/trust"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// output is an agent's text in a session after a message.
type output struct {
	text     string // the replies and the answer; the answer is omitted if it repeats the last reply
	answered bool   // the newest run has an answer
	request  string // the turn of this request contains the message: its client may receive the answer
}

// outputAfter returns the agent's text in a session after the message with a key. In a cron
// entry's session it includes the answers to results of work. It reads the complete file.
func (d *Daemon) outputAfter(id, key string) (out output, err error) {
	s, err := d.sessions.Read(id)
	if err != nil {
		return out, err
	}
	defer s.Close()
	info, err := s.Info()
	if err != nil {
		return out, err
	}
	var texts []string
	answer, began, failed := "", false, false
	end := func() {
		if strings.TrimSpace(answer) != "" && (len(texts) == 0 || texts[len(texts)-1] != answer) {
			texts = append(texts, answer)
		}
		answer = ""
	}
	for l, err := range s.Lines(0) {
		if err != nil {
			return out, err
		}
		turn, isTurn := record.Turn{}, false
		if l.Kind == record.KindUnknown {
			turn, isTurn = record.ParseTurn(l.Raw)
		}
		switch m := &l.Message; {
		case isTurn && turn.Kind != "": // a failure
			out.answered, answer = false, ""
			failed = failed || turn.Kind != session.Interrupted
		case l.Kind != record.KindMessage:
		case m.Role == record.RoleUser && !began:
			began = isKey(l.Raw, key)
			if work := len(record.WorkKeys(l.Raw)) > 0; !work {
				out.request, failed = requestIn(l.Raw), false
			}
		case m.Role == record.RoleUser:
			if len(record.WorkKeys(l.Raw)) == 0 || out.answered && !trust.IsCron(info.Meta.CreatedBy) {
				end()
				return out.join(texts, failed), nil
			}
			end()
		case m.Role == record.RoleAssistant && len(m.ToolCalls) == 0 && !began:
			out.request = ""
		case m.Role == record.RoleAssistant && len(m.ToolCalls) == 0:
			answer, out.answered = m.Content, true
		case m.Role == record.RoleAssistant && began:
			for _, c := range m.ToolCalls {
				var args struct{ Content string }
				if c.Function.Name == role.Reply && json.Unmarshal([]byte(c.Function.Arguments), &args) == nil && strings.TrimSpace(args.Content) != "" {
					texts = append(texts, args.Content)
				}
			}
		}
	}
	end()
	return out.join(texts, failed), nil
}

// join sets the text. A turn that was only interrupted continues when its client repeats the
// request, and the client then receives the text.
func (s output) join(texts []string, failed bool) output {
	if s.text = strings.Join(texts, "\n\n"); s.request != "" && !failed && !record.IsCron(s.request) {
		s.text = ""
	}
	return s
}

// isKey reports whether a user message's line has a key as its request, or in its list work.
func isKey(line []byte, key string) bool {
	return requestIn(line) == key || slices.Contains(record.WorkKeys(line), key)
}

func requestIn(line []byte) string {
	var v struct{ Request string }
	_ = json.Unmarshal(line, &v) // the line is valid
	return v.Request
}

// reaches returns an error if no channel delivers to a conversation.
func (d *Daemon) reaches(conversation string) error {
	if box.DirOf(conversation) == "" {
		return fmt.Errorf("%q is not a conversation: want tg:ID, tg:ID/TOPIC, or hook:KEY/ID", conversation)
	}
	if d.opts.Reaches == nil {
		return nil
	}
	return d.opts.Reaches(conversation)
}

// changeBox changes a conversation's file, which a channel or the gateway reads.
func (d *Daemon) changeBox(conversation string, change func(*box.File) bool) error {
	return box.Change(d.fs, d.home, conversation, d.now, change)
}

// readBox returns a conversation's content.
func (d *Daemon) readBox(conversation string) (box.File, error) {
	return box.Load(d.fs, d.home, conversation, d.now)
}

// conversationOf returns the conversation that receives a session's texts, or "".
func (d *Daemon) conversationOf(id, creator string) (conversation string) {
	if box.DirOf(creator) == "" {
		return ""
	}
	conversation = creator
	box.Each(d.fs, d.home, d.now, func(f *box.File) {
		if box.Identity(f.Conversation) == creator && (f.Session == id || f.Delivery(id) != nil) {
			conversation = f.Conversation
		}
	})
	return conversation
}

// oweWake stores that a session's conversation is to receive a wake's texts.
func (d *Daemon) oweWake(id, creator, key string) error {
	conversation := d.conversationOf(id, creator)
	if conversation == "" {
		return nil
	}
	if err := d.reaches(conversation); err != nil {
		d.log.Warn("the texts of a wake stay in their session", "session", id, "conversation", conversation, "error", err)
		return nil
	}
	if err := d.finish(conversation, id, false); err != nil {
		return err
	}
	return d.changeBox(conversation, func(f *box.File) bool {
		if old := f.Delivery(id); old != nil && old.State == box.Owed {
			return false // a stop interrupted an earlier wake
		}
		f.Owe(box.Delivery{Source: id, Key: key, Session: id})
		return true
	})
}

// settleWake delivers an ended wake's texts.
func (d *Daemon) settleWake(id, creator string) error {
	conversation := d.conversationOf(id, creator)
	if conversation == "" {
		return nil
	}
	return d.finish(conversation, id, true)
}

// finish adds a source's text to a conversation, if it is owed. ended is set if the run has
// ended; otherwise only a run with an answer has.
func (d *Daemon) finish(conversation, source string, ended bool) error {
	f, err := d.readBox(conversation)
	o := f.Delivery(source)
	if err != nil || o == nil || o.State != box.Owed {
		return err
	}
	owed, kind := *o, box.Wake
	if strings.HasPrefix(source, cronSource) {
		kind = box.Cron
	}
	s, err := d.outputAfter(owed.Session, owed.Key)
	gone := errors.Is(err, sessionlog.ErrNotFound)
	if err != nil && !gone || !gone && !ended && !s.answered {
		return err
	}
	unreachable := d.reaches(conversation)
	return d.changeBox(conversation, func(f *box.File) bool {
		asked := slices.ContainsFunc(f.Waiting, func(m box.Message) bool { return m.ID == s.request })
		switch {
		case gone:
			return f.EndDelivery(&owed, box.Failed, "the session does not exist")
		case unreachable != nil:
			return f.EndDelivery(&owed, box.Failed, unreachable.Error())
		case s.text == "" && !s.answered:
			return f.EndDelivery(&owed, box.Failed, "the run ended without an answer")
		case s.text == "" || asked:
			return f.EndDelivery(&owed, box.Empty, "")
		}
		return f.Deliver(&owed, kind, d.record(s.text))
	})
}

// cronSource begins a cron entry's source; the entry's ID and digest follow.
const cronSource = "cron/"

// pause is the time between two looks at open work, which a cron run waits for.
const pause = time.Second

// finishCron delivers a cron run's text after the run's work has ended. If the daemon stops, the
// text stays owed, and the next start delivers it.
func (d *Daemon) finishCron(ctx context.Context, conversation string, owed box.Delivery) error {
	info, err := d.sessions.Read(owed.Session)
	if err == nil {
		var i sessionlog.Info
		i, err = info.Info()
		err = errors.Join(err, info.Close())
		for trust.IsCron(i.Meta.CreatedBy) && d.roles.InUse(owed.Session) != nil {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	if err != nil && !errors.Is(err, sessionlog.ErrNotFound) {
		return err
	}
	if err := d.finish(conversation, owed.Source, true); err != nil || !owed.Tell {
		return err
	}
	return d.addToSession(ctx, conversation, &owed)
}

// addToSession adds a text to a conversation's newest session, so that a later message can refer
// to it. It does not run the agent.
func (d *Daemon) addToSession(ctx context.Context, conversation string, owed *box.Delivery) error {
	s, err := d.outputAfter(owed.Session, owed.Key)
	id := ""
	if err == nil {
		id, err = d.newestOf(conversation)
	}
	if err == nil && s.text != "" && id != owed.Session {
		err = d.addNote(ctx, id, owed.Key, s.text)
	}
	if err != nil && !errors.Is(err, sessionlog.ErrNotFound) {
		return err
	}
	return d.changeBox(conversation, func(f *box.File) bool {
		o := f.Delivery(owed.Source)
		if o == nil || o.Key != owed.Key {
			return false
		}
		o.Tell = false
		return true
	})
}

// newestOf returns the ID of a conversation's newest session.
func (d *Daemon) newestOf(conversation string) (id string, err error) {
	f, err := d.readBox(conversation)
	if err != nil || f.Session != "" {
		return f.Session, err
	}
	return d.sessions.Latest(config.Crab, box.Identity(conversation), "")
}

// addNote appends a user message with a text to a session that does not contain its key.
func (d *Daemon) addNote(ctx context.Context, id, key, text string) error {
	l, err := d.loaded.Open(ctx, id, "")
	if err != nil {
		return err
	}
	return d.loaded.With(ctx, l.ID(), func(_ context.Context, _ session.Setup, _ *agent.Agent, s *agent.Session) error {
		f, err := d.sessions.Read(id)
		if err != nil {
			return err
		}
		defer f.Close()
		for line, err := range f.Lines(0) {
			if err != nil || line.Kind == record.KindMessage && slices.Contains(record.WorkKeys(line.Raw), key) {
				return err
			}
		}
		m := sessionlog.Message{Role: record.RoleUser, Work: []string{key}, Content: display.FenceResults("## Text of a scheduled run, which the user has received\n" + text)}
		if err := s.Log.Append(m); err != nil {
			return err
		}
		s.Messages = append(s.Messages, m)
		return nil
	})
}

// recoverWakes delivers the texts of wakes that ended before the daemon stopped.
func (d *Daemon) recoverWakes() {
	for conversation, list := range d.owed() {
		for i := range list {
			if !strings.HasPrefix(list[i].Source, cronSource) {
				if err := d.finish(conversation, list[i].Source, false); err != nil {
					d.log.Error("deliver the texts of a wake", "session", list[i].Session, "conversation", conversation, "error", err)
				}
			}
		}
	}
}

// owed returns the deliveries without an outcome, by conversation.
func (d *Daemon) owed() map[string][]box.Delivery {
	all := make(map[string][]box.Delivery)
	box.Each(d.fs, d.home, d.now, func(f *box.File) {
		for _, o := range f.Deliveries {
			if o.State == box.Owed || o.Tell {
				all[f.Conversation] = append(all[f.Conversation], o)
			}
		}
	})
	return all
}
