// Command examples runs one of six examples of agents in a Go program. A script takes
// the place of the model, so they need no key:
//
//	go run ./daemon/examples agent|tools|memory|skills|mcp|everything
//
// agent and tools use package agent alone. The others open a daemon in a new home, whose
// files stay for a look.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon"
	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
)

// example is a script of the model, and a program that talks to it.
type example struct {
	name, script string
	run          func(ctx context.Context, w io.Writer, url string) error
}

var examples = []example{
	{"agent", agentScript, runAgent},
	{"tools", toolsScript, runTools},
	{"memory", memoryScript, runMemory},
	{"skills", skillsScript, runSkills},
	{"mcp", mcpScript, runMCP},
	{"everything", everythingScript, runEverything},
}

func main() {
	var names []string
	for _, e := range examples {
		if names = append(names, e.name); len(os.Args) == 2 && os.Args[1] == e.name {
			if err := e.start(context.Background(), os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: examples "+strings.Join(names, "|"))
	os.Exit(2)
}

// start runs the example with its script as the model.
func (e *example) start(ctx context.Context, w io.Writer) error {
	m, err := modeltest.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Script(e.script); err != nil {
		return err
	}
	return e.run(ctx, w, m.URL)
}

// models returns a registry with the model at an address.
func models(url string) (*model.Registry, error) {
	return model.NewRegistry(model.Network{}, []model.Provider{
		{Name: "example", Kind: "openai-compatible", BaseURL: url, APIKey: "none", Models: []string{"script"}},
	}, "script")
}

// show prints an event: text as it arrives, and a line for each call and its result.
func show(w io.Writer, e *agent.Event) {
	switch e.Kind {
	case agent.TextDelta:
		io.WriteString(w, e.Content) //nolint:errcheck // of standard output
	case agent.ToolStart:
		for _, c := range e.Calls {
			if c.ID != "" { // the call is complete
				fmt.Fprintf(w, "  %s %s\n", c.Name, c.Arguments)
			}
		}
	case agent.ToolResult:
		first, _, _ := strings.Cut(e.Output, "\n")
		fmt.Fprintf(w, "  = %s\n", first)
	case agent.Done:
		fmt.Fprintln(w)
	}
}

// home is a daemon in a new home, and a client of it.
type home struct {
	*client.Client
	dir  string
	stop func() error
}

// open writes the files of a new home, and opens a daemon with the model at an address.
func open(ctx context.Context, url string, hooks agent.Hooks, files map[string]string) (*home, error) {
	dir := filepath.Join(os.TempDir(), "crabmem-example-"+rand.Text()[:8])
	all := map[string]string{"config.toml": "[sessions]\ntitles = \"off\"\n[provider.example]\nkind = \"openai-compatible\"\nbase_url = \"" + url + "\"\napi_key = \"none\"\nmodels = [\"script\"]\n" +
		files["config.toml"]}
	for name, text := range files {
		if name != "config.toml" {
			all[name] = text
		}
	}
	for name, text := range all {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := vfs.MkdirAll(vfs.OS{}, filepath.Dir(file), 0o700); err != nil {
			return nil, err
		}
		if err := vfs.WriteFile(vfs.OS{}, file, 0o600, []byte(text)); err != nil {
			return nil, err
		}
	}
	d, err := daemon.Open(daemon.Options{Home: dir, Hooks: hooks})
	if err != nil {
		return nil, err
	}
	serving, end := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- d.Serve(serving) }()
	h := &home{Client: &client.Client{Addr: wire.Addr{Network: "unix", Address: daemon.Socket(dir)}}, dir: dir}
	h.stop = func() error {
		err := h.Close()
		end()
		return errors.Join(err, <-served, d.Close())
	}
	for h.Ping(ctx) != nil { // until the daemon listens
		select {
		case err := <-served:
			return nil, errors.Join(err, d.Close())
		case <-time.After(time.Millisecond):
		}
	}
	fmt.Fprintln(os.Stderr, "the home is", dir)
	return h, nil
}

// ask sends messages to an agent, in one session, and prints what happens.
func (h *home) ask(ctx context.Context, w io.Writer, agentName string, messages ...string) error {
	m := op.Message{Agent: agentName, New: true}
	for _, text := range messages {
		fmt.Fprintf(w, "%s> %s\n", agentName, text)
		m.Content = text
		for e, err := range op.StreamMessage.All(ctx, h, m) {
			if err != nil {
				return err
			}
			if show(w, e); e.Kind == agent.Start {
				m.Session, m.New = e.Session, false
			}
		}
		fmt.Fprintln(w)
	}
	return nil
}
