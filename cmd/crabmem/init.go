package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/display"

	"github.com/spf13/cobra"
)

func initCommand(c *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:     "init",
		GroupID: groupAgents,
		Short:   "write a configuration for the daemon",
		Long: `Write config.toml to the home directory, with an explanation of every key. If
OPENAI_API_KEY is set, the file refers to the variable and never contains the
key. Otherwise init asks a local Ollama (OLLAMA_HOST, or localhost:11434) for
its models. With neither, init selects the model offline, which answers from
memory only.

If config.toml exists, init exits with 4. --force renames it to config.toml.old,
or config.toml.old-2 and so on if that name is taken.`,
		Example: `  crabmem init
  crabmem init --force`,
	}
	cmd.Flags().BoolVar(&force, "force", false, "rename the old file, then write a new one")
	return resultCommand(c, cmd, func(ctx context.Context, _ []string) (initAnswer, error) { return c.init(ctx, force) }, func(a initAnswer) {
		c.Say("wrote %s", display.Printable(a.Path))
		if a.Kept != "" {
			c.Say("the old file is %s", display.Printable(a.Kept))
		}
		c.Say("model: %s", display.Printable(a.Model))
		if a.Model == config.Offline {
			c.Say("found no model: set OPENAI_API_KEY or start Ollama, then run crabmem init --force")
		}
		c.Say("next: crabmem daemon start")
	})
}

type initAnswer struct {
	Path   string   `json:"path"`
	Model  string   `json:"model"` // that will answer
	OpenAI bool     `json:"openai"`
	Ollama []string `json:"ollama"`
	Kept   string   `json:"kept,omitempty"` // new name of the old configuration
}

// freeConfig sets the new name of an old configuration. Without force, an old
// configuration is an error.
func (c *app) freeConfig(a *initAnswer, force bool) error {
	_, err := c.fs.Lstat(a.Path)
	switch {
	case missing(err):
		a.Kept = ""
		return nil
	case err == nil && !force:
		return &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Path: a.Path, Message: "create " + a.Path + ": file exists",
			Remedy: "use crabmem init --force to keep the old file under a new name"}
	case err == nil:
		a.Kept, err = c.freeName(a.Path + ".old")
	}
	return err
}

func (c *app) init(ctx context.Context, force bool) (a initAnswer, err error) {
	home := c.homeDir()
	path := filepath.Join(home, config.File)
	a = initAnswer{Path: path, OpenAI: c.Getenv("OPENAI_API_KEY") != ""}
	if err := c.freeConfig(&a, force); err != nil { // before the search for a model
		return a, err
	}
	a.Ollama = ollama(ctx, c.Getenv)
	if err := vfs.MkdirAll(c.fs, home, 0o700); err != nil {
		return a, err
	}
	if _, err := vfs.MakePrivate(home); err != nil {
		return a, err
	}
	text := config.Template(config.Found{OpenAI: a.OpenAI, Ollama: a.Ollama})
	if err := c.lockConfig(home, func() error {
		if err := c.freeConfig(&a, force); err != nil {
			return err
		}
		if a.Kept != "" {
			if err := c.fs.Rename(path, a.Kept); err != nil {
				return err
			}
		}
		return vfs.WriteFile(c.fs, path, 0o600, text)
	}); err != nil {
		return a, err
	}
	made, err := config.Load(c.fs, home, c.Getenv)
	if err == nil {
		a.Model = made.Model
	}
	return a, err
}

// freeName returns a name, with the first unused number if the name exists.
func (c *app) freeName(name string) (string, error) {
	free := name
	for n := 2; ; n++ {
		if _, err := c.fs.Lstat(free); missing(err) {
			return free, nil
		} else if err != nil {
			return "", err
		}
		free = name + "-" + strconv.Itoa(n)
	}
}

// ollama returns the models of a local Ollama, or nil.
func ollama(ctx context.Context, getenv func(string) string) []string {
	base := cmp.Or(getenv("OLLAMA_HOST"), "localhost:11434")
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	names, err := ollamaModels(ctx, strings.TrimRight(base, "/")+"/api/tags")
	if err != nil {
		return []string{}
	}
	return names
}

func ollamaModels(ctx context.Context, url string) ([]string, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	// No proxy for this machine.
	t := &http.Transport{}
	defer t.CloseIdleConnections()
	r, err := (&http.Client{Transport: t}).Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, errors.New(r.Status)
	}
	var tags struct{ Models []struct{ Name string } }
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&tags); err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	names := []string{}
	for _, m := range tags.Models {
		if m.Name != "" && len(m.Name) <= 256 && len(names) < 64 && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names, nil
}
