package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

// flatKeys appends to keys the dotted paths of all values in v and, if tables is set,
// of all tables.
func flatKeys(keys []string, prefix string, v any, tables bool) []string {
	t, ok := v.(map[string]any)
	if prefix != "" && (!ok || tables) {
		keys = append(keys, prefix)
	}
	for name, v := range t {
		if prefix != "" {
			name = prefix + "." + name
		}
		keys = flatKeys(keys, name, v, tables)
	}
	return keys
}

// completeConfigKeys completes the first argument with keys of the configuration. If
// known is set, it also completes absent keys, for config set.
func (c *app) completeConfigKeys(known bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var keys []string
		for _, k := range config.Keys() {
			if known && !strings.Contains(k.Path, "*") {
				keys = append(keys, k.Path)
			}
		}
		if v, err := c.configValue(); err == nil { // otherwise config check lists the problems
			keys = flatKeys(keys, "", v, !known)
		}
		slices.Sort(keys)
		keys = slices.DeleteFunc(slices.Compact(keys), func(k string) bool {
			return !strings.HasPrefix(k, toComplete) || display.Printable(k) != k || strings.ContainsAny(k, " \"'")
		})
		if known && len(keys) == 0 { // config set FILE
			return nil, cobra.ShellCompDirectiveDefault
		}
		return keys, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeCron completes the arguments of cron add: a session, a schedule, and a
// skill. For the schedule it shows only a hint.
func (c *app) completeCron(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return c.completeSessions(1, false)(cmd, args, toComplete)
	case 1:
		return cobra.AppendActiveHelp(nil, `SCHEDULE in quotes: minute, hour, day, month, day of week, such as "0 9 * * 1-5"`), cobra.ShellCompDirectiveNoFileComp
	case 2:
		return c.completeSkills(cmd, nil, toComplete)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeCronIDs completes the ID of a cron entry. It requests the entries from the
// daemon.
func (c *app) completeCronIDs(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	var ids []string
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), client.ReadWait)
	defer cancel()
	_ = c.withDaemon(ctx, func(d *client.Client) error { // no daemon, no numbers
		list, err := op.ListCrons.Do(ctx, d, op.None{})
		for _, i := range list {
			if id := strconv.FormatUint(i.ID, 10); strings.HasPrefix(id, toComplete) {
				ids = append(ids, cobra.CompletionWithDesc(id, cli.Fit(display.Printable(i.Schedule+" /"+i.Skill), 60)))
			}
		}
		return err
	})
	return ids, cobra.ShellCompDirectiveNoFileComp
}
