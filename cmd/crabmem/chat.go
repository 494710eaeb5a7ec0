package main

import (
	"context"
	"os"

	"crabmem/cmd/crabmem/internal/chat"

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
		if cerr := t.Close(); err == nil {
			err = cerr
		}
	}()
	return chat.Run(ctx, &chat.Options{
		Streams: c.Streams, Conversation: t, FS: c.fs, Home: c.homeDir, Terminal: &c.terminal,
		Interrupted: func(sig os.Signal) error { return &interrupted{sig} }, Report: c.report, Classify: classify,
	}, f.session)
}
