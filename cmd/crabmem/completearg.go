package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

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
func completeCron(c *app) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return c.completeSessions(1, false)(cmd, args, toComplete)
		case 1:
			return cobra.AppendActiveHelp(nil, `SCHEDULE in quotes: minute, hour, day, month, day of week, such as "0 9 * * 1-5"`), cobra.ShellCompDirectiveNoFileComp
		case 2:
			return completeSkills(c)(cmd, nil, toComplete)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeCronIDs completes the ID of a cron entry. It requests the entries from the
// daemon.
func completeCronIDs(c *app) cobra.CompletionFunc {
	return completeWith(1, func(ctx context.Context, found *candidates) {
		ctx, cancel := context.WithTimeout(ctx, client.ReadWait)
		defer cancel()
		list, _ := ask(ctx, c, op.ListCrons, op.None{})
		for _, i := range list {
			found.describe(strconv.FormatUint(i.ID, 10), display.Printable(i.Schedule+" /"+i.Skill))
		}
	})
}
