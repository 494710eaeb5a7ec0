package main

import (
	"context"
	"fmt"
	"strings"

	"crabmem/daemon"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/usage"

	"github.com/spf13/cobra"
)

func usageCommand(c *app) *cobra.Command {
	var in op.UsageFilter
	cmd := &cobra.Command{
		Use:     "usage",
		GroupID: groupAgents,
		Short:   "count runs and tokens",
		Long: `Count the runs of agents, and the tokens that models read and wrote, also for
titles, summaries, and failed runs. --by selects a sum for each day, agent,
model, or origin: the sender whose message began a chain of runs, such as user,
cron, or tg:7. The tokens of a fallback count for the fallback, and a model has
no runs. Days begin at midnight, local time; the daemon keeps 31. It estimates
tokens that a provider does not report, at 4 bytes each. The model offline has
no tokens. usage needs no daemon. tokens_per_day and runs_per_minute of [limits]
or of an agent in config.toml limit agents.`,
		Example: `  crabmem usage
  crabmem usage --by agent --days 1
  crabmem usage --by model
  crabmem usage --by origin --days 31 --json`,
	}
	cmd.Flags().StringVar(&in.By, "by", "day", "print a sum for each `group`: day, agent, origin, or model")
	cmd.Flags().IntVar(&in.Days, "days", 7, "count the last `N` days, with today, at most 31")
	completeWords(cmd, "by", op.UsageGroups...)
	return resultCommand(c, cmd, func(ctx context.Context, _ []string) (op.Usage, error) {
		read := func() ([]usage.Record, error) { return usage.Read(c.fs, daemon.UsageFile(c.absHome())) }
		return op.ReadUsage.Do(ctx, op.Local{On: op.Daemon{Parts: &op.Parts{Now: c.now, Usage: read}}}, in)
	}, func(u op.Usage) {
		rows := [][]string{{strings.ToUpper(in.By), "RUNS", "PROMPT", "COMPLETION", "TOKENS"}}
		for _, s := range append(u.Sums, u.Total) {
			runs := fmt.Sprint(s.Runs)
			if in.By == "model" && s.Name != u.Total.Name {
				runs = "" // a run may call several
			}
			rows = append(rows, []string{display.Label(s.Name), runs, fmt.Sprint(s.Prompt), fmt.Sprint(s.Completion), fmt.Sprint(s.Tokens)})
		}
		if len(u.Sums) == 0 {
			c.Say("no runs since %s", u.Since)
			return
		}
		c.Table(c.Out, rows, "1234")
	})
}
