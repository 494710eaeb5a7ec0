package main

import (
	"cmp"
	"context"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

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
	addCommands(cmd, identityNewCommand(c))
	return resultCommand(c, cmd, func(context.Context, []string) (identityAnswer, error) {
		return resultOf(c.read, identityOf)
	}, c.identityText)
}

func identityNewCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "new",
		Short: "give a copied store its own identity",
		Long: `Checkpoint the store, then give it a new identity. Run this command in a copied
home if you use both the copy and the original. Entries do not change.`,
		Example: `  crabmem identity new
  crabmem identity new --json`,
	}, func(ctx context.Context, _ []string) (a identityAnswer, err error) {
		o := &crmem.Options{Command: "crabmem identity new", LockWait: c.access().Step(), MustExist: true}
		err = c.withoutDaemon(ctx, c.storePath(), func() error {
			return c.Wait(ctx, func() error {
				s, err := c.open(o)
				if err != nil {
					return err
				}
				err = s.NewIdentity()
				a, _ = identityOf(s)
				return cmp.Or(err, s.Close())
			})
		})
		return a, err
	}, c.identityText)
}

func identityOf(s *crmem.Store) (identityAnswer, error) {
	return identityAnswer{s.Path(), s.Identity()}, nil
}

func (c *app) identityText(a identityAnswer) {
	c.Say("%s", cmp.Or(a.Identity, "no identity yet: the next write sets one"))
}

// withoutDaemon runs f, which takes the lock of the store at path. It refuses a
// store that a daemon serves.
func (c *app) withoutDaemon(ctx context.Context, path string, f func() error) error {
	return c.localOrDaemon(ctx, f, c.servesStore, func(*client.Client) error {
		return &cli.Failure{Code: cli.ExitConflict, Kind: "locked", Message: "lock " + path + ": held by a daemon", Path: path,
			Remedy: "run crabmem daemon stop, then retry; crabmem verify works meanwhile"}
	})
}

func checkpointCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "checkpoint",
		GroupID: groupCare,
		Short:   "write the log into the store's file",
		Long: `Write all operations of the log into the store's file. Then the file alone
contains every entry, and any program that supports CRMEM v1 can read it. You
need this only before you copy the file: operations in the log are on disk, and
crabmem checkpoints long logs automatically.`,
		Example: `  crabmem checkpoint
  crabmem checkpoint --json`,
	}, func(ctx context.Context, _ []string) (did op.Checkpointed, err error) {
		err = c.write(ctx, "checkpoint", false, func(s op.Memory) error {
			return c.Busy("writing the store", func() (err error) {
				did, err = op.Checkpoint.Do(ctx, s, op.None{})
				return err
			})
		})
		if err == nil {
			return did, nil
		}
		f := classify(err)
		if f.Kind == "failed" {
			f.Remedy = "check the disk, then run crabmem verify and retry"
		}
		return did, f
	}, func(did op.Checkpointed) {
		c.Say("checkpointed %s; the file contains %s in %s", display.Plural(did.Folded, "operation", "operations"),
			display.Plural(did.Entries, "entry", "entries"), display.Size(did.Snapshot))
	})
}
