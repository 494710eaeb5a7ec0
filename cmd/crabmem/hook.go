package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/agenthook"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/mcpclient"
	"crabmem/crmem"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/sessionlog"
	"crabmem/sessionlog/foreign"

	"github.com/spf13/cobra"
)

// hookTime limits a hook, so that it never delays its client for long.
const hookTime = 10 * time.Second

// hookContext is what a client adds to a session's first request. Claude Code,
// Codex, and Gemini CLI define the same form.
type hookContext struct {
	Output struct {
		Event   string `json:"hookEventName"`
		Context string `json:"additionalContext"`
	} `json:"hookSpecificOutput"`
}

func hookCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "hook EVENT",
		GroupID: groupAgents,
		Short:   "handle an event of a coding agent",
		Long: `Read an event of Claude Code, Codex, or Gemini CLI from standard input, as
crabmem hooks install configures it. EVENT is session-start, pre-compact, stop,
or session-end.

session-start prints what crabmem context prints for the project of the working
directory, in the form that these programs define. The other events import the
transcript of the session, as crabmem sessions import does: secrets are
redacted, no model is called, and an unchanged transcript is not read. Of a long
transcript that grew, only the new lines are read.

A hook reads nothing of an excluded project: one in a directory of [hooks]
exclude, one outside the directories of [hooks] only, if there are any, or one
with a file ` + agenthook.Off + ` in or above its working directory. Links and
letter case make no difference.

With --gateway or CRABMEM_GATEWAY, session-start prints the context of the
gateway's memory. Transcripts are imported into the home of this machine.

With an EVENT, hook always exits with 0, within 10 seconds: an error must not
stop the agent. The error is the last line of logs/hooks.log in the home, which
crabmem doctor shows. The log has at most 64 KiB.`,
		Example:           `  echo '{"cwd": "/work/shop"}' | crabmem hook session-start`,
		Args:              exactly(1, "EVENT"),
		ValidArgsFunction: cobra.FixedCompletions(mcpclient.HookEvents, cobra.ShellCompDirectiveNoFileComp),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out, err := c.runHook(cmd.Context(), args[0])
		if err != nil || out == nil {
			return err
		}
		return c.PrintJSON(out)
	}
	return c.outputs(cmd, of[hookContext]())
}

// isHook reports whether a client runs this command line: its errors must not stop the
// client.
func isHook(cmd *cobra.Command, args []string) bool {
	i := slices.Index(args, "hook")
	return i >= 0 && cmd != nil && cmd.Name() == "hook" && slices.ContainsFunc(args[i+1:], func(a string) bool { return !strings.HasPrefix(a, "-") })
}

// hookFailed records a hook's error.
func (c *app) hookFailed(args []string, err error) {
	f := classify(err)
	c.hookHome().Log(c.now(), strings.Join(args[slices.Index(args, "hook")+1:], " "), f)
	c.Note(f.Message)
}

// runHook handles an event within hookTime. out is nil if there is nothing to print.
func (c *app) runHook(ctx context.Context, event string) (out *hookContext, err error) {
	if !slices.Contains(mcpclient.HookEvents, event) {
		return nil, cli.Usagef("event %s: want %s", display.Quoted(event), strings.Join(mcpclient.HookEvents, ", "))
	}
	c.lockWait = min(c.lockWait, hookTime*4/5)
	ctx, cancel := context.WithTimeoutCause(ctx, hookTime, fmt.Errorf("not done after %v", hookTime))
	defer cancel()
	done := make(chan error, 1)
	var text string
	go func() { // ends with the process, if the time ends first
		var err error
		text, err = c.handleHook(ctx, event)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil || text == "" {
			return nil, err
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	out = new(hookContext)
	out.Output.Event, out.Output.Context = "SessionStart", text
	return out, nil
}

// handleHook reads an event and handles it. text is the context of session-start.
func (c *app) handleHook(ctx context.Context, event string) (text string, err error) {
	e, err := agenthook.ReadEvent(c.Stdin)
	if err != nil {
		return "", err
	}
	if e.Dir == "" {
		if e.Dir, err = filepath.Abs("."); err != nil {
			return "", err
		}
	}
	if excluded, err := c.hookExcludes(e.Dir, c.Getenv("CLAUDE_PROJECT_DIR"), c.Getenv("GEMINI_PROJECT_DIR")); err != nil || excluded {
		return "", err
	}
	if event != "session-start" {
		c.remote, c.local = nil, true // transcripts stay on the machine of the client
		return "", c.importByHook(ctx, e.Transcript)
	}
	q := op.ContextQuery{Budget: contextBudget}
	if c.dir = e.Dir; c.workspaceStore() == "" { // all notes of a workspace are of its project
		q.Project = sessionlog.ProjectOf(c.fs, e.Dir)
	}
	out, err := c.contextText(ctx, q)
	if errors.Is(err, crmem.ErrNoStore) {
		err = nil
	}
	return out.Text, err
}

// hookExcludes reports whether hooks must not read the project in one of the directories.
// Empty ones do not count. An invalid configuration is an error, because it may exclude
// any project.
func (c *app) hookExcludes(dirs ...string) (bool, error) {
	m, err := c.clientMachine()
	if err != nil {
		return true, err
	}
	conf, err := config.LoadStructure(c.fs, c.homeDir(), c.Getenv)
	if err != nil {
		return true, err
	}
	for _, list := range [][]string{conf.Hooks.Exclude, conf.Hooks.Only} {
		for i, dir := range list {
			list[i] = m.Expand(dir)
		}
	}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		if !filepath.IsAbs(dir) {
			return true, fmt.Errorf("directory %s: want an absolute path", display.Quoted(dir))
		}
		if excluded, err := agenthook.Excluded(c.fs, dir, conf.Hooks.Exclude, conf.Hooks.Only); err != nil || excluded {
			return true, err
		}
	}
	return false, nil
}

// importByHook imports a transcript that changed since the last import. Without a file,
// the session has no messages yet.
func (c *app) importByHook(ctx context.Context, path string) error {
	if path == "" {
		return nil
	}
	path, err := c.fs.Resolve(path)
	if err != nil {
		return err
	}
	if err := c.checkTranscript(path); err != nil {
		return err
	}
	home := c.hookHome()
	if changed, err := home.Changed(path); missing(err) {
		return nil
	} else if err != nil || !changed {
		return err
	}
	var skipped error
	err = home.Update(path, c.lockWait, func(r *agenthook.Record) error {
		if c.extendSession(path, r) == nil {
			return nil
		}
		files, err := c.importTranscripts(ctx, []string{path}, false)
		if errors.Is(err, foreign.ErrNoTranscript) {
			return nil // it has no line that identifies it yet
		} else if err != nil {
			return err
		}
		f := &files.Files[0]
		if f.Outcome == outcomeSkipped && f.Reason != foreign.ErrNoMessages.Error() {
			skipped = fmt.Errorf("%s: skipped: %s", path, f.Reason)
		}
		if f.ID != "" && f.ID != r.Session {
			r.Session, r.Created = f.ID, f.Outcome == outcomeImported
		}
		r.Mark, r.Bytes = f.mark, f.size
		return nil
	})
	return errors.Join(err, skipped)
}

// extendSession imports the lines that were added to a transcript. After an error, the
// complete transcript must be imported.
func (c *app) extendSession(path string, r *agenthook.Record) error {
	t, err := foreign.ReadFrom(c.fs, path, r.Mark)
	if err != nil {
		return err
	}
	if _, err := c.redactItems(&t.Meta.Title, t.Items); err != nil {
		return err
	}
	if len(t.Items) > 0 {
		if err := c.writeSessions("import", true, func(d *sessionlog.Dir) (err error) {
			im, err := d.NewImporter(false)
			if err != nil {
				return err
			}
			r.Bytes, err = im.Extend(r.Session, r.Bytes, t.Meta, t.Items)
			return errors.Join(err, im.Close())
		}); err != nil {
			return err
		}
	}
	r.Mark = t.Mark
	return nil
}

// hookHome returns the home's part for hooks.
func (c *app) hookHome() agenthook.Home { return agenthook.Home{FS: c.fs, Dir: c.absHome()} }

// checkTranscript returns an error for a path outside the directories in which clients
// write transcripts. It follows links.
func (c *app) checkTranscript(path string) error {
	m, err := c.clientMachine()
	if err != nil {
		return err
	}
	for _, dir := range mcpclient.TranscriptDirs(m) {
		if real, err := c.fs.Resolve(dir); err == nil && agenthook.Within(path, real) {
			return nil
		}
	}
	return fmt.Errorf("transcript %s: not in a directory of Claude Code, Codex, or Gemini CLI", display.Quoted(path))
}
