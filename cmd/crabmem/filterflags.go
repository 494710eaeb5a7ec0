package main

import (
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

// filterFlags are the flags that select entries.
type filterFlags struct {
	op.FilterArgs
	others []string
}

// add adds the flags to a command. verb is the first word of their usage.
func (f *filterFlags) add(cmd *cobra.Command, verb string) {
	fl := cmd.Flags()
	fl.StringVar(&f.Kind, "kind", "", verb+" only this `kind`: note or archive")
	fl.StringVar(&f.Type, "type", "", verb+" only entries of this metadata `type`, such as decision")
	fl.StringArrayVar(&f.Tags, "tag", nil, verb+" only entries with this `tag`; may be repeated")
	fl.StringArrayVar(&f.others, "meta", nil, verb+" only entries with the metadata `key=value`; may be repeated")
	fl.StringVar(&f.After, "after", "", verb+" only entries created at or after this `time`")
	fl.StringVar(&f.Before, "before", "", verb+" only entries created before this `time`")
	completeWords(cmd, "kind", "note", "archive")
	completeWords(cmd, "type", metadata.TypeNames()...)
}

// apply sets the kinds and the filter of a query.
func (f *filterFlags) apply(q *crmem.Query, now time.Time) (err error) {
	if err := f.FilterArgs.Apply(q, now); err != nil {
		return cli.Usagef("--%v", err)
	}
	q.Filter.Fields, err = keyValues(f.others)
	return err
}

// filterHelp is the part of a command's help that describes these flags.
const filterHelp = `--type, --tag, and --meta select entries by metadata; case does not count. An
entry must have all given tags and values. --after and --before select entries
by creation time. Their values are a day (2026-04-14, today, yesterday), a month
(2026-04), a year (2026), a time (2026-04-14T10:00:00Z), or an age (2d, 12h).
Days, months, and years are in the local time zone.`
