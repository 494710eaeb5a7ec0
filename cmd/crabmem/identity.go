package main

import (
	"context"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/client"

	"github.com/spf13/cobra"
)

// identityAnswer is the JSON output of the identity commands.
type identityAnswer struct {
	Path     string `json:"path"`
	Identity string `json:"identity"` // "" before the first write
}

func identityCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "identity",
		GroupID: groupCare,
		Short:   "print the store's identity",
		Long: `Print the identity of the store: 32 hexadecimal digits that are unique to it.
The log contains the identity, too, so that crabmem can refuse the log of
another store. A copy of the directory has the same identity until you run
crabmem identity new in the copy.`,
		Example: `  crabmem identity
  crabmem identity --json
  crabmem identity new`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.read(func(s *crmem.Store) error { return c.printIdentity(s) })
	}
	addCommands(cmd, identityNewCommand(c))
	return cmd
}

func identityNewCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new",
		Short: "give a copied store its own identity",
		Long: `Checkpoint the store, then give it a new identity. Run this command in a copied
home if you use both the copy and the original. Entries do not change.`,
		Example: `  crabmem identity new
  crabmem identity new --json`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.exclusive(cmd.Context(), "identity new", func(s *crmem.Store) error {
			if err := s.NewIdentity(); err != nil {
				return err
			}
			return c.printIdentity(s)
		})
	}
	return cmd
}

func (c *app) printIdentity(s *crmem.Store) error {
	if c.JSON {
		return c.PrintJSON(identityAnswer{s.Path(), s.Identity()})
	}
	if s.Identity() == "" {
		c.Say("no identity yet: the next write sets one")
		return nil
	}
	c.Say("%s", s.Identity())
	return nil
}

// exclusive runs f on the store, opened for writing. It refuses a store that a daemon
// serves.
func (c *app) exclusive(ctx context.Context, command string, f func(s *crmem.Store) error) error {
	path, err := c.storePath()
	if err != nil {
		return err
	}
	o := &crmem.Options{Command: "crabmem " + command, LockWait: c.lockStep(), MustExist: true}
	return c.withoutDaemon(ctx, path, func() error {
		return c.Wait(ctx, func() error {
			s, err := c.open(o)
			if err != nil {
				return err
			}
			err = f(s)
			if cerr := s.Close(); err == nil {
				err = cerr
			}
			return err
		})
	})
}

// withoutDaemon runs f, which takes the lock of the store at path. It refuses a
// store that a daemon serves.
func (c *app) withoutDaemon(ctx context.Context, path string, f func() error) error {
	return c.localOrDaemon(ctx, f, c.servesStore, func(*client.Client) error {
		return &cli.Failure{Code: cli.ExitConflict, Kind: "locked", Message: "lock " + path + ": held by a daemon", Path: path,
			Remedy: "run crabmem daemon stop, then retry; crabmem verify works meanwhile"}
	})
}
