package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/mcpclient"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"

	"github.com/rogpeppe/go-internal/diff"
)

// clientEdit is a change to a client's file.
type clientEdit struct {
	Client  string `json:"client"`
	Path    string `json:"path"`
	Changed bool   `json:"changed"`
	Kept    string `json:"kept,omitempty"` // copy of the previous file
	Text    string `json:"text,omitempty"` // with --print

	client        mcpclient.Client
	before, after []byte
	exists        bool
	perm          fs.FileMode
}

type clientEdits struct {
	Clients []*clientEdit `json:"clients"`
}

// editClients changes files of some of the clients in all. It reads and checks all files before
// it writes the first one. With --print it prints the configuration for new files, and
// returns nil.
func (c *app) editClients(all []mcpclient.Client, ids []string, f *clientFlags, edit func(*mcpclient.Client, string, []byte) ([]byte, error)) (*clientEdits, error) {
	if f.family == "mcp" && (f.name == "" || len(f.name) > 64 || strings.ContainsFunc(f.name, func(r rune) bool { return !display.Showable(r) })) {
		return nil, cli.Usagef("--name %s: want 1 to 64 visible characters", display.Quoted(f.name))
	}
	clients, m, err := c.selectClients(all, ids)
	if err != nil {
		return nil, err
	}
	var a clientEdits
	for _, cl := range clients {
		e, err := c.planEdit(cl, m, f, edit)
		if err != nil {
			return nil, err
		}
		a.Clients = append(a.Clients, e)
	}
	if f.print {
		return nil, c.printEntries(&a)
	}
	for _, e := range a.Clients {
		if err := c.writeEdit(e, f.yes); err != nil {
			return nil, err
		}
	}
	return &a, nil
}

// printEdits prints the changes that editClients returns.
func (c *app) printEdits(a *clientEdits, err error) error {
	if err != nil || a == nil {
		return err
	}
	return c.printResult(a, func() {})
}

// selectClients returns the clients with the given IDs. Without IDs it returns the
// clients that are installed on this machine.
func (c *app) selectClients(all []mcpclient.Client, ids []string) (list []mcpclient.Client, m mcpclient.Machine, err error) {
	if m, err = c.clientMachine(); err != nil {
		return nil, m, err
	}
	for _, id := range ids {
		is := func(l mcpclient.Client) bool { return l.ID == id }
		i := slices.IndexFunc(all, is)
		if i < 0 {
			return nil, m, cli.Usagef("client %s: want %s", display.Quoted(id), strings.Join(mcpclient.IDs(all), ", "))
		}
		if !slices.ContainsFunc(list, is) {
			list = append(list, all[i])
		}
	}
	if len(ids) > 0 {
		return list, m, nil
	}
	for _, cl := range all {
		for _, path := range []string{cl.File(m), cl.Marker(m)} {
			if _, err := c.fs.Lstat(path); err == nil {
				list = append(list, cl)
				break
			}
		}
	}
	if len(list) == 0 {
		return nil, m, &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Message: "found no MCP client on this machine",
			Remedy: "name a client: " + strings.Join(mcpclient.IDs(all), ", ")}
	}
	return list, m, nil
}

// planEdit reads a client's file and computes its new contents.
func (c *app) planEdit(cl mcpclient.Client, m mcpclient.Machine, f *clientFlags, edit func(*mcpclient.Client, string, []byte) ([]byte, error)) (*clientEdit, error) {
	e := &clientEdit{Client: cl.ID, Path: cl.File(m), client: cl, perm: 0o600}
	if real, err := c.fs.Resolve(e.Path); err == nil {
		e.Path = real // a link to the file stays
	}
	text, fi, err := vfs.ReadFileInfo(c.fs, e.Path, mcpclient.MaxBytes)
	if err == nil {
		e.before, e.exists, e.perm = text, true, fi.Mode().Perm()
	} else if !missing(err) {
		return nil, err
	}
	old := e.before
	if f.print {
		old = nil
	}
	e.after, err = edit(&cl, e.Path, old)
	show := "crabmem " + f.family + " install " + cl.ID + " --print"
	if s, ok := errors.AsType[*mcpclient.SyntaxError](err); ok {
		return nil, &cli.Failure{Code: cli.ExitFailure, Kind: "invalid", Path: e.Path, Err: err,
			Message: fmt.Sprintf("parse %s:%d: %v; the file is unchanged", e.Path, s.Line, s.Err), Remedy: "correct the line, or add the entry that " + show + " shows"}
	} else if err != nil {
		return nil, &cli.Failure{Code: cli.ExitFailure, Kind: "invalid", Path: e.Path, Err: err,
			Message: fmt.Sprintf("edit %s: %v; the file is unchanged", e.Path, err), Remedy: "edit the file; " + show + " shows the entry"}
	}
	return e, nil
}

// printEntries prints the configuration for a new file.
func (c *app) printEntries(a *clientEdits) error {
	for _, e := range a.Clients {
		e.Text = string(e.after)
	}
	return c.printResult(a, func() {
		for _, e := range a.Clients {
			c.Note(e.client.Title + ": " + display.Printable(e.Path))
			c.Out.WriteString(e.Text)
		}
	})
}

// writeEdit shows a change, asks, and writes the file.
func (c *app) writeEdit(e *clientEdit, yes bool) error {
	title, path := e.client.Title, display.Printable(e.Path)
	if string(e.before) == string(e.after) {
		c.Say("%s: no change needed in %s", title, path)
		return nil
	}
	if !c.JSON {
		text := diff.Diff(e.Path, e.before, e.Path, e.after)
		_, text, _ = bytes.Cut(text, []byte("\n")) // the line "diff A B"
		for line := range strings.Lines(string(text)) {
			c.Say("%s", display.Printable(strings.TrimSuffix(line, "\n")))
		}
	}
	if !yes {
		ok, err := c.confirm("write " + path)
		if err != nil {
			return err
		}
		if !ok {
			c.Say("%s: not changed", title)
			return nil
		}
	}
	home := c.homeDir()
	lock := filepath.Join(home, "run", "clients.lock") // of one home: other programs take no lock either
	if err := vfs.WithLock(c.fs, lock, c.lockWait, func() error { return c.replaceClientFile(e) }); err != nil {
		return err
	}
	e.Changed = true
	did := "wrote"
	if e.after == nil {
		did = "removed"
	}
	c.Say("%s: %s %s", title, did, path)
	if e.Kept != "" {
		c.Say("kept the previous file as %s", display.Printable(e.Kept))
	}
	c.Say("next: %s", e.client.After)
	return nil
}

const keptSuffix = ".before-crabmem" // of a copy of a client's file

// replaceClientFile writes the new contents, and copies the old contents. It
// returns an error if the file changed since planEdit read it.
func (c *app) replaceClientFile(e *clientEdit) error {
	now, err := vfs.ReadFile(c.fs, e.Path, mcpclient.MaxBytes)
	if err != nil && !missing(err) {
		return err
	}
	if (err == nil) != e.exists || string(now) != string(e.before) {
		return &cli.Failure{Code: cli.ExitConflict, Kind: "conflict", Path: e.Path, Message: "write " + e.Path + ": another program changed the file",
			Remedy: "run the command again"}
	}
	if err := vfs.MkdirAll(c.fs, filepath.Dir(e.Path), 0o700); err != nil {
		return err
	}
	write := func(path string, text []byte) error {
		return vfs.WriteFile(c.fs, path, e.perm, text)
	}
	if e.exists {
		if e.Kept, err = c.freeName(e.Path + keptSuffix); err != nil {
			return err
		}
		if err := write(e.Kept, e.before); err != nil {
			return err
		}
	}
	if e.after == nil { // install created the file
		return c.fs.Remove(e.Path)
	}
	return write(e.Path, e.after)
}

// withoutServer returns a client's file without a server.
func (c *app) withoutServer(cl *mcpclient.Client, path string, text []byte, name string) ([]byte, error) {
	servers, err := cl.Servers(text)
	if e, ok := servers[name]; ok && err == nil {
		before, ok := c.beforeInstall(path, text, func(text []byte) (bool, error) {
			servers, err := cl.Servers(text)
			return servers[name].Command != "", err
		}, func(text []byte) ([]byte, error) { return cl.Set(text, name, e) })
		if ok {
			return before, nil
		}
	}
	return cl.Remove(text, name)
}

// beforeInstall looks for the bytes that a client's file had before install wrote text: it
// returns the newest kept copy without the entry to which set adds the entry with this
// result, or nil if install created the file. found is false if install did not write text.
// has reports whether a file contains the entry.
func (c *app) beforeInstall(path string, text []byte, has func([]byte) (bool, error), set func([]byte) ([]byte, error)) (before []byte, found bool) {
	free, err := c.freeName(path + keptSuffix)
	if err != nil {
		return nil, false
	}
	created, err := set(nil)
	found = err == nil && bytes.Equal(created, text)
	for kept := path + keptSuffix; kept != free; kept = nextName(path+keptSuffix, kept) {
		old, err := vfs.ReadFile(c.fs, kept, mcpclient.MaxBytes)
		if err != nil {
			continue
		}
		if ok, err := has(old); err != nil || ok {
			continue
		}
		if after, err := set(old); err == nil && bytes.Equal(after, text) {
			before, found = append([]byte{}, old...), true
		}
	}
	return before, found
}
