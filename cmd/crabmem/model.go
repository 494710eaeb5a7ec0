package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/embed/static"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/daemon/embedder"

	"github.com/spf13/cobra"
)

// staticModel is an installed model, in the answers of the commands on them.
type staticModel struct {
	Name   string `json:"name"`
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	Tokens int    `json:"tokens"`
	Dim    int    `json:"dimensions"`
}

func modelCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "model COMMAND",
		GroupID: groupAgents,
		Short:   "install files of embedding models",
		Long: `recall --semantic and the daemon use an embedding model to find entries by
meaning. These commands install static models, which need no server, into the
directory models of the home directory. crabmem models is about the language
models of agents.`,
		Example: `  crabmem model add minilm/
  crabmem model list`,
	}, modelAdd(c), modelList(c), modelRemove(c))
}

func modelAdd(c *app) *cobra.Command {
	name := ""
	cmd := &cobra.Command{
		Use:   "add DIR|FILE",
		Short: "install a static model",
		Long: `Install a static embedding model: a directory with model.safetensors and
tokenizer.json, as the model2vec project writes it, or a file from the directory
models of another home. The tokenizer must be a WordPiece tokenizer of BERT. add
converts the vectors to 8 bits. Without --name, the name is that of DIR or FILE.

If a model with this name exists, add changes nothing and exits with 4. To use
the model, set static in the table [embedder] of config.toml.`,
		Example: `  crabmem model add minilm/
  crabmem model add potion-base-8M --name potion --json`,
		Args: exactly(1, "DIR or FILE"),
	}
	cmd.Flags().StringVar(&name, "name", "", "install the model under this `name`")
	return resultCommand(c, cmd, func(_ context.Context, args []string) (m staticModel, err error) {
		path, err := filepath.Abs(args[0])
		if err != nil {
			return m, err
		}
		name := cmp.Or(name, filepath.Base(path))
		if err := static.CheckName(name); err != nil {
			return m, wrongArgs(cmd, "%v: use --name", err)
		}
		file := embedder.File(c.homeDir(), name)
		if _, err := c.fs.Lstat(file); !missing(err) {
			return m, &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Path: file, Err: err,
				Message: "model " + display.Quoted(name) + " already exists: " + file, Remedy: "choose another name, or run crabmem model remove " + name}
		}
		t, err := busy(c, "converting", func() (*static.Table, error) { return readModel(c.fs, path) })
		if err != nil {
			return m, c.about(path, err)
		}
		if err := vfs.MkdirAll(c.fs, filepath.Dir(file), 0o700); err != nil {
			return m, err
		}
		if err := vfs.Replace(c.fs, file, 0o600, t.Write); err != nil {
			return m, err
		}
		return describeModel(c.fs, name, file)
	}, func(m staticModel) {
		c.Say("installed %s: to use it, set static = %q in [embedder] of config.toml", display.Printable(m.Name), m.Name)
	})
}

// readModel reads a model of model2vec or an installed file.
func readModel(files vfs.FS, path string) (*static.Table, error) {
	fi, err := files.Lstat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case fi.IsDir():
		path = filepath.Join(path, "model.safetensors")
	case !strings.HasSuffix(path, ".safetensors"):
		return static.Open(files, path)
	}
	return static.Import(files, path, filepath.Join(filepath.Dir(path), "tokenizer.json"))
}

func describeModel(files vfs.FS, name, file string) (staticModel, error) {
	fi, err := files.Lstat(file)
	if err != nil {
		return staticModel{}, err
	}
	t, err := static.Open(files, file)
	if err != nil {
		return staticModel{}, err
	}
	return staticModel{Name: name, File: file, Bytes: fi.Size(), Tokens: t.Tokens(), Dim: t.Dim()}, nil
}

func modelList(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "list the installed static models",
		Long: `List the static embedding models in the directory models of the home directory,
by name. A file that is no model is a warning.`,
		Example: `  crabmem model list
  crabmem model list --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}, func(context.Context, []string) ([]staticModel, error) {
		list := []staticModel{}
		names, err := c.modelNames()
		home := c.homeDir()
		for _, name := range names {
			m, err := describeModel(c.fs, name, embedder.File(home, name))
			if err != nil {
				c.Warn(err.Error())
				continue
			}
			list = append(list, m)
		}
		return list, err
	}, func(list []staticModel) {
		rows := [][]string{{"NAME", "TOKENS", "DIMENSIONS", "SIZE"}}
		for _, m := range list {
			rows = append(rows, []string{display.Printable(m.Name), fmt.Sprint(m.Tokens), fmt.Sprint(m.Dim), display.Size(m.Bytes)})
		}
		c.fitTable(rows, "123", "no models")
	})
}

// modelNames returns the names of the files in the directory of models.
func (c *app) modelNames() (names []string, err error) {
	files, err := c.fs.ReadDir(filepath.Join(c.homeDir(), embedder.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range files {
		if static.CheckName(f.Name()) == nil {
			names = append(names, f.Name())
		}
	}
	return names, err
}

func modelRemove(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "remove an installed static model",
		Long: `Remove the file of a static embedding model. If [embedder] selects this model,
recall is by words only from the next start of the daemon. Without such a model,
remove exits with 3.`,
		Example: `  crabmem model remove minilm
  crabmem model remove potion --json`,
		Args: exactly(1, "NAME"),
		ValidArgsFunction: completeWith(1, func(_ context.Context, found *candidates) {
			names, _ := c.modelNames() // an unreadable folder has no names
			found.add(names...)
		}),
	}
	return resultCommand(c, cmd, func(_ context.Context, args []string) (r removedName, err error) {
		r.Removed = args[0]
		if err := static.CheckName(r.Removed); err != nil {
			return r, wrongArgs(cmd, "%v", err)
		}
		file := embedder.File(c.homeDir(), r.Removed)
		if err = c.fs.Remove(file); missing(err) {
			err = &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Path: file, Err: err, Message: "no model " + display.Quoted(r.Removed),
				Remedy: "run crabmem model list to see the names"}
		}
		return r, err
	}, func(r removedName) { c.Say("removed %s", display.Printable(r.Removed)) })
}

// removedName is the output under --json of commands that remove what has a name.
type removedName struct {
	Removed string `json:"removed"`
}
