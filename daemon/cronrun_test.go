package daemon

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/cron"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
)

// addCron carries out the row.
func addCron(t *testing.T, d *Daemon, c op.NewCron) (op.Cron, error) {
	t.Helper()
	return op.AddCron.Do(t.Context(), op.Local{On: d.on(&request{ctx: t.Context()})}, c)
}

// TestCronTimeout ends a run after its entry's limit. The time until another run of
// the session ends does not count.
func TestCronTimeout(t *testing.T) {
	for timeout, want := range map[string]time.Duration{"": 10 * time.Minute, "30m": 30 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			d, m := channel(t, faultfs.NewMem(), "[agents.plain]\nprompt = \"x\"\n")
			defer d.Close()
			m.takes = time.Hour
			l, err := d.loaded.Resolve(t.Context(), &session.Request{Agent: "plain", Sender: "user"})
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = d.loaded.Run(t.Context(), &session.Run{Session: l, Content: "hi", Sender: "user"}) }()
			synctest.Wait()
			began := time.Now()
			c, err := d.crons.Create(cron.Cron{Schedule: "@daily", Prompt: "x", Timeout: timeout, SessionFile: l.StoredID()})
			if err != nil {
				t.Fatal(err)
			}
			err = d.runCron(t.Context(), c)
			if got := time.Since(began) - time.Hour; err == nil || !strings.Contains(err.Error(), "took longer than "+want.String()) || got != want {
				t.Errorf("%q: %s, %v", timeout, got, err)
			}
		})
	}
}

// TestCronAgent runs an entry with a prompt in new sessions of an agent.
func TestCronAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := channel(t, faultfs.NewMem(), "[agents.plain]\nprompt = \"x\"\n")
		defer d.Close()
		d.say(t, "user", "hi")
		for _, c := range []struct {
			entry op.NewCron
			want  string
		}{
			{op.NewCron{Schedule: "@hourly", Prompt: "x", Agent: "nosuch"}, "agent 'nosuch' not registered"},
			{op.NewCron{Schedule: "@hourly", Prompt: "x", Agent: "plain", Session: "crab_user_1"}, "the session crab_user_1 is of crab, not of plain"},
			{op.NewCron{Schedule: "@hourly", Prompt: "x", Timeout: "2d"}, "invalid timeout '2d'"},
		} {
			if _, err := addCron(t, d, c.entry); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c.entry, err)
			}
		}
		e, err := addCron(t, d, op.NewCron{Schedule: "@every 60m", Prompt: "/look", Agent: "plain", Timezone: "UTC"})
		if err != nil || e.Agent != "plain" || e.Prompt != "/look" || e.Session != cron.NewSession {
			t.Fatalf("%+v, %v", e, err)
		}
		m.requests()
		d.firingFor(t, 2*time.Hour+time.Minute)
		if got := strings.Join(m.requests(), "|"); got != "/look|/look" {
			t.Error(got)
		}
		list, err := d.sessions.List()
		if err != nil || len(list) != 3 {
			t.Fatalf("%v, %v", list, err)
		}
		for _, i := range list {
			if i.ID != "crab_user_1" && (i.Meta.Agent != "plain" || i.Meta.CreatedBy != "cron") {
				t.Errorf("%+v", i)
			}
		}
	})
}
