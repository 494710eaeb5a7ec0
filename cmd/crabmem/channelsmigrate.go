package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/channel/telegram"

	"github.com/spf13/cobra"
)

// movedGroup is the output of channels migrate.
type movedGroup struct {
	From    int64    `json:"from"`
	To      int64    `json:"to"`
	Origins []string `json:"origins"` // tables of config.toml with the new ID
}

func channelsMigrate(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "migrate OLD NEW",
		Short: "move the settings of a group to its new ID",
		Long: `Replace the ID of a group in [[groups]] and [[routes]] of config/telegram.toml,
and in the tables [origins] of config.toml. Telegram gives a group another ID if
it becomes a supergroup; the log of crabmem telegram has both. Start crabmem
telegram again afterwards. The group begins a session. Without such a group,
migrate exits with 3.`,
		Example: `  crabmem channels migrate -- -4012 -1001234567890 || echo no group`,
		Args:    exactly(2, "OLD and NEW"),
	}, func(ctx context.Context, args []string) (m movedGroup, err error) {
		var ids [2]int64
		for i, text := range args {
			if ids[i], err = strconv.ParseInt(text, 10, 64); err != nil || ids[i] >= 0 {
				return m, cli.Usagef("%q: want the ID of a group, after --, as -1001234567890", text)
			}
		}
		return c.moveGroup(ctx, ids[0], ids[1])
	}, func(m movedGroup) {
		c.Say("moved the group %d to %d; start crabmem telegram again", m.From, m.To)
		for _, id := range m.Origins {
			c.Say("moved the table of %s", id)
		}
	})
}

// moveGroup moves a group's settings. A repeated call completes one that failed.
func (c *app) moveGroup(ctx context.Context, from, to int64) (m movedGroup, err error) {
	m = movedGroup{From: from, To: to, Origins: []string{}}
	if _, err := c.channelUsers(); err != nil { // an invalid file does not change
		return m, err
	}
	moved, home := false, c.absHome()
	err = c.lockConfig(home, func() error {
		moved, err = telegram.MoveGroup(c.fs, home, from, to)
		return err
	})
	if err != nil {
		return m, err
	}
	conf, err := c.loadStructure()
	if err != nil {
		return m, err
	}
	old, next := telegram.GroupIdentities(from), telegram.GroupIdentities(to)
	for _, r := range conf.Origins {
		for i := range old {
			rest, ok := strings.CutPrefix(r.Prefix, old[i])
			if !ok || rest != "" && rest[0] != '/' {
				continue
			}
			if err := c.moveOrigin(ctx, &r, next[i]+rest); err != nil {
				return m, err
			}
			m.Origins = append(m.Origins, next[i]+rest)
		}
	}
	if !moved && len(m.Origins) == 0 {
		return m, &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Message: fmt.Sprintf("no group %d", from), Remedy: "see [[groups]] in " + telegram.File}
	}
	return m, nil
}
