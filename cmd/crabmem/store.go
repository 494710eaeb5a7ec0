package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/fusion"
	"crabmem/crmem/metadata"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/op"
	"crabmem/daemon/secret/scan"
	"crabmem/daemon/space"
	"crabmem/daemon/wire"

	"github.com/spf13/cobra"
)

const defaultLockWait = 10 * time.Second

// storePath returns where the store is: flags, environment, workspace, home.
func (c *app) storePath() string {
	if c.space != "" && c.space != space.Main {
		return space.File(c.absHome(), c.space)
	}
	if p := c.namedStore(); p != "" {
		return p
	}
	if p := c.workspaceStore(); p != "" {
		return p
	}
	return filepath.Join(c.homeDir(), "memory.db")
}

// namedStore returns the store that --db or CRABMEM_DB names, or "".
func (c *app) namedStore() string {
	if c.db == "" && c.home == "" {
		return c.Getenv("CRABMEM_DB")
	}
	return c.db
}

// unknownHome is the home if no directory is known. No process can create it.
var unknownHome = filepath.Join(os.DevNull, ".crabtalk")

// homeDir returns the home: flag, environment, ~/.crabtalk. checkGlobal refuses a command
// that needs a home without one.
func (c *app) homeDir() string {
	if p := cmp.Or(c.home, c.Getenv("CRABTALK_HOME")); p != "" {
		return p
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return unknownHome
	}
	return filepath.Join(user, ".crabtalk")
}

// absHome returns the absolute path of the home.
func (c *app) absHome() string { return absPath(c.homeDir()) }

// absPath returns the absolute path of a file, or path if the directory of this process
// is unknown.
func absPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// secureHome restricts a home in use to its user. A store that --db names may
// be anywhere and is not restricted.
func (c *app) secureHome() error {
	path := c.storePath()
	home := c.homeDir()
	if path != filepath.Join(home, "memory.db") && (c.space == "" || c.space == space.Main) {
		return nil
	}
	return c.tighten(home, path)
}

// tighten restricts a home to its user if it contains the file ours.
func (c *app) tighten(home, ours string) error {
	if _, err := c.fs.Lstat(ours); err != nil {
		return nil // opening the store reports the error
	}
	tightened, err := vfs.MakePrivate(home)
	if tightened {
		c.Warn(home + ": other users could access it; its mode is now 0700")
	}
	return err
}

func (c *app) open(o *crmem.Options) (*crmem.Store, error) {
	if err := c.checkLocal(); err != nil {
		return nil, err
	}
	if c.space != "" {
		if err := space.Exists(c.fs, c.absHome(), c.space); err != nil {
			return nil, err
		}
	}
	path := c.storePath()
	o.FS, o.Now, o.Warn, o.Indexing, o.Embed = c.fs, c.now, c.Warn, c.Step, c.embed
	keys := []string{"importance_weight"}
	if !o.ReadOnly {
		keys = append(keys, "history")
	}
	if conf := c.storeSettings(keys...); conf != nil {
		o.History, o.HistoryLimit = conf.History, conf.HistoryLimit
		o.ImportanceWeight, o.HalfLife = conf.ImportanceWeight, conf.HalfLife
	}
	s, err := busy(c, "opening "+path, func() (*crmem.Store, error) { return crmem.Open(path, o) })
	return s, c.about(path, err)
}

// storeSettings returns the configuration of the home, or nil if it is invalid or
// contains none of the keys. Most configurations contain none, and loading takes time.
func (c *app) storeSettings(keys ...string) *config.Config {
	home := c.homeDir()
	text, err := vfs.ReadFile(c.fs, filepath.Join(home, config.File), maxConfig)
	if err != nil || !slices.ContainsFunc(keys, func(key string) bool { return bytes.Contains(text, []byte(key)) }) {
		return nil
	}
	conf, err := config.LoadStructure(c.fs, home, c.Getenv)
	if err != nil {
		return nil
	}
	return conf
}

// about adds the path to an error without one.
func (c *app) about(path string, err error) error {
	if err == nil {
		return nil
	}
	f := classify(err)
	if f.Path == "" && f.Code != cli.ExitUsage {
		f.Path = path
	}
	if !strings.Contains(f.Message, filepath.Base(path)) && (f.Kind == "no_store" || f.Kind == "format" || f.Kind == "failed") {
		f.Message = path + ": " + f.Message
	}
	_, lerr := c.fs.Lstat(path)
	switch e, ok := errors.AsType[*fs.PathError](err); {
	case f.Kind == "failed" && ok && e.Op == "resolve":
		f.Code, f.Kind, f.Remedy = cli.ExitNotFound, "no_store", "restore the target of the link, or remove the link"
	case f.Kind == "foreign" && missing(lerr) && !strings.Contains(f.Message, "run crabmem repair"):
		// There is no file to keep.
		f.Remedy = "restore the file next to its log, or run crabmem repair --keep-log with a copy of the file"
	}
	return f
}

// read runs f on the store, opened for reading.
func (c *app) read(f func(s *crmem.Store) error) error {
	return c.readWith(crmem.Options{}, f)
}

func (c *app) readWith(o crmem.Options, f func(s *crmem.Store) error) error {
	o.ReadOnly, o.MustExist = true, true
	s, err := c.open(&o)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// few are the commands that write and use few entries.
var few = []string{"alias", "append", "edit", "forget", "pin", "remember", "rename", "tag", "unpin"}

// write runs f on the store, opened for writing. A missing store is an error
// unless create is set; then the first write creates it. What f has written is
// durable, whatever follows.
func (c *app) write(ctx context.Context, command string, create bool, f func(s op.Memory) error) error {
	return c.writeGuarded(ctx, command, create, op.Guard{AllowSecrets: true, AllowEmpty: true}, f)
}

// writeGuarded is write with checks of the texts.
func (c *app) writeGuarded(ctx context.Context, command string, create bool, g op.Guard, f func(s op.Memory) error) error {
	if c.remote != nil {
		return f(c.remote)
	}
	if err := c.secureHome(); err != nil {
		return err
	}
	o := crmem.Options{Command: "crabmem " + command, CheckpointOnClose: crmem.CheckpointAuto, MustExist: !create, By: actorOf(command), Lazy: slices.Contains(few, command)}
	return c.withStore(ctx, client.StoreOptions{Access: *c.access(), Options: o, Guard: g}, func(o *crmem.Options) (*crmem.Store, error) {
		return waited(ctx, c, func() (*crmem.Store, error) { return c.open(o) })
	}, f)
}

// guard checks texts by the setting [memory] secrets.
func (c *app) guard() op.Guard {
	return op.Guard{Policy: c.secretsPolicy, Warn: c.Warn, Fix: op.OwnerFix}
}

// secretsPolicy returns the setting [memory] secrets of the home. If the
// configuration is invalid, it returns the default.
func (c *app) secretsPolicy() (scan.Policy, error) {
	conf, err := config.LoadStructure(c.fs, c.homeDir(), c.Getenv)
	if err != nil {
		return scan.Default, nil
	}
	return conf.Secrets, nil
}

// actorOf returns who makes the changes of a command.
func actorOf(command string) crmem.Actor {
	switch command {
	case crmem.ClientMCP, crmem.ClientLoad, crmem.ClientImport:
		return crmem.Actor{Client: command}
	}
	return crmem.Actor{Client: crmem.ClientCLI}
}

// search runs f on the store, opened for reading: a daemon that has the store open
// has its index, too. meaning is how the search uses the embedding model.
func (c *app) search(ctx context.Context, meaning *fusion.Request, f func(s op.Memory) error) error {
	if c.remote != nil {
		return f(c.remote)
	}
	return c.withStore(ctx, client.StoreOptions{Daemon: c.client(), Semantic: meaning, Messages: c.searchMessages, Options: crmem.Options{ReadOnly: true, MustExist: true, Lazy: true}}, c.open, f)
}

// withStore runs f on a store whose files open opens.
func (c *app) withStore(ctx context.Context, o client.StoreOptions, open func(*crmem.Options) (*crmem.Store, error), f func(s op.Memory) error) error {
	o.Path, o.Space, o.Options.FS, o.Options.Now, o.Options.Warn = c.storePath(), c.space, c.fs, c.now, c.Warn
	o.Open = func(_ string, o *crmem.Options) (*crmem.Store, error) { return open(o) }
	s, err := client.OpenStore(ctx, o)
	if err != nil {
		return err
	}
	err = f(s)
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	return err
}

// update applies the operations that plan returns to a store that exists. It returns the
// entries that they wrote. It refuses texts with secrets as [memory] secrets says, unless
// allow is set.
func (c *app) update(ctx context.Context, command string, allow bool, plan func(s *crmem.Store) ([]crmem.Op, error)) (list []crmem.Entry, err error) {
	g := c.guard()
	g.AllowSecrets = allow
	err = c.writeGuarded(ctx, command, false, g, func(s op.Memory) error {
		list, err = s.Update(ctx, plan)
		return err
	})
	return list, err
}

// plan is update, or with dry only calls plan.
func (c *app) plan(ctx context.Context, command string, dry bool, plan func(s *crmem.Store) ([]crmem.Op, error)) error {
	if dry {
		_, err := resultOf(c.read, plan)
		return err
	}
	_, err := c.update(ctx, command, false, plan)
	return err
}

// access returns the settings with which this command finds the daemon that
// holds a lock.
func (c *app) access() *client.Access {
	return &client.Access{
		LockWait: c.lockWait,
		Hello:    c.hello,
		Watch:    func(a wire.Addr) error { return c.stopped(c.daemonPID(a.Address)) },
		Locked:   c.lockedBy,
	}
}

// servesStore reports whether a daemon has the store of this command line open.
func (c *app) servesStore(h client.Daemon) bool {
	path, err := c.fs.Resolve(c.storePath())
	return err == nil && h.Serves(path, c.space)
}

// completeNames completes the first n arguments with names of entries.
func (c *app) completeNames(n int) cobra.CompletionFunc {
	return completeWith(n, func(_ context.Context, found *candidates) {
		_ = c.read(func(s *crmem.Store) error { // without a store, no names
			for e := range s.All() {
				if found.matches(e.Name) {
					found.describe(e.Name, cli.FirstLine(metadata.Text(e.Content)))
				}
			}
			return nil
		})
	})
}

// missing reports whether the error is about a file that is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
