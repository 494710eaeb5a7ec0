package channel

import (
	"context"
	"strings"

	"crabmem/daemon/box"
	"crabmem/daemon/op"
)

// command is a channel command. Other words after a slash name skills.
type command string

const (
	none  command = ""
	help  command = "/help"
	stop  command = "/stop"
	fresh command = "/new"
)

const helpText = `/new begins a session: the agent does not see the messages before it.
/stop ends the active run, and drops the messages that wait for an answer.
/help shows this text.
/NAME runs the skill NAME.`

// parse returns the command that a message is.
func parse(text string) command {
	switch c := command(strings.TrimSpace(text)); c {
	case help, stop, fresh, "/start":
		if c == "/start" { // Telegram sends it when a person opens the conversation
			return help
		}
		return c
	}
	return none
}

const (
	separator = "\n\n"    // between a turn's messages
	maxTurn   = 256 << 10 // bytes of a turn of several messages
)

// next returns the conversation's open turn, or carries out a command, or stores a turn
// of the oldest messages and returns it. It returns false if nothing is to be done.
func (w *worker) next() (turn *box.Turn, did bool, err error) {
	crossed, err := w.atBoundary()
	if err != nil {
		return nil, false, err
	}
	err = w.box.Update(w.conversation, func(f *box.File) bool {
		if i := lastStop(f); i >= 0 {
			w.dropUntil(f, i)
			did = true
			return true
		}
		if f.Turn != nil || len(f.Waiting) == 0 {
			turn = f.Turn
			return false
		}
		did = true
		switch m := &f.Waiting[0]; {
		case m.Content == "":
			w.endWith(f, "Only text can be read yet. Pictures, voice messages, and files are ignored.")
		case parse(m.Content) == help:
			w.endWith(f, helpText+"\n\n"+w.About(identity(w.conversation)))
		case parse(m.Content) == fresh:
			f.Fresh = true
			w.endWith(f, "The next message begins a session.")
		default:
			turn = compose(f)
			turn.New = f.Fresh || crossed || turn.Session == "" && strings.Contains(w.conversation, "/")
			if turn.New {
				turn.Session = ""
			}
			f.Turn, f.Fresh, f.Active = turn, false, w.Now().UTC()
		}
		return true
	})
	return turn, did, err
}

// lastStop returns the index of the last command to stop, or -1.
func lastStop(f *box.File) int {
	for i := len(f.Waiting) - 1; i >= 0; i-- {
		if parse(f.Waiting[i].Content) == stop {
			return i
		}
	}
	return -1
}

// dropUntil ends the messages up to a command to stop. The run of an open turn has ended, or
// ends with the connection to the daemon.
func (w *worker) dropUntil(f *box.File, command int) {
	text := "No run is active."
	switch dropped := command; {
	case f.Turn != nil && dropped > len(f.Turn.IDs):
		text = "Stopped. The messages that waited are dropped."
	case f.Turn != nil:
		text = "Stopped."
	case dropped > 0:
		text = "The messages that waited are dropped."
	}
	if f.Turn != nil && f.Turn.New {
		f.Fresh = true
	}
	f.Turn = nil
	id := f.Waiting[command].ID
	f.End(command + 1)
	w.notice(f, id, text)
}

// endWith ends the oldest message with a notice in place of an answer.
func (w *worker) endWith(f *box.File, text string) {
	id := f.Waiting[0].ID
	f.End(1)
	w.notice(f, id, text)
}

// compose returns a turn of a conversation's oldest messages: one that begins with a
// slash, or those before the next one that does.
func compose(f *box.File) *box.Turn {
	first := &f.Waiting[0]
	t := &box.Turn{IDs: []string{first.ID}, Agent: first.Agent, Content: first.Content, Session: f.Session}
	if strings.HasPrefix(first.Content, "/") {
		return t
	}
	for _, m := range f.Waiting[1:] {
		if m.Content == "" || m.Content[0] == '/' || len(t.Content)+len(separator)+len(m.Content) > maxTurn {
			break
		}
		t.IDs, t.Content = append(t.IDs, m.ID), t.Content+separator+m.Content
	}
	return t
}

// atBoundary reports whether the next turn begins a session because of the time. A session
// with a run, a question, or open work continues.
func (w *worker) atBoundary() (bool, error) {
	id, crossed := "", false
	err := w.box.Update(w.conversation, func(f *box.File) bool {
		id, crossed = f.Session, f.Turn == nil && len(f.Waiting) > 0 && w.Session.crossed(f.Active.In(w.Now().Location()), w.Now())
		return false
	})
	if err != nil || !crossed || id == "" {
		return crossed, err
	}
	open, err := w.isOpen(id)
	return !open, err
}

// isOpen reports whether a session has a run, a question, or open work.
func (w *worker) isOpen(id string) (bool, error) {
	ctx, cancel := context.WithTimeout(w.ctx, maxWait)
	defer cancel()
	d, release := w.Daemon("")
	defer release()
	loaded, err := op.ListLoaded.Do(ctx, d, op.None{})
	if err != nil {
		return false, err
	}
	for i := range loaded {
		if s := &loaded[i]; s.ID == id && (s.Active || s.Asking || s.Waiting > 0) {
			return true, nil
		}
	}
	work, err := op.ListWork.Do(ctx, d, op.WorkQuery{})
	for i := range work {
		if work[i].Session == id {
			return true, err
		}
	}
	return false, err
}
