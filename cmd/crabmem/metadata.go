package main

import (
	"context"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func metadataCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "metadata COMMAND",
		GroupID: groupCare,
		Short:   "adopt the metadata of entries",
		Long: `Metadata is YAML front matter at the beginning of an entry's text. crabmem
remember and crabmem append write it; crabmem metadata adopt lets imported
metadata affect the order of recall.`,
		Example: `  crabmem metadata adopt --dry-run`,
	}, metadataAdoptCommand(c))
}

// adoptedAnswer is the JSON output of metadata adopt.
type adoptedAnswer struct {
	Adopted []string `json:"adopted"`
	DryRun  bool     `json:"dry_run"`
}

func metadataAdoptCommand(c *app) *cobra.Command {
	dry := false
	cmd := &cobra.Command{
		Use:   "adopt [NAME...]",
		Short: "let expires and supersedes affect recall",
		Long: `Add the key "crabmem: 1" to the front matter of the entries NAME. Then their
keys expires and supersedes affect the order of recall. Without NAME, adopt
changes every entry that has one of these two keys. All other bytes of the
entries stay the same.

Check imported notes first: other programs may use expires and supersedes with
another meaning. The flags of remember and append add "crabmem: 1" themselves.

adopt changes all of these entries or none. If an entry NAME has no front
matter, or a limit of metadata leaves no room for the key, adopt exits with 2.
If an entry NAME does not exist, adopt exits with 3.`,
		Example: `  crabmem metadata adopt --dry-run
  crabmem metadata adopt --json`,
		ValidArgsFunction: c.completeNames(-1),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "list the entries without changing them")
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (a adoptedAnswer, err error) {
		a.DryRun = dry
		err = c.plan(ctx, "metadata adopt", dry, func(s *crmem.Store) (ops []crmem.Op, err error) {
			ops, a.Adopted, err = adoption(s, args)
			return ops, err
		})
		return a, err
	}, func(a adoptedAnswer) {
		verb := "adopted"
		if dry {
			verb = "would adopt"
		}
		for _, name := range a.Adopted {
			c.Say("%s %s", verb, display.Label(name))
		}
		if len(a.Adopted) == 0 {
			c.Say("no entry to adopt")
		}
	})
}

// adoption returns the operations that adopt entries, and the names of the entries. It
// adopts the given entries. If given is empty, it adopts all with expires or supersedes.
func adoption(s *crmem.Store, given []string) (ops []crmem.Op, names []string, err error) {
	names = []string{}
	adopt := func(e crmem.Entry) error {
		content, err := metadata.Set(e.Content, metadata.Field{Key: metadata.Adopted, Values: []string{"1"}})
		if err != nil {
			return cli.Usagef("%s: %v", display.Quoted(e.Name), err)
		}
		if content != e.Content {
			ops = append(ops, crmem.Update{Name: e.Name, Content: content, Aliases: e.Aliases})
			names = append(names, e.Name)
		}
		return nil
	}
	for _, name := range once(given) {
		e, err := op.FindEntry(s, name)
		if err != nil {
			return nil, names, err
		}
		if _, _, ok := metadata.Parse(e.Content); !ok {
			return nil, names, cli.Usagef("%s has no front matter", display.Quoted(e.Name))
		}
		if err := adopt(e); err != nil {
			return nil, names, err
		}
	}
	if len(given) > 0 {
		return ops, names, nil
	}
	for e := range s.All() {
		m, _, ok := metadata.Parse(e.Content)
		if !ok || m.Adopted() || len(m.Values(metadata.Expires))+len(m.Values(metadata.Supersedes)) == 0 {
			continue
		}
		if err := adopt(e); err != nil {
			return nil, names, err
		}
	}
	return ops, names, nil
}
