package main

import (
	"context"
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
	return resultCommand(c, &cobra.Command{
		Use:     "ping",
		GroupID: groupAgents,
		Short:   "measure the response time of the daemon",
		Long: `Send a request to the daemon, and print how long the response took. Without a
daemon the exit code is 8.`,
		Example: `  crabmem ping
  crabmem ping --json`,
	}, func(ctx context.Context, _ []string) (a pingAnswer, err error) {
		err = c.withDaemon(ctx, func(d *client.Client) error {
			h, err := d.Hello(ctx) // connects
			if err != nil {
				return err
			}
			start := time.Now()
			err = d.Ping(ctx)
			a = pingAnswer{time.Since(start).Microseconds(), h.PID, h.Version}
			return err
		})
		return a, err
	}, func(a pingAnswer) {
		c.Say("pong from pid %d in %v", a.Pid, time.Duration(a.Micros)*time.Microsecond)
	})
}
