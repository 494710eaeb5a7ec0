package chat

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"crabmem/cmd/crabmem/internal/chat/tty"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
)

// screen is a chat on a terminal. Messages scroll like the output of any
// program. The rows below them are rewritten: the incomplete response, queued
// messages, and the editor.
//
// One goroutine owns the screen. It receives keys and the events of a run over
// channels.
type screen struct {
	*chat
	raw    *Terminal
	home   string
	posted chan any      // from the run: *agent.Event, info, ended
	over   chan struct{} // closed when the screen stops receiving from posted
	runs   sync.WaitGroup

	width, height int
	live          liveRows
	scroll        strings.Builder // output to write above the rows

	editor tty.Editor
	keys   tty.Keys
	leave  bool // the next Ctrl+C ends the chat
	first  bool // no session with the agent exists

	busy     bool
	since    time.Time
	doing    string                  // activity of the run, for the user
	cancel   context.CancelCauseFunc // of the run
	queue    []string                // sent while busy
	reply    *Reply
	markdown tty.Markdown
	thinking strings.Builder // incomplete line
	dialog   *dialog         // open questions; nil if there are none
	stash    string          // text of the editor before the questions
	asked    *Asker
	others   others
	refollow func() // follows the current session
}

type (
	info  string
	ended struct{ err error }
)

// errStopped ends a run that the user cancelled.
var errStopped = errors.New("canceled")

// screen runs the chat on a terminal until the user ends it.
func (ch *chat) screen(ctx context.Context) error {
	c := ch.c
	in := c.Stdin.(*os.File)
	home, err := c.Home()
	if err != nil {
		return err
	}
	s := &screen{chat: ch, home: home, posted: make(chan any, 64), over: make(chan struct{})}
	s.width, s.height = 80, 24
	if s.editor.History, err = loadHistory(c.FS, home); err != nil {
		c.Warn("load history: " + err.Error())
	}
	ch.Tag = rand.Text()
	if ch.Stored == "" && !ch.Fresh {
		s.first = !ch.resumeLast(ctx)
	}
	s.editor.Complete = func(before string) (int, []string) { return s.complete(ctx, before) }
	ch.info = func(text string) { s.post(info(text)) }
	ch.turn = func(ctx context.Context, text string) error {
		return ch.Say(ctx, text, func(e *agent.Event) { s.post(e) })
	}
	if s.raw, err = OpenTerminal(in, c.Stdout); err != nil {
		return err
	}
	c.Terminal.Store(s.raw)
	defer s.raw.Restore()
	defer s.runs.Wait()
	defer close(s.over)
	following, unfollow := context.WithCancel(ctx)
	defer unfollow()
	defer func() {
		if s.cancel != nil {
			s.cancel(errStopped)
		}
	}()
	resized, gone := make(chan os.Signal, 1), make(chan os.Signal, 1)
	defer watchTerminal(resized, gone)()
	typed := s.read(in)
	s.asked = NewAsker(ch.Conversation, ctx)
	defer s.asked.Wait()
	s.greet()
	s.paint()
	s.refollow = func() { s.follow(following) }
	s.refollow()
	err = s.loop(ctx, typed, resized, gone)
	s.flush()
	s.write(nil, 0, 0)
	return err
}

// read starts goroutines that read keys. They end with the terminal or the process.
func (s *screen) read(in io.Reader) <-chan []byte {
	pieces, typed := make(chan []byte), make(chan []byte)
	send := func(to chan<- []byte, b []byte) bool {
		select {
		case to <- b:
			return true
		case <-s.over:
			return false
		}
	}
	go func() {
		defer s.raw.Guard()
		defer close(pieces)
		for {
			b := make([]byte, 4096)
			n, err := in.Read(b)
			if n > 0 && !send(pieces, b[:n]) || err != nil {
				return
			}
		}
	}()
	go func() {
		defer s.raw.Guard()
		defer close(typed)
		tty.Bursts(pieces, func(b []byte) bool { return send(typed, b) })
	}()
	return typed
}

// post sends v to the goroutine of the screen.
func (s *screen) post(v any) {
	select {
	case s.posted <- v:
	case <-s.over:
	}
}

func (s *screen) loop(ctx context.Context, typed <-chan []byte, resized, gone <-chan os.Signal) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case b, ok := <-typed:
			if !ok {
				return nil
			}
			for _, k := range s.keys.Feed(b) {
				if s.key(ctx, k) {
					return nil
				}
			}
		case v := <-s.posted:
			s.take(ctx, v)
			for more := true; more; { // paint once for all posted values
				select {
				case v := <-s.posted:
					s.take(ctx, v)
				default:
					more = false
				}
			}
		case <-tick.C:
			if !s.busy {
				continue
			}
		case <-resized:
		case sig := <-gone:
			return s.c.Interrupted(sig)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s.paint()
	}
}

func (s *screen) greet() {
	what := "a new session"
	switch {
	case s.Stored != "":
		what = display.Label(s.Stored)
	case !s.Fresh && !s.first:
		what = "the last session"
	}
	text := "agent " + display.Label(s.Agent) + ", " + what
	if s.End != nil {
		text += ", without a daemon"
	}
	if s.resumed != "" {
		for line := range strings.SplitSeq(s.resumed, "\n") {
			s.dimLine(line)
		}
	}
	s.dimLine(text + "; /help lists the commands")
}

// line writes a line above the rows.
func (s *screen) line(text string) { s.scroll.WriteString(text + "\n") }

func (s *screen) dimLine(text string) { s.line(s.c.Dim(cli.Fit(text, max(s.width-1, 8)))) }

// key handles a key. It returns true if the key ends the chat.
func (s *screen) key(ctx context.Context, k tty.Key) bool {
	leaving := s.leave
	s.leave = false
	if k.Code == tty.Ctrl {
		switch k.Rune {
		case 'c':
			return s.interrupt(leaving)
		case 'd':
			if s.editor.Empty() {
				return !s.busy
			}
		case 'l':
			s.scroll.WriteString("\x1b[2J\x1b[H")
			s.live.forget()
			return false
		}
	}
	if !s.editor.Key(k) {
		return false
	}
	text := s.editor.Text()
	if s.dialog != nil {
		s.answer(text)
		return false
	}
	if strings.TrimSpace(text) == "" {
		return false
	}
	s.editor.Remember(text)
	s.editor.Reset()
	if err := addHistory(s.c.FS, s.home, text); err != nil {
		s.dimLine("write history: " + display.Printable(err.Error()))
	}
	if word := strings.TrimSpace(text); (word == "/exit" || word == "/quit") && !s.busy {
		return true
	}
	s.queue = append(s.queue, text)
	s.next(ctx)
	return false
}

// interrupt handles Ctrl+C: it cancels the active run, or else clears the editor and
// ends a search, or else ends the chat at the second key. It returns true to end the
// chat.
func (s *screen) interrupt(leaving bool) bool {
	switch {
	case s.busy:
		s.cancel(errStopped)
		s.doing = "cancelling"
		if s.dialog != nil {
			s.endDialog()
		}
		if waiting := strings.Join(s.queue, "\n"); waiting != "" {
			s.editor.Set(strings.TrimLeft(s.editor.Text()+"\n"+waiting, "\n"))
		}
		s.queue = nil
	case !s.editor.Empty():
		s.editor.Reset()
	case leaving:
		return true
	default:
		s.leave = true
	}
	return false
}

// next starts the oldest queued message if no run is active.
func (s *screen) next(ctx context.Context) {
	if s.busy || len(s.queue) == 0 {
		return
	}
	text := s.queue[0]
	s.queue = s.queue[1:]
	for i, l := range strings.Split(cli.Clean(text), "\n") {
		mark := "> "
		if i > 0 {
			mark = "  "
		}
		s.line(s.c.Bold(mark + l))
	}
	run, cancel := context.WithCancelCause(ctx)
	s.busy, s.since, s.doing, s.cancel = true, time.Now(), "waiting for the model", cancel
	s.reply = &Reply{}
	s.markdown = tty.Markdown{Width: s.width - 1, Color: s.c.Color()}
	s.runs.Go(func() {
		defer s.raw.Guard()
		defer cancel(nil)
		known, err := s.command(run, text)
		if !known {
			err = s.turn(run, text)
		}
		s.post(ended{err})
	})
}
