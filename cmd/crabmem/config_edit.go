package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func configEdit(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit",
		Short: "edit config.toml in $VISUAL or $EDITOR",
		Long: `Open config.toml in $VISUAL or $EDITOR, or a file with all keys as comments if
config.toml does not exist. When the editor exits with 0, edit checks the text
and then saves it. A running daemon reloads the configuration.

If the edit introduces a problem, edit lists every problem, saves nothing, and
keeps your text in a temporary file. If config.toml changed during the edit, the
exit code is 4.`,
		Example: `  EDITOR=true crabmem config edit
  EDITOR='sed -i s/offline/llama/' crabmem config edit --json`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		editor, err := c.editor("EDITOR=vi crabmem config edit, or use crabmem config set KEY VALUE")
		if err != nil {
			return err
		}
		return c.editConfig(cmd.Context(), editor, c.homeDir())
	}
	return c.outputs(cmd, of[configWritten]())
}

func (c *app) editConfig(ctx context.Context, editor, home string) error {
	path := filepath.Join(home, config.File)
	before, err := vfs.ReadFile(c.fs, path, maxConfig)
	shown := before
	if errors.Is(err, fs.ErrNotExist) {
		before, shown = nil, config.Template(c.Getenv("OPENAI_API_KEY") != "")
	} else if err != nil {
		return err
	} else if before == nil {
		before = []byte{}
	}
	file, err := c.editFile("config", ".toml", string(shown))
	if err != nil {
		return err
	}
	err = c.runEditor(ctx, editor, file)
	var text []byte
	if err == nil {
		text, err = vfs.ReadFile(c.fs, file, maxConfig)
	}
	a := configWritten{Path: path, Notes: []string{}}
	changed := string(text) != string(shown)
	if err == nil && changed {
		err = keptIn(file, c.lockConfig(home, func() error {
			done, err := config.Replace(c.fs, home, before, text, c.Getenv)
			if err == nil {
				c.noteProblems(&a, done.Problems)
			}
			return err
		}))
		if err != nil {
			return err
		}
	}
	if err := errors.Join(err, c.fs.Remove(file)); err != nil {
		return err
	}
	if !changed {
		return c.printResult(a, func() { c.Say("%s is unchanged", display.Printable(path)) })
	}
	if a.Used, err = c.reload(ctx); err != nil {
		f := *classify(err)
		f.Message = "saved " + path + ", but the daemon did not reload it: " + f.Message
		return &f
	}
	return c.printResult(a, func() { c.sayWritten("saved", a) })
}

// reload makes a running daemon reload its configuration.
func (c *app) reload(ctx context.Context) (used bool, err error) {
	d, _, err := c.running(ctx)
	if err != nil {
		if classify(err).Kind == "no_daemon" {
			return false, nil
		}
		return false, client.Unreachable(err)
	}
	_, err = op.ReloadConfig.Do(ctx, d, op.None{})
	if err := errors.Join(err, d.Close()); err != nil {
		return false, err
	}
	return true, nil
}

// keptIn adds the path of the file with the edited text to an error. It changes
// problems of config.toml to problems of this file.
func keptIn(file string, err error) error {
	if err == nil {
		return nil
	}
	f := &cli.Failure{Code: cli.ExitFailure, Kind: "edit", Message: err.Error(), Path: file, Err: err,
		Remedy: "correct the file, then copy it to config.toml"}
	if ps, ok := errors.AsType[config.Problems](err); ok {
		ps = append(config.Problems(nil), ps...)
		for i := range ps {
			if filepath.Base(ps[i].Path) == config.File {
				ps[i].Path = file
			}
		}
		f.Kind, f.Message, f.More = "config", ps.Error(), ps
	}
	if errors.Is(err, config.ErrChanged) {
		f.Code, f.Kind, f.Remedy = cli.ExitConflict, "changed", "run crabmem config edit again, and take your changes from that file"
	}
	f.Message += "; nothing was changed; your text is in " + file
	return f
}
