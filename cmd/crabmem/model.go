package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/catalog"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/embed/static"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/daemon/embedder"
	"crabmem/daemon/errtable"

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
		Use:   "add NAME|DIR|FILE",
		Short: "install a static model",
		Long: `Install a static embedding model. DIR is a directory with model.safetensors and
tokenizer.json, as the model2vec project writes it, and FILE is a file from the
directory models of another home. Any other argument is the NAME of a model that
crabmem model list --available shows. The tokenizer must be a WordPiece
tokenizer of BERT. add converts the vectors to 8 bits. Without --name, the name
is NAME or that of DIR or FILE.

add downloads a model by its NAME from Hugging Face, or from the mirror in the
environment variable HF_ENDPOINT. It checks size and SHA-256 digest of each file
against those in this program. A repeated command continues a download.

If a model with this name exists, add changes nothing and exits with 4. To use
the model, set embedder.static in config.toml.`,
		Example: `  crabmem model add minilm/
  crabmem model add potion-base-8M --name potion --json`,
		Args: exactly(1, "NAME, DIR, or FILE"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, m := range catalog.Models {
				names = append(names, cobra.CompletionWithDesc(m.Name, m.About))
			}
			return names, cobra.ShellCompDirectiveDefault
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "install the model under this `name`")
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (m staticModel, err error) {
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
		install := func(path string) error {
			t, err := busy(c, "converting", func() (*static.Table, error) { return readModel(c.fs, path) })
			if err != nil {
				return c.about(path, err)
			}
			if err := vfs.MkdirAll(c.fs, filepath.Dir(file), 0o700); err != nil {
				return err
			}
			return vfs.Replace(c.fs, file, 0o600, t.Write)
		}
		_, err = c.fs.Lstat(path)
		switch known := catalog.Find(args[0]); {
		case err == nil:
			err = install(path)
		case missing(err) && known != nil:
			err = c.download(ctx, known, install)
		case missing(err):
			err = &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Path: path, Err: err,
				Message: display.Quoted(args[0]) + " is not a directory, a file, or the name of a known model", Remedy: "run crabmem model list --available to see the names"}
		}
		if err != nil {
			return m, err
		}
		return describeModel(c.fs, name, file)
	}, func(m staticModel) {
		c.Say("installed %s: to use it, run crabmem config set embedder.static %s", display.Printable(m.Name), m.Name)
	})
}

// download downloads a known model into a directory of the home, calls install with the
// directory, and removes it.
func (c *app) download(ctx context.Context, m *catalog.Model, install func(dir string) error) error {
	home := c.homeDir()
	dir := filepath.Join(home, embedder.Dir, "."+m.Name) // the name of no model
	lock := filepath.Join(home, "run", "download.lock")
	return vfs.WithLock(c.fs, lock, c.lockWait, func() error {
		if err := vfs.MkdirAll(c.fs, dir, 0o700); err != nil {
			return err
		}
		host := strings.TrimRight(cmp.Or(c.Getenv("HF_ENDPOINT"), catalog.Host), "/")
		p := c.Progress("downloading " + m.Name)
		err := p.During(func() error {
			return m.Download(ctx, c.fs, dir, host, nil, func(done int64) { p.Bytes(done, m.Bytes()) })
		})
		if err != nil {
			if f := classify(err); f.Kind != errtable.Failed || ctx.Err() != nil {
				return err // such as a full disk
			}
			return &cli.Failure{Code: cli.ExitFailure, Kind: "download", Path: dir, Err: err, Message: "download " + m.Name + ": " + err.Error(),
				Remedy: "run the command again to continue, or download " + m.Files[0].Name + " and " + m.Files[1].Name + " from " + m.Page() +
					" into a folder " + m.Name + ", then run crabmem model add " + m.Name + " next to it"}
		}
		if err := install(dir); err != nil {
			return err
		}
		for _, f := range m.Files {
			if err := c.fs.Remove(filepath.Join(dir, f.Name)); err != nil {
				return err
			}
		}
		return c.fs.Remove(dir)
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

// availableModel is a model that add installs by its name.
type availableModel struct {
	Name      string `json:"name"`
	License   string `json:"license"`
	About     string `json:"about"`
	Bytes     int64  `json:"bytes"` // of the download
	URL       string `json:"url"`
	Installed bool   `json:"installed"`
}

func modelList(c *app) *cobra.Command {
	available := false
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "list the installed static models",
		Long: `List the static embedding models in the directory models of the home directory,
by name. A file that is no model is a warning. --available lists the models that
crabmem model add downloads by name, with the size of the download, the license,
and the address of the files. It makes no request.`,
		Example: `  crabmem model list
  crabmem model list --available
  crabmem model list --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&available, "available", false, "list the models that add downloads by name")
	cmd.RunE = func(*cobra.Command, []string) error {
		names, err := c.modelNames()
		if err != nil {
			return err
		}
		if available {
			return c.printAvailable(names)
		}
		list := []staticModel{}
		home := c.homeDir()
		for _, name := range names {
			m, err := describeModel(c.fs, name, embedder.File(home, name))
			if err != nil {
				c.Warn(err.Error())
				continue
			}
			list = append(list, m)
		}
		return c.printResult(list, func() {
			rows := [][]string{{"NAME", "TOKENS", "DIMENSIONS", "SIZE"}}
			for _, m := range list {
				rows = append(rows, []string{display.Printable(m.Name), fmt.Sprint(m.Tokens), fmt.Sprint(m.Dim), display.Size(m.Bytes)})
			}
			c.fitTable(rows, "123", "no models; crabmem model list --available shows some")
		})
	}
	return c.outputs(cmd, of[[]staticModel](), of[[]availableModel]())
}

func (c *app) printAvailable(installed []string) error {
	var list []availableModel
	rows := [][]string{{"NAME", "DOWNLOAD", "LICENSE", "ABOUT", "FROM"}}
	for _, m := range catalog.Models {
		list = append(list, availableModel{m.Name, m.License, m.About, m.Bytes(), m.Page(), slices.Contains(installed, m.Name)})
		repository, _, _ := strings.Cut(m.Page(), "/tree/")
		rows = append(rows, []string{m.Name, display.Size(m.Bytes()), m.License, m.About, repository})
	}
	return c.printResult(list, func() { c.fitTable(rows, "1", "") })
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
