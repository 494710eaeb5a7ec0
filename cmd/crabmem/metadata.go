package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
		verb := onDry(dry, "would adopt", "adopted")
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

// metadataFlags are the flags that change the metadata of a note.
type metadataFlags struct {
	fields []*fieldFlag
	others []string
	drop   bool
}

// fieldFlag is a flag that sets a key.
type fieldFlag struct {
	name, key string
	values    []string
}

// addMetadataFlags adds the flags to a command.
func (c *app) addMetadataFlags(cmd *cobra.Command) *metadataFlags {
	f := &metadataFlags{}
	fl := cmd.Flags()
	for _, row := range []struct{ name, key, usage string }{
		{"type", metadata.Type, "set the type to this `word`, such as decision"},
		{"tag", metadata.Tags, "set this `tag`; may be repeated"},
		{"importance", metadata.Importance, "set the importance to this `number` from 0 to 1"},
		{"expires", metadata.Expires, "set the last valid `day`, in UTC, such as 2026-04-14"},
		{"supersedes", metadata.Supersedes, "link to the entry `NAME`, which the note replaces; may be repeated"},
		{"related", metadata.Related, "link to the related entry `NAME`; may be repeated"},
		{"contradicts", metadata.Contradicts, "link to the entry `NAME`, which the note contradicts; may be repeated"},
		{"caused-by", metadata.CausedBy, "link to the entry `NAME`, a cause; may be repeated"},
		{"part-of", metadata.PartOf, "link to the entry `NAME`, which the note is part of; may be repeated"},
		{"conversation", metadata.Conversation, "make the note a message of the conversation `NAME`"},
		{"position", metadata.Position, "set its `number` in the conversation; default of remember: after the last"},
		{"role", metadata.Role, "set its `author`, such as user or assistant"},
		{"date", metadata.Date, "set its `day`, such as 2026-04-14"},
	} {
		field := &fieldFlag{name: row.name, key: row.key}
		f.fields = append(f.fields, field)
		fl.StringArrayVar(&field.values, row.name, nil, row.usage)
		if slices.Contains(metadata.Relations, row.key) {
			_ = cmd.RegisterFlagCompletionFunc(row.name, c.completeNames(-1))
		}
	}
	completeWords(cmd, "type", metadata.TypeNames()...)
	fl.StringArrayVar(&f.others, "meta", nil, "set the metadata `key=value`; may be repeated")
	fl.BoolVar(&f.drop, "no-metadata", false, "remove all metadata that no other flag sets")
	return f
}

// edit returns the change that the flags of cmd request.
func (f *metadataFlags) edit(cmd *cobra.Command) (*metadata.Edit, error) {
	e := &metadata.Edit{Drop: f.drop}
	add := func(flag, key string, values ...string) error {
		field, err := metadata.NewField(key, values...)
		if err != nil {
			return cli.Usagef("--%s: %v", flag, err)
		}
		if slices.ContainsFunc(e.Set, func(other metadata.Field) bool { return other.Key == key }) {
			return cli.Usagef("--%s: another flag sets %s, too", flag, key)
		}
		e.Set = append(e.Set, field)
		return nil
	}
	for _, field := range f.fields {
		if !cmd.Flags().Changed(field.name) {
			continue
		}
		if len(field.values) > 1 && !slices.Contains(metadata.Relations, field.key) && field.key != metadata.Tags {
			return nil, cli.Usagef("--%s: want one value", field.name)
		}
		if err := add(field.name, field.key, field.values...); err != nil {
			return nil, err
		}
	}
	others, err := keyValues(f.others)
	if err != nil {
		return nil, err
	}
	for _, o := range others {
		if err := add("meta", o.Key, o.Values...); err != nil {
			return nil, err
		}
	}
	if err := e.Validate(); err != nil {
		return nil, cli.Usagef("%v", err)
	}
	return e, nil
}

// keyValues parses the values of --meta. Several values of a key become one field.
func keyValues(list []string) (fields []metadata.Field, err error) {
	for _, s := range list {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, cli.Usagef("--meta %q: want key=value", s)
		}
		i := slices.IndexFunc(fields, func(f metadata.Field) bool { return f.Key == key })
		if i < 0 {
			i = len(fields)
			fields = append(fields, metadata.Field{Key: key})
		}
		fields[i].Values = append(fields[i].Values, value)
	}
	return fields, nil
}

// metadataHelp is the part of a command's help that describes these flags.
var metadataHelp = fmt.Sprintf(`Metadata is YAML front matter at the beginning of the text: at most %d keys and
%d bytes; if it exceeds a limit, the exit code is 2. If TEXT has no front
matter, the note keeps its metadata, including concurrent changes by other
processes. --type, --tag, --importance, --expires, and --meta key=value set
keys; --supersedes, --related, --contradicts, --caused-by, and --part-of link to
other entries. --conversation, --position, --role, and --date make the note a
message. An empty value removes its key. --no-metadata removes all keys that no
other flag sets.`, metadata.MaxKeys, metadata.MaxBytes)
