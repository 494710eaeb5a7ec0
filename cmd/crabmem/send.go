package main

import (
	"context"
	"io"
	"strings"
	"sync"

	"crabmem/cmd/crabmem/internal/chat"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/agent"

	"github.com/spf13/cobra"
)

func sendCommand(c *app) *cobra.Command {
	f := &talkFlags{}
	cmd := &cobra.Command{
		Use:     "send TEXT|-",
		GroupID: groupAgents,
		Short:   "send a message to an agent",
		Long: `Send a message to an agent of the daemon, and print the response. On a terminal,
send prints the response as it arrives. send resumes the last session with that
agent. --session resumes another session, and --new creates one. A TEXT /NAME
loads the skill NAME, and exits with 3 if the agent has no such skill; //NAME
sends the text /NAME.

Ctrl+C cancels the run; the session keeps the output so far. If the provider is
rate limited or has a server error, the daemon waits and retries, and send
prints each wait on standard error. On a terminal, send shows there how much of
the prompt the model has read, if the model server reports it. A run that fails
exits with 1 and prints the cause. If the agent calls ask_user, or needs
approval for a command, send asks on a terminal. Elsewhere it replies that no
user is connected. --json prints one object; pass its stored_id to --session.
--explain prints the text from memory that inject of the agent adds to the
message, on standard error.

If no daemon runs and config.toml has a model, this command serves the home
until it ends. Commands that start before then use it as their daemon; when it
ends, it cancels their runs. It runs no cron entries and opens no TCP port.
--model offline needs no model: it answers from the memory and the session.
Without a daemon and a model, the exit code is 8.`,
		Example: `  crabmem send --model offline "how do we ship?"
  echo "how do we ship?" | crabmem send --model offline --new --json -`,
		Args:              atLeast(1, "TEXT (or -)"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f.register(c, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "session", "new"); err != nil {
			return err
		}
		text := strings.Join(args, " ")
		if text == "-" {
			var err error
			if text, err = c.ReadInput(cmd.Context(), chat.MaxMessage); err != nil {
				return err
			}
		}
		if strings.TrimSpace(text) == "" {
			return cli.Usagef("the message is empty")
		}
		return c.send(cmd.Context(), f, text)
	}
	return c.outputs(cmd, of[chat.Reply]())
}

func (c *app) send(ctx context.Context, f *talkFlags, text string) (err error) {
	t, err := c.startTalk(ctx, f)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := t.Close(); err == nil {
			err = cerr
		}
	}()
	r := &chat.Reply{}
	live := c.IsTerminal(c.Stdout) && !c.JSON
	asked, wait := chat.NewAsker(t, ctx), c.Progress("")
	defer asked.Wait()
	defer wait.End()
	in := sync.OnceValue(func() *chat.Lines { return chat.ReadLines(c.Stdin) })
	open := false // a line is unfinished
	err = t.Say(ctx, text, func(e *agent.Event) {
		chat.ShowWait(c.Streams, wait, e)
		piece := r.Add(e)
		if live && piece != "" {
			io.WriteString(c.Out, c.Text(piece))
			open = !strings.HasSuffix(piece, "\n")
		}
		if lines := chat.EventLines(e); len(lines) > 0 && (e.Kind == agent.Notice || e.Kind == agent.Injected && !c.JSON || live && c.IsTerminal(c.Stderr)) {
			if open {
				c.Out.WriteString("\n")
				open = false
			}
			c.Out.Flush()
			for _, line := range lines {
				c.Note(c.Dim(cli.Fit(line, c.Width())))
			}
		}
		if e.Kind == agent.AskUser {
			answer := chat.NoUserReply
			if live && c.IsTerminal(c.Stdin) {
				answer = in().Ask(ctx, e.Questions, c.Note, c.Note)
			}
			asked.Reply(r.Session, answer)
		}
		if live {
			c.Out.Flush()
		}
	})
	var failure *cli.Failure
	if err != nil {
		failure = classify(err)
	}
	r.Done(failure)
	switch {
	case c.JSON && r.Stored != "":
		if perr := c.PrintJSON(r); perr != nil {
			return perr
		}
		if ferr := c.Out.Flush(); ferr != nil {
			return ferr
		}
	case live && open:
		c.Out.WriteString("\n")
	case !live && !c.JSON && (err == nil || r.Content != ""):
		c.Out.WriteString(c.Text(strings.TrimRight(r.Content, "\n")) + "\n")
	}
	return err
}
