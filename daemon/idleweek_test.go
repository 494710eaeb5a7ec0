package daemon

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/cron"
)

// TestIdleWeek checks that an idle daemon with a channel makes no model call in a
// week. As a control, a cron entry for each minute makes one call a minute, in the time that
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
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.NewMem()
			for _, dir := range []string{"/home/crab"} {
				if err := vfs.MkdirAll(fs, dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := vfs.WriteFile(fs, "/home/crab/config.toml", 0o600, []byte("[system.crab]\nrole = \"channel\"\n")); err != nil {
				t.Fatal(err)
			}
			d, m := bubble(t, fs)
			defer d.Close()
			d.mcp.Close()
			if a := d.setup().config.Agents; len(a) == 0 || a[0].Role != "channel" {
				t.Fatalf("agents %+v", a)
			}
			if err := d.roles.Start(); err != nil {
				t.Fatal(err)
			}
			for range crons {
				mustCreate(t, d, cron.Cron{Schedule: "* * * * *", Skill: "tick", SessionFile: cron.NewSession, Timezone: "UTC"})
			}
			d.firingFor(t, last)
			if n := len(m.heard()); n != crons*int(last/time.Minute) {
				t.Errorf("%d crons made %d calls in %v", crons, n, last)
			}
		})
	}
}
