package main

import (
	"fmt"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/metadata"

	"github.com/spf13/cobra"
)

// metadataFlags are the flags that change the metadata of a note.
type metadataFlags struct {
	fields []*fieldFlag
	others []string
	drop   bool
}

// fieldFlag is a flag for a key. It is not set unless the command line has it.
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
		{"expires", metadata.Expires, "set the last valid `day`, such as 2026-04-14"},
		{"supersedes", metadata.Supersedes, "the note replaces the entry `NAME`; may be repeated"},
		{"related", metadata.Related, "the note is related to the entry `NAME`; may be repeated"},
		{"contradicts", metadata.Contradicts, "the note contradicts the entry `NAME`; may be repeated"},
		{"caused-by", metadata.CausedBy, "the entry `NAME` is a cause; may be repeated"},
		{"part-of", metadata.PartOf, "the note is part of the entry `NAME`; may be repeated"},
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

// keyValues parses the values of --meta. Those of one key become one field.
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

// metadataHelp is a part of the help of commands with these flags.
var metadataHelp = fmt.Sprintf(`Metadata is YAML front matter at the beginning of the text: at most %d keys and
%d bytes. A text without front matter of its own keeps the metadata of the
note, also if another process changes it at the same time. --type, --tag,
--importance, --expires, and --meta key=value set keys; --supersedes, --related,
--contradicts, --caused-by, and --part-of link other entries. An empty value
removes the key, and --no-metadata all keys that no other flag sets. Metadata
beyond the limits exits with 2.`, metadata.MaxKeys, metadata.MaxBytes)
