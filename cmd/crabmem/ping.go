package main

import (
	"time"

	"crabmem/daemon/client"

	"github.com/spf13/cobra"
)

// pingAnswer is ping --json.
type pingAnswer struct {
	Micros  int64  `json:"microseconds"` // there and back
	Pid     int    `json:"pid"`
	Version string `json:"version"`
}

func pingCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ping",
		GroupID: groupAgents,
		Short:   "measure the response time of the daemon",
		Long: `Send a request to the daemon, and print how long the response took. Without a
daemon the exit code is 8.`,
		Example: `  crabmem ping
  crabmem ping --json`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.withDaemon(cmd.Context(), func(d *client.Client) error {
			h, err := d.Hello(cmd.Context()) // connects
			if err != nil {
				return err
			}
			start := time.Now()
			if err := d.Ping(cmd.Context()); err != nil {
				return err
			}
			took := time.Since(start)
			if c.JSON {
				return c.PrintJSON(pingAnswer{took.Microseconds(), h.PID, h.Version})
			}
			c.Say("pong from pid %d in %v", h.PID, took.Round(time.Microsecond))
			return nil
		})
	}
	return cmd
}
