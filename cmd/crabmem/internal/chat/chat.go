// Package chat exchanges messages with an agent of the daemon: with an editor on a
// terminal, and line by line otherwise. Commands that send one message use
// Conversation, Reply, and Asker alone.
//
// The editor is not a library's. bubbletea with the textarea of bubbles cuts a
// pasted text after 10,000 lines and takes 80 ms for a key after 64 KiB, not 1 ms;
// prints a text longer than the screen with blank rows and a copy of the input
// before it; and bubbles v2.2.1 adds 25 ms of CPU to each start. Line editors
// (x/term, reeflective/readline, chzyer/readline) show no other rows while a text
// is typed.
package chat

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
)

// Options contain the dependencies of a chat. All fields are required.
type Options struct {
	*cli.Streams
	*Conversation
	FS   vfs.FS
	Home func() (string, error)

	// Terminal contains the terminal while it is in raw mode. The caller restores
	// it before the process exits.
	Terminal *atomic.Pointer[Terminal]
	// Interrupted returns the error of a command that a signal ends.
	Interrupted func(os.Signal) error
	// Report prints an error that does not end the chat, and returns its exit code.
	Report func(error) int
	// Classify returns the message, the exit code, and the fix of an error.
	Classify func(error) *cli.Failure
}

// Run exchanges messages until the user leaves or the input ends. It uses the
// editor if standard input and output are terminals. If session is set, Run
// resumes that session.
func Run(ctx context.Context, c *Options, session string) error {
	ch := &chat{Conversation: c.Conversation, c: c}
	ch.Explain = suggestCommand(ch.Explain)
	if ch.Agent == "" {
		ch.Agent = config.Crab
	}
	if session != "" {
		if err := ch.resume(ctx, session); err != nil {
			return err
		}
	}
	if !c.JSON && c.IsTerminal(c.Stdin) && c.IsTerminal(c.Stdout) && c.Getenv("TERM") != "dumb" {
		return ch.screen(ctx)
	}
	return ch.plain(ctx)
}

// chat is a conversation with a user or a program on standard input.
type chat struct {
	*Conversation
	c *Options

	info    func(text string) // shows the output of a command; nil before the chat begins
	resumed string            // about the session that was resumed before
	// turn sends a message and shows the response.
	turn func(ctx context.Context, text string) error
}

// FormatRemedy is the fix for a corrupt session.
const FormatRemedy = "run crabmem sessions verify to list each problem and its fix"

// errLeave is the result of the command that ends the chat.
var errLeave = errors.New("chat ended")

// plain reads messages line by line and prints the responses.
func (ch *chat) plain(ctx context.Context) error {
	c := ch.c
	ch.info = func(text string) {
		if c.JSON {
			_ = c.PrintJSON(Info{text})
		} else {
			c.Out.WriteString(c.Text(text) + "\n")
		}
	}
	in := ReadLines(c.Stdin)
	ch.turn = func(ctx context.Context, text string) error { return ch.plainTurn(ctx, text, in) }
	var last error
	for {
		text, err := in.message(ctx)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		known, err := ch.command(ctx, text)
		if !known {
			err = ch.turn(ctx, text)
		}
		if errors.Is(err, errLeave) {
			break
		}
		if ferr := c.Out.Flush(); ferr != nil {
			return ferr
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			last = cli.SilentError(c.Report(err))
		}
	}
	return last
}

// plainTurn sends a message and prints the complete response.
func (ch *chat) plainTurn(ctx context.Context, text string, in *Lines) error {
	c, r := ch.c, &Reply{}
	asked, wait := NewAsker(ch.Conversation, ctx), c.Progress("")
	defer asked.Wait()
	defer wait.End()
	err := ch.Say(ctx, text, func(e *agent.Event) {
		ShowWait(c.Streams, wait, e)
		r.Add(e)
		for _, line := range EventLines(e) {
			c.Note(line)
		}
		if e.Kind == agent.AskUser {
			asked.Reply(r.Session, in.Ask(ctx, e.Questions, func(text string) {
				ch.info(text)
				ch.c.Out.Flush()
			}, ch.c.Note))
		}
	})
	var failure *cli.Failure
	if err != nil {
		failure = c.Classify(err)
	}
	r.Done(failure)
	switch {
	case c.JSON && r.Stored != "":
		if perr := c.PrintJSON(r); perr != nil {
			return perr
		}
	case !c.JSON && r.Content != "":
		c.Out.WriteString(c.Text(strings.TrimRight(r.Content, "\n")) + "\n")
	}
	return err
}

// Ask shows questions and reads the answers from the next lines. At the end of
// the input it returns NoUserReply.
func (l *Lines) Ask(ctx context.Context, questions []agent.Question, show, note func(text string)) string {
	d := &dialog{questions: questions}
	for d.more() {
		show(d.prompt())
		line, err := l.message(ctx)
		if err != nil {
			return NoUserReply
		}
		if !d.answer(line) {
			note("invalid choice: " + display.Printable(display.OneLine(line)))
		}
	}
	return d.reply()
}

// Lines provides the lines of standard input. A goroutine reads them, so that a
// signal can end the wait for a line.
type Lines struct {
	next chan string
	err  error // set before next is closed
}

// ReadLines starts the goroutine, which ends at the end of the input or with the
// process.
func ReadLines(r io.Reader) *Lines {
	l := &Lines{next: make(chan string)}
	go func() {
		s := bufio.NewScanner(r)
		s.Buffer(nil, MaxMessage)
		for s.Scan() {
			l.next <- s.Text()
		}
		l.err = s.Err()
		if errors.Is(l.err, bufio.ErrTooLong) {
			l.err = cli.Usagef("a line of standard input is longer than %s", display.Size(MaxMessage))
		}
		if l.err == nil {
			l.err = io.EOF
		}
		close(l.next)
	}()
	return l
}

// message returns the next message: a line, and further lines while the last one
// ends with a backslash.
func (l *Lines) message(ctx context.Context) (string, error) {
	var b strings.Builder
	for {
		select {
		case line, ok := <-l.next:
			if !ok && b.Len() > 0 {
				return b.String(), nil
			} else if !ok {
				return "", l.err
			}
			more := strings.HasSuffix(line, `\`)
			b.WriteString(strings.TrimSuffix(line, `\`))
			if !more {
				return b.String(), nil
			}
			if b.WriteString("\n"); b.Len() > MaxMessage {
				return "", cli.Usagef("a message of standard input is longer than %s", display.Size(MaxMessage))
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
