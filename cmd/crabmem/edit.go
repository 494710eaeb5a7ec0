package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"

	"crabmem/bm25/clip"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func editCommand(c *app) *cobra.Command {
	allow := false
	cmd := &cobra.Command{
		Use:     "edit NAME",
		GroupID: groupUse,
		Short:   "edit an entry in $VISUAL or $EDITOR",
		Long: `Open the content of an entry in $VISUAL or $EDITOR. If the editor exits with 0
and the text changed, edit writes the text to the store, byte for byte. The
entry keeps its aliases, kind, ID, and creation time. If the editor only added a
line end at the end of the text, edit writes nothing. If no entry has the name,
edit opens an empty text, and creates the note NAME.

If the edited text is empty, edit writes nothing and exits with 2. If the edit
adds a key or a password of a known form, edit writes nothing and exits with 1,
unless --allow-secrets is set. If the entry changed during the edit, edit writes
nothing, prints the path of the file with your text, and exits with 4.`,
		Example: `  EDITOR=cat crabmem edit deploy
  EDITOR='sed -i s/canary/canaries/' crabmem edit deploy --json`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	allowSecretsFlag(cmd, &allow)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.editNamed(cmd.Context(), args[0], allow)
	}
	return c.outputs(cmd, of[op.Written]())
}

// editNamed runs the editor on a named entry, or on a new note. #5 always names an entry.
func (c *app) editNamed(ctx context.Context, name string, allow bool) error {
	editor, err := c.editor("EDITOR=vi crabmem edit NAME, or use crabmem remember NAME -")
	if err != nil {
		return err
	}
	before, err := resultOf(c.read, func(s *crmem.Store) (crmem.Entry, error) { return op.FindEntry(s, name) })
	if (errors.Is(err, crmem.ErrNotFound) || errors.Is(err, crmem.ErrNoStore)) && !strings.HasPrefix(name, "#") {
		before, err = crmem.Entry{Name: name}, crmem.Add{Name: name}.Validate()
	}
	if err != nil {
		return err
	}
	return c.edit(ctx, editor, before, allow)
}

// editor returns the user's editor. If no editor is set, the error contains example.
func (c *app) editor(example string) (string, error) {
	editor := cmp.Or(c.Getenv("VISUAL"), c.Getenv("EDITOR"))
	if editor == "" {
		return "", &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: "no editor: VISUAL and EDITOR are not set",
			Remedy: "set an editor, as in " + example}
	}
	return editor, nil
}

// edit runs the editor on the content of an entry, and stores the result. If before.ID is
// 0, the entry is new.
func (c *app) edit(ctx context.Context, editor string, before crmem.Entry, allow bool) error {
	file, err := c.editFile(before.Name, ".md", before.Content)
	if err != nil {
		return err
	}
	remove := func() {
		if err := c.fs.Remove(file); err != nil {
			c.Warn(err.Error())
		}
	}
	if err := c.runEditor(ctx, editor, file); err != nil {
		remove()
		return err
	}
	text, err := vfs.ReadFile(c.fs, file, crmem.MaxContent)
	if err == nil && !utf8.Valid(text) {
		err = errors.New("the text is not valid UTF-8")
	}
	if err != nil {
		return &cli.Failure{Code: cli.ExitFailure, Kind: "edit", Message: err.Error() + "; your text is in " + file, Path: file, Err: err}
	}
	after := string(text)
	created := before.ID == 0
	if !created && (after == before.Content || after == before.Content+"\n" && !strings.HasSuffix(before.Content, "\n")) {
		remove()
		return c.printResult(op.Replaced(before, before), func() { c.Say("%s is unchanged", display.Label(before.Name)) })
	}
	if op.IsBlank(after) {
		remove()
		return emptyText("the edited text of " + display.Label(before.Name))
	}
	var list []crmem.Entry
	plan := func(s *crmem.Store) ([]crmem.Op, error) {
		now, err := s.Get(before.Name)
		if created && errors.Is(err, crmem.ErrNotFound) {
			return []crmem.Op{crmem.Add{Name: before.Name, Content: after, Kind: crmem.Note}}, nil
		}
		if errors.Is(err, crmem.ErrNotFound) || err == nil && !now.Equal(before) {
			return nil, &cli.Failure{Code: cli.ExitConflict, Kind: "changed", Path: file,
				Message: display.Quoted(before.Name) + " changed during the edit; your text is in " + file,
				Remedy:  "compare your text with crabmem show, then run crabmem remember NAME - < " + errtable.ShellWord(file)}
		}
		return []crmem.Op{crmem.Update{Name: now.Name, Content: after, Aliases: now.Aliases}}, err
	}
	g := c.guard()
	g.AllowSecrets = allow
	err = c.writeGuarded(ctx, "edit", created, g, func(s op.Memory) (err error) {
		list, err = s.Update(ctx, plan)
		return err
	})
	if err != nil {
		f := classify(err)
		if !strings.Contains(f.Message, file) {
			f.Message += "; your text is in " + file
		}
		return f
	}
	remove()
	return c.printWritten("edited", op.Replaced(list[0], before))
}

// editFile writes text to a new file that only its user can read.
func (c *app) editFile(name, ext, text string) (string, error) {
	stem := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, clip.Bytes(name, 40))
	path := filepath.Join(os.TempDir(), "crabmem-"+stem+"-"+rand.Text()[:10]+ext)
	f, err := c.fs.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.WriteString(f, text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, c.fs.Remove(path))
	}
	return path, nil
}

// runEditor runs the editor as a shell does: the variable may contain options.
func (c *app) runEditor(ctx context.Context, editor, file string) error {
	cmd := exec.Command("sh", "-c", editor+` "$@"`, editor, file)
	if runtime.GOOS == "windows" {
		words := append(strings.Fields(editor), file)
		cmd = exec.Command(words[0], words[1:]...)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	if !c.IsTerminal(c.Stdout) {
		cmd.Stdout = c.Stderr // standard output is the answer's
	}
	err := c.Wait(ctx, func() error {
		c.editing.Store(true)
		defer c.editing.Store(false)
		return cmd.Run()
	})
	if e, ok := errors.AsType[*exec.ExitError](err); ok && (e.ExitCode() == 130 || e.ProcessState.String() == "signal: "+os.Interrupt.String()) {
		return &interrupted{os.Interrupt}
	}
	if err != nil {
		return fmt.Errorf("run editor %q: nothing was changed: %w", editor, err)
	}
	return nil
}
