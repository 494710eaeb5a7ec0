package channel

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"crabmem/daemon/box"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
)

// command is a channel command. Other words after a slash name skills.
type command string

const (
	noCommand command = ""
	help      command = "/help"
	stop      command = "/stop"
	stopAll   command = "/stop all"
	fresh     command = "/new"
)

const helpText = `/new begins a session: the agent does not see the messages before it.
/stop ends the active run, and drops the messages that wait for an answer.
/stop all also cancels the work of the session.
/help shows this text.
/NAME runs the skill NAME.`

// parse returns a message's command, or noCommand.
func parse(text string) command {
	switch c := command(display.OneLine(text)); c {
	case help, stop, stopAll, fresh, "/start":
		if c == "/start" { // Telegram sends it when a person opens the conversation
			return help
		}
		return c
	}
	return noCommand
}

// stops reports whether a message is a command to stop.
func stops(text string) bool { return parse(text) == stop || parse(text) == stopAll }

// todo is next's result after its read of the file.
type todo struct {
	turn *box.Turn     // to run
	wait time.Duration // for more messages
	file box.Message   // with a file to fetch, or zero
	did  bool
}

// next returns the conversation's open turn, or carries out a command, or stores a turn
// of the oldest messages and returns it, or waits for more of them. It returns false if
// the conversation is idle.
func (w *worker) next() (turn *box.Turn, did bool, err error) {
	crossed, err := w.atBoundary()
	if err != nil {
		return nil, false, err
	}
	if err := w.cancelWork(); err != nil {
		return nil, false, err
	}
	var do todo
	err = w.box.Update(w.conversation, func(f *box.File) bool {
		if i := lastStop(f); i >= 0 {
			w.dropUntil(f, i)
			do.did = true
			return true
		}
		if f.Turn != nil || len(f.Waiting) == 0 {
			do.turn = f.Turn
			return false
		}
		if workAnswered(f) != nil { // it arrived after answerWork looked: no turn contains it
			do.did = true
			return false
		}
		switch parse(f.Waiting[0].Content) {
		case help:
			w.endWith(f, 1, helpText+"\n\n"+w.About(identity(w.conversation)))
		case fresh:
			f.Fresh = true
			w.endWith(f, 1, "The next message begins a session.")
		default:
			return w.storeTurn(f, crossed, &do)
		}
		do.did = true
		return true
	})
	switch {
	case err != nil:
	case do.wait > 0:
		pause(w.ctx, do.wait, w.woken)
	case do.file.File != "":
		err = w.fetch(&do.file)
	}
	return do.turn, do.did, err
}

// storeTurn stores a turn of the oldest messages, or sets the time to wait for more of them, or a
// file to fetch. It reports whether the file changed.
func (w *worker) storeTurn(f *box.File, crossed bool, do *todo) bool {
	t, kind := compose(f)
	if t.Agent != cmp.Or(f.Agent, t.Agent) {
		t.Session = "" // another route's agent has it
	}
	list := f.Waiting[:len(t.IDs)]
	if kind == onlyLate && len(list) == len(f.Waiting) {
		return false
	}
	do.did = true
	if do.wait = due(list, len(list) < len(f.Waiting), w.began(), w.Now()); do.wait > 0 {
		return false
	}
	if i := slices.IndexFunc(list, func(m box.Message) bool { return m.File != "" }); i >= 0 {
		do.file = list[i]
		return false
	}
	switch f.Albums = albums(list); kind {
	case onlyLate: // a command is the next turn
		f.End(len(list))
		return true
	case noText:
		w.endWith(f, len(list), "Only text can be read yet. Pictures, voice messages, and files are ignored.")
		return true
	}
	t.New = f.Fresh || crossed || t.Session == "" && strings.Contains(w.conversation, "/")
	if t.New {
		t.Session = ""
	}
	f.Turn, f.Fresh, f.Active, do.turn = t, false, w.Now().UTC(), t
	return true
}

// lastStop returns the index of the last command to stop, or -1.
func lastStop(f *box.File) int {
	for i := len(f.Waiting) - 1; i >= 0; i-- {
		if stops(f.Waiting[i].Content) {
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
	if asksToCancel(f) {
		text += " The open work of the session is canceled."
	}
	if f.Turn != nil && f.Turn.New {
		f.Fresh = true
	}
	if f.Turn != nil {
		w.endLive(f, f.Turn.IDs[0], nil)
	}
	f.Turn, f.Replies = nil, nil
	id := f.Waiting[command].ID
	f.End(command + 1)
	w.notice(f, id, text)
}

// endWith ends the oldest messages with one notice in place of an answer.
func (w *worker) endWith(f *box.File, messages int, text string) {
	id := f.Waiting[0].ID
	f.End(messages)
	w.notice(f, id, text)
}

// atBoundary reports whether the next turn begins a session because of the time. A session
// with a run, a question, or open work continues.
func (w *worker) atBoundary() (bool, error) {
	id, crossed := "", false
	err := w.box.Update(w.conversation, func(f *box.File) bool {
		id, crossed = f.Session, f.Turn == nil && len(f.Waiting) > 0 && w.Session(f.Waiting[0].Agent, f.Waiting[0].Sender != "").crossed(f.Active.In(w.Now().Location()), w.Now())
		return false
	})
	if err != nil || !crossed || id == "" {
		return crossed, err
	}
	open, err := w.isOpen(id)
	return !open, err
}

// asksToCancel reports whether a command of the file cancels the work of the session.
func asksToCancel(f *box.File) bool {
	return slices.ContainsFunc(f.Waiting, func(m box.Message) bool { return parse(m.Content) == stopAll })
}

// cancelWork cancels the open work of the conversation's session if a command does so. The
// command stays in the file: after a crash the work is canceled again.
func (w *worker) cancelWork() error {
	sessions := []string{w.ran}
	err := w.box.Update(w.conversation, func(f *box.File) bool {
		if sessions = append(sessions, f.Session); !asksToCancel(f) {
			sessions = nil
		}
		return false
	})
	if err != nil || sessions == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.ctx, maxWait)
	defer cancel()
	d, release := w.Daemon("")
	defer release()
	_, err = client.CancelWork(ctx, d, sessions)
	return err
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
