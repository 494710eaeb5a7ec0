package main

import (
	"context"
	"os"

	"crabmem/cmd/crabmem/internal/chat"

	"github.com/spf13/cobra"
)

func chatCommand(c *app) *cobra.Command {
	f := &talkFlags{}
	var resume string
	cmd := &cobra.Command{
		Use:     "chat",
		GroupID: groupAgents,
		Short:   "talk to an agent",
		Long: `Talk to an agent of the daemon. chat resumes the last session with that agent.
--session (or --resume) resumes another session, and --new creates one.

On a terminal, chat begins with the ID and title of the session, its last
message and answer, and whether a run of another client is active in it; /new
creates a session. chat formats each response as it arrives. A message that you
send during a run waits for the end of the run. A pasted text of several lines
waits for Enter. Keys:

  Enter      send the message
  Alt+Enter  insert a line break; so does a backslash at the end of a line, and
             Shift+Enter if the terminal reports it
  Up, Down   show earlier messages
  Ctrl+R     search earlier messages; Ctrl+R again shows an older match, Enter
             sends it, Ctrl+G or Esc restores the text, and other keys edit
  Tab        complete commands, agents, sessions, notes, and models
  Ctrl+C     cancel the run; on an empty line, press it twice to leave
  Ctrl+D     leave

/help lists the commands, such as /recall QUERY and /remember NAME TEXT. Any
other /WORD names a skill of the agent. chat refuses a WORD that is neither, and
//WORD sends the text /WORD.

Without a terminal, each line of standard input is a message. Responses go to
standard output, and tool events to standard error. The exit code is that of the
last message that failed. With --json, each response is an object as printed by
"crabmem send --json", and command output is {"info": TEXT}.

If no daemon runs and config.toml has a model, this command serves the home
until it ends. Commands that start before then use it as their daemon; when it
ends, it cancels their runs. It runs no cron entries and opens no TCP port.
--model offline needs no model: it answers from the memory and the session.
Without a daemon and a model, the exit code is 8.`,
		Example: `  echo "how do we ship?" | crabmem chat --model offline
  printf '/new\nhow do we ship?\n/sessions\n' | crabmem chat --model offline --json`,
	}
	f.register(c, cmd)
	cmd.Flags().StringVar(&resume, "resume", "", "same as --session `session`")
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
	return c.outputs(cmd, of[chat.Info](), of[chat.Reply]())
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
		Streams: c.Streams, Conversation: t, FS: c.fs, Home: func() (string, error) { return c.homeDir(), nil }, Terminal: &c.terminal,
		Interrupted: func(sig os.Signal) error { return &interrupted{sig} }, Report: c.report, Classify: classify,
	}, f.session)
}
