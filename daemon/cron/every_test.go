package cron_test

import (
	"strings"
	"testing"
	"time"

	"crabmem/daemon/cron"
)

// TestEvery checks that @every is due at the multiples of its duration, whatever the zone
// and the restarts, and not in the quiet hours.
func TestEvery(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC) // clocks are set forward
	for range 20 {
		next, err := cron.Next("@every 90m", at, berlin)
		if err != nil || !next.After(at) || next.Sub(at) > 90*time.Minute || next.Unix()%5400 != 0 || next.Location() != berlin {
			t.Fatalf("after %s: %s, %v", at, next, err)
		}
		if again, _ := cron.Next("@every 90m", next.Add(-time.Second), time.UTC); !again.Equal(next) {
			t.Errorf("%s and %s", again, next)
		}
		at = next
	}
	c := cron.Cron{Schedule: "@every 90m", QuietStart: "22:00", QuietEnd: "07:00", Timezone: "UTC"}
	if next, err := c.Next(time.Date(2026, 1, 1, 21, 30, 0, 0, time.UTC)); err != nil || next.Format("15:04") != "07:30" {
		t.Errorf("%s, %v", next, err)
	}
	for _, bad := range []string{"@every", "@every ", "@every 5", "@every 59s", "@every -1h", "@every 8785h", "@every 1m0.5s", "@every 1h x"} {
		m := newHome(t, "")
		if _, err := open(t, m).Create(cron.Cron{Schedule: bad, Skill: "a"}); err == nil || !strings.Contains(err.Error(), "@every") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestPrompt checks the keys of entries with a prompt, in the file and from clients.
func TestPrompt(t *testing.T) {
	m := newHome(t, "")
	table := open(t, m)
	want := cron.Cron{Schedule: "@every 1h", Prompt: "look\n\"twice\"", SessionFile: cron.NewSession, Agent: "helper", Timeout: "30m", Sender: "cron-tg:7", Scope: `{"tools":{"all":true}}`}
	got, err := table.Create(want)
	if want.ID = 1; err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
	if list := open(t, m.Crash()).List(); len(list) != 1 || list[0] != want || list[0].Limit() != 30*time.Minute || list[0].Message() != want.Prompt {
		t.Errorf("%+v", list)
	}
	if c := (&cron.Cron{Skill: "a", Args: "b"}); c.Message() != "/a b" || c.Limit() != 10*time.Minute {
		t.Errorf("%q, %s", c.Message(), c.Limit())
	}
	for text, want := range map[string]string{
		"prompt = 'a'\nskill = 'b'": "prompt excludes skill and args", "prompt = 'a'\nargs = 'b'": "prompt excludes skill and args", "agent = 'a'": "no skill and no prompt",
		"skill = 'a'\ntimeout = '0s'": "invalid timeout", "skill = 'a'\ntimeout = '25h'": "invalid timeout", "skill = 'a'\ntimeout = 'x'": "invalid timeout",
		"skill = 'a'\nwhen = 'x'": "unknown key 'when'",
	} {
		w := open(t, newHome(t, "[[cron]]\nid = 1\nschedule = '@daily'\n"+text+"\n")).Warnings()
		if len(w) != 1 || !strings.Contains(w[0].Message, want) {
			t.Errorf("%s: %v", text, w)
		}
	}
	_, err = table.Create(cron.Cron{Schedule: "@daily", Prompt: strings.Repeat("\x01", 16<<10), Scope: strings.Repeat("\x02", 16<<10)})
	if err == nil || !strings.Contains(err.Error(), "the entry has") {
		t.Errorf("an entry that could not be read: %v", err)
	}
}
