package daemon

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/cron"
)

// everythingOn is a configuration with all that could call a model without a message.
const everythingOn = `[system.crab]
role = "channel"
inject = "context"
flush = true
compact_threshold = 2000
[agents.cortex]
role = "cortex"
inject = "recall"
[agents.reviewer]
compact_threshold = 2000
flush = true
[sessions]
titles = "model"
[recall]
importance_weight = 0.2
[cortex]
synthesis = "10m"
`

// TestIdleWeek checks that an idle daemon with everything on, a conversation, and notes makes
// no model call in a week. As a control, a cron entry for each minute makes one call a minute, in the time that
// CRABMEM_IDLE sets.
func TestIdleWeek(t *testing.T) {
	control := 3 * time.Hour
	if text := os.Getenv("CRABMEM_IDLE"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		control = d
	}
	for crons, last := range []time.Duration{7 * 24 * time.Hour, control} {
		conf := []string{everythingOn, "[system.crab]\nrole = \"channel\"\n[sessions]\ntitles = \"off\"\n"}[crons]
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.NewMem()
			for _, dir := range []string{"/home/crab"} {
				if err := vfs.MkdirAll(fs, dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := vfs.WriteFile(fs, "/home/crab/config.toml", 0o600, []byte(conf)); err != nil {
				t.Fatal(err)
			}
			d, m := bubble(t, fs)
			m.writes = true
			defer d.Close()
			d.mcp.Close()
			if a := d.setup().config.Agents; len(a) == 0 || crons == 0 && (a[0].Role != "cortex" || a[1].Role != "channel" || !a[1].Flush) {
				t.Fatalf("agents %v", a)
			}
			if err := d.roles.Start(); err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"hello", strings.Repeat("long ", 200)} {
				d.say(t, "user", text)
			}
			if err := d.store.Apply(crmem.Add{Name: "tea", Content: "green"}, crmem.Add{Name: "tea time", Content: "green"}); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { d.bulletins(ctx); close(done) }()
			defer func() { cancel(); <-done }()
			time.Sleep(time.Hour) // a title, a summary, a bulletin
			before := m.calls()
			if before < 3-crons {
				t.Fatalf("%d calls for two messages", before)
			}
			for range crons {
				mustCreate(t, d, cron.Cron{Schedule: "* * * * *", Skill: "tick", SessionFile: cron.NewSession, Timezone: "UTC"})
			}
			d.firingFor(t, last)
			if n := m.calls() - before; n != crons*int(last/time.Minute) {
				t.Errorf("%d crons made %d calls in %v", crons, n, last)
			}
		})
	}
}

// calls returns the number of all model calls.
func (c *clockwork) calls() int { return len(c.heard()) + int(c.sent.Load()) }
