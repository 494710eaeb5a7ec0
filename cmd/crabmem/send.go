package main

import (
	"context"
	"io"
	"strings"

	"crabmem/cmd/crabmem/internal/chat"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/client"

	"github.com/spf13/cobra"
)

func (c *app) sendCommand() *cobra.Command {
	f := &talkFlags{}
	cmd := &cobra.Command{
		Use:     "send TEXT|-",
		GroupID: groupAgents,
		Short:   "send a message to an agent",
		Long: `Send a message to an agent of the daemon, and print the response. On a terminal,
send prints the response as it arrives. send resumes the last session with that
agent. --session resumes another session, and --new creates one.

Ctrl+C cancels the run; the session keeps the output so far. A run that fails
exits with 1 and prints the cause. If the agent calls ask_user, send replies
that no user is connected. --json prints one object; pass its stored_id to
--session.

Without a daemon the exit code is 8. Only --model offline works without one: it
answers from the memory and the session.`,
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
	return cmd
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
	asked := chat.NewAsker(t, ctx)
	defer asked.Wait()
	open := false // a line is unfinished
	err = t.Say(ctx, text, func(e *client.Event) {
		piece := r.Add(e)
		if live && piece != "" {
			io.WriteString(c.Out, c.Text(piece))
			open = !strings.HasSuffix(piece, "\n")
		}
		if lines := chat.EventLines(e); len(lines) > 0 && live && c.IsTerminal(c.Stderr) {
			if open {
				c.Out.WriteString("\n")
				open = false
			}
			c.Out.Flush()
			for _, line := range lines {
				c.Note(c.Dim(cli.Fit(line, c.Width())))
			}
		}
		if e.Kind == "ask_user" {
			asked.Reply(r.Session, chat.NoUserReply)
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
