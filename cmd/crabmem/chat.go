package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/config"
	"crabmem/daemon/wire/pb"

	"github.com/spf13/cobra"
)

func (c *app) chatCommand() *cobra.Command {
	f := &talkFlags{}
	var resume string
	cmd := &cobra.Command{
		Use:     "chat",
		GroupID: groupAgents,
		Short:   "talk to an agent",
		Long: `Talk to an agent of the daemon. On a terminal answers are shown as they come,
as formatted text. Enter sends; Alt+Enter, Shift+Enter where the terminal tells
it, or a backslash at the end begins another line; up and down go through what
was said before; Tab completes commands, agents, sessions and models. What is
sent while an answer comes waits for its end. Ctrl+C cancels the run; twice on
an empty line, or Ctrl+D, leaves. /help lists the commands; other words with a
slash go to the agent, whose skills they may be.

It goes on with the last session with that agent, with --session (or --resume)
in another one, with --new in a new one.

Without a terminal each line of standard input is a message, answers go to
standard output, what tools do to standard error, and the exit code is that of
the last message that failed. With --json each answer is an object as that of
"crabmem send --json", and what a command says is {"info": TEXT}.

Without a daemon the exit code is 8, but with --model offline: that answers from
the memory and the session alone.`,
		Example: `  echo "how do we ship?" | crabmem chat --model offline
  printf '/new\nhow do we ship?\n/sessions\n' | crabmem chat --model offline --json`,
	}
	f.register(c, cmd)
	cmd.Flags().StringVar(&resume, "resume", "", "the same as --session")
	_ = cmd.RegisterFlagCompletionFunc("resume", c.completeSessions(-1, false))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "session", "resume", "new"); err != nil {
			return err
		}
		if resume != "" {
			f.session = resume
		}
		return c.chat(cmd.Context(), f)
	}
	return cmd
}

func (c *app) chat(ctx context.Context, f *talkFlags) (err error) {
	t, err := c.startTalk(ctx, f)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := t.close(); err == nil {
			err = cerr
		}
	}()
	ch := &chat{talk: t, c: c}
	if ch.agent == "" {
		ch.agent = config.Crab
	}
	if f.session != "" {
		if err := ch.resume(ctx, f.session); err != nil {
			return err
		}
	}
	if !c.JSON && c.IsTerminal(c.Stdin) && c.IsTerminal(c.Stdout) && c.Getenv("TERM") != "dumb" {
		return ch.screen(ctx)
	}
	return ch.plain(ctx)
}

// chat is a conversation with a person, or with what writes to standard input.
type chat struct {
	*talk
	c *app

	info func(text string) // shows what a command says
	// turn sends a message and shows the answer.
	turn func(ctx context.Context, text string) error
}

// errLeave is returned by the command that ends the chat.
var errLeave = errors.New("the chat is over")

// plain reads messages line by line, and writes answers.
func (ch *chat) plain(ctx context.Context) error {
	c := ch.c
	ch.info = func(text string) {
		if c.JSON {
			_ = c.PrintJSON(map[string]string{"info": text})
		} else {
			c.Out.WriteString(c.Text(text) + "\n")
		}
	}
	in := readLines(c.Stdin)
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
			last = cli.SilentError(c.report(err))
		}
	}
	return last
}

// plainTurn sends a message and prints the answer when it is complete.
func (ch *chat) plainTurn(ctx context.Context, text string, in *lines) error {
	c, r := ch.c, &reply{}
	asked := newAsker(ch.talk, ctx)
	defer asked.wait()
	err := ch.say(ctx, text, func(e *pb.StreamEvent) {
		r.add(e)
		for _, line := range eventLines(e) {
			c.Note(line)
		}
		if q := e.GetAskUser(); q != nil {
			asked.reply(r.Session, ch.plainAsk(ctx, q, in))
		}
	})
	r.done(err)
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

// plainAsk takes the next lines as answers. At the end of the input nobody is
// there.
func (ch *chat) plainAsk(ctx context.Context, e *pb.AskUserEvent, in *lines) string {
	d := &dialog{questions: e.Questions}
	for d.more() {
		ch.info(d.prompt())
		ch.c.Out.Flush()
		line, err := in.message(ctx)
		if err != nil {
			return nobody
		}
		if !d.answer(line) {
			ch.c.Note("no such answer: " + cli.Printable(cli.OneLine(line)))
		}
	}
	return d.reply()
}

// lines are those of standard input. They are read beside what is done, so that
// a signal ends the wait for one.
type lines struct {
	next chan string
	err  error // set before next is closed
}

// readLines begins to read. What reads ends with the input, or with the process.
func readLines(r io.Reader) *lines {
	l := &lines{next: make(chan string)}
	go func() {
		s := bufio.NewScanner(r)
		s.Buffer(nil, maxSaid)
		for s.Scan() {
			l.next <- s.Text()
		}
		l.err = s.Err()
		if errors.Is(l.err, bufio.ErrTooLong) {
			l.err = cli.Usagef("a line of standard input is longer than %s", cli.Size(maxSaid))
		}
		if l.err == nil {
			l.err = io.EOF
		}
		close(l.next)
	}()
	return l
}

// message returns the next line, with those behind it while it ends in a
// backslash.
func (l *lines) message(ctx context.Context) (string, error) {
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
			if b.WriteString("\n"); b.Len() > maxSaid {
				return "", cli.Usagef("a message of standard input is longer than %s", cli.Size(maxSaid))
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// resume makes a session that is stored the one of the conversation, and says
// where it was left.
func (ch *chat) resume(ctx context.Context, id string) error {
	var s *pb.StoredSession
	for h, err := range ch.client.History(ctx, &pb.HistoryMsg{Id: id, Limit: 1}) {
		if err != nil {
			return said(err)
		}
		s = h.Session
		break
	}
	if s.GetError() != "" {
		return &cli.Failure{Code: cli.ExitCorrupt, Kind: "format", Message: s.Error, Remedy: talkRemedies["format"]}
	}
	ch.stored, ch.fresh, ch.agent = s.GetId(), false, s.GetAgent()
	if ch.info != nil {
		ch.info(fmt.Sprintf("going on with %s, %s, with %s", cli.SessionLabel(s.Id, s.Title), cli.Plural(s.Messages, "message", "messages"), cli.Label(s.Agent)))
	}
	return nil
}
