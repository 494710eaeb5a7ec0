package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/cron"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/daemon/tool"
	"crabmem/daemon/wire/pb"
	"crabmem/fuzz/race"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// clockwork is a model that records the time and content of its requests.
type clockwork struct {
	mu     sync.Mutex
	asked  []string
	takes  time.Duration
	writes bool // answers requests for titles and summaries
	err    error
	sent   atomic.Int32 // requests for titles and summaries
}

func (c *clockwork) Send(context.Context, model.Request) (*model.Response, error) {
	c.sent.Add(1)
	if c.writes {
		return &model.Response{Message: sessionlog.Message{Role: record.RoleAssistant, Content: "a text"}, Finish: "stop"}, nil
	}
	return nil, fmt.Errorf("no summaries here")
}

func (c *clockwork) Stream(ctx context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		c.mu.Lock()
		c.asked = append(c.asked, time.Now().UTC().Format("2006-01-02 15:04:05")+" "+asSent(q.Messages[len(q.Messages)-1].Content))
		takes, err := c.takes, c.err
		c.mu.Unlock()
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			err = ctx.Err()
		}
		yield(model.Chunk{Content: "done", Finish: "stop"}, err)
	}
}

func (c *clockwork) heard() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.asked...)
}

var sentSkill = regexp.MustCompile(`(?s)^(.*?)(?:\n\n)?<skill name="([^"]+)">.*`)

// asSent returns /NAME ARGS for a message into which this loaded a skill.
func asSent(content string) string {
	if m := sentSkill.FindStringSubmatch(content); m != nil {
		return strings.TrimSpace("/" + m[2] + " " + m[1])
	}
	return content
}

// writeSkill writes a skill to the home of a bubble.
func writeSkill(t *testing.T, fs vfs.FS, name string) {
	t.Helper()
	dir := "/home/crab/skills/" + name
	err := vfs.MkdirAll(fs, dir, 0o700)
	if err == nil {
		err = vfs.WriteFile(fs, dir+"/SKILL.md", 0o600, []byte("---\nname: "+name+"\ndescription: does it\n---\nDo it.\n"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// bubble returns a daemon in memory whose clock is at midnight of 2000-01-01.
func bubble(t *testing.T, fs vfs.FS) (*Daemon, *clockwork) {
	t.Helper()
	d, err := Open(Options{Home: "/home/crab", FS: fs, Getenv: func(string) string { return "" }, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	m := &clockwork{}
	if err := d.setup().models.AddBackend("clock", 8192, m); err != nil {
		t.Fatal(err)
	}
	if err := d.setup().models.Switch("clock"); err != nil {
		t.Fatal(err)
	}
	return d, m
}

// firing runs the scheduler until end is called.
func (d *Daemon) firingFor(t *testing.T, forth time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() { d.firing.run(ctx); close(done) }()
	time.Sleep(forth)
	synctest.Wait()
	cancel(errStopping)
	<-done
}

// messages returns the history of a loaded session.
func (d *Daemon) messages(t *testing.T, id uint64) (ms []sessionlog.Message) {
	t.Helper()
	err := d.loaded.With(t.Context(), id, func(_ context.Context, _ session.Setup, _ *agent.Agent, s *agent.Session) error {
		ms = s.Messages
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

func mustCreate(t *testing.T, d *Daemon, c cron.Cron) cron.Cron {
	t.Helper()
	writeSkill(t, d.fs, c.Skill)
	if c.SessionFile == "" {
		l, err := d.loaded.Resolve(t.Context(), &session.Request{Agent: "crab", Sender: "user"})
		if err != nil {
			t.Fatal(err)
		}
		c.Session, c.SessionFile = l.ID(), l.StoredID()
	}
	c, err := d.crons.Create(c)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCronFires follows the Design of RFC 0080: an entry sends /SKILL to the
// session at the times of the schedule, except in quiet hours. A one-shot entry
// fires once and is removed. The session's history has the message. The table
// and its sessions survive a restart.
func TestCronFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := bubble(t, fs)
		mustCreate(t, d, cron.Cron{Schedule: "*/30 * * * *", Skill: "feeds", Args: "all of them", QuietStart: "01:00", QuietEnd: "02:00", Timezone: "UTC"})
		mustCreate(t, d, cron.Cron{Schedule: "15 0 * * *", Skill: "greet", Once: true, Timezone: "UTC"})
		d.firingFor(t, 2*time.Hour+time.Minute)
		want := []string{"2000-01-01 00:15:00 /greet", "2000-01-01 00:30:00 /feeds all of them", "2000-01-01 02:00:00 /feeds all of them"}
		if got := m.heard(); strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("it ran %q, want %q", got, want)
		}
		if list := d.crons.List(); len(list) != 1 || list[0].Skill != "feeds" {
			t.Errorf("the table has %v", list)
		}
		l := d.loaded.List()[0]
		if ms := d.messages(t, l.ID()); len(ms) != 6 || asSent(ms[0].Content) != "/greet" {
			t.Errorf("the session has %v", ms)
		}
		id := l.StoredID()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d, m = bubble(t, fs)
		defer d.Close()
		// Session numbers restart: another session has this number.
		if _, err := d.loaded.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "other"}, "", "", tool.Unbounded()); err != nil {
			t.Fatal(err)
		}
		d.firingFor(t, 30*time.Minute)
		if got := m.heard(); len(got) != 1 || got[0] != "2000-01-01 02:30:00 /feeds all of them" {
			t.Errorf("after a restart it ran %q", got)
		}
		if list := d.crons.List(); list[0].Session != 2 || list[0].SessionFile != id {
			t.Errorf("it is bound to %d, %s", list[0].Session, list[0].SessionFile)
		}
	})
}

// TestCronNewSession checks that each run of an entry for new gets a session of its
// own, also after a restart, and that the entry is bound to none.
func TestCronNewSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := bubble(t, fs)
		mustCreate(t, d, cron.Cron{Schedule: "*/30 * * * *", Skill: "feeds", SessionFile: cron.NewSession, Timezone: "UTC"})
		d.firingFor(t, 61*time.Minute)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d, m2 := bubble(t, fs)
		defer d.Close()
		d.firingFor(t, 30*time.Minute)
		if n, n2 := len(m.heard()), len(m2.heard()); n != 2 || n2 != 1 {
			t.Errorf("it ran %d and %d times, want 2 and 1", n, n2)
		}
		list, err := d.sessions.List()
		if err != nil || len(list) != 3 {
			t.Fatalf("%d sessions, want 3: %v", len(list), err)
		}
		for _, i := range list {
			if !strings.HasPrefix(i.ID, "crab_cron_") {
				t.Errorf("session %s", i.ID)
			}
		}
		for _, l := range d.loaded.List() {
			if ms := d.messages(t, l.ID()); len(ms) != 2 || asSent(ms[0].Content) != "/feeds" {
				t.Errorf("%s has %v", l.StoredID(), ms)
			}
		}
		if c := d.crons.List()[0]; c.Session != 0 || c.SessionFile != cron.NewSession {
			t.Errorf("it is bound to %d, %q", c.Session, c.SessionFile)
		}
	})
}

// TestCronOnceSurvivesShutdown checks that a pending one-shot entry survives a shutdown,
// and that one whose run a stop interrupted is removed: it runs at most once.
func TestCronOnceSurvivesShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := bubble(t, faultfs.NewMem())
		defer d.Close()
		m.takes = time.Hour
		mustCreate(t, d, cron.Cron{Schedule: "30 0 * * *", Skill: "cut", Once: true, Timezone: "UTC"})
		mustCreate(t, d, cron.Cron{Schedule: "30 9 * * *", Skill: "pending", Once: true, Timezone: "UTC"})
		d.firingFor(t, 31*time.Minute)
		if list := d.crons.List(); len(m.heard()) != 1 || len(list) != 1 || list[0].Skill != "pending" {
			t.Errorf("it ran %q, the table has %v", m.heard(), list)
		}
	})
}

// TestCronDoesNotOverlap checks that an entry does not fire while its last run
// is active.
func TestCronDoesNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := bubble(t, faultfs.NewMem())
		defer d.Close()
		m.takes = 25 * time.Minute
		mustCreate(t, d, cron.Cron{Schedule: "*/10 * * * *", Skill: "slow", Timeout: "1h", Timezone: "UTC"})
		d.firingFor(t, 61*time.Minute)
		if got := strings.Join(m.heard(), "|"); got != "2000-01-01 00:10:00 /slow|2000-01-01 00:40:00 /slow" {
			t.Errorf("it ran %s", got)
		}
	})
}

// TestCronBreaker: three failures in a row stop an entry, and a reload starts
// it again.
func TestCronBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := bubble(t, faultfs.NewMem())
		defer d.Close()
		m.err = fmt.Errorf("no")
		mustCreate(t, d, cron.Cron{Schedule: "* * * * *", Skill: "bad", Timezone: "UTC"})
		d.firingFor(t, 10*time.Minute+time.Second)
		if n := len(m.heard()); n != 3 {
			t.Errorf("it ran %d times", n)
		}
		d.firing.reset()
		d.firingFor(t, 10*time.Minute)
		if n := len(m.heard()); n != 6 {
			t.Errorf("it ran %d times", n)
		}
	})
}

// TestCronBreakerKept restarts the daemon: failures in a row count on, and a stopped entry
// stays stopped, until its schedule changes.
func TestCronBreakerKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		runs := 0
		start := func(forth time.Duration) {
			d, m := bubble(t, fs)
			m.err = fmt.Errorf("no")
			if len(d.crons.List()) == 0 {
				mustCreate(t, d, cron.Cron{Schedule: "*/10 * * * *", Skill: "bad", Timezone: "UTC"})
			}
			list, err := op.ListCrons.Do(t.Context(), op.Local{On: d.on(&request{ctx: t.Context()})}, op.None{})
			if err != nil || list[0].Failures != min(runs, 3) || list[0].Stopped != (runs >= 3) {
				t.Errorf("after %d runs: %+v, %v", runs, list, err)
			}
			d.firingFor(t, forth)
			runs += len(m.heard())
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			start(11 * time.Minute)
		}
		if runs != 3 {
			t.Errorf("it ran %d times", runs)
		}
		b, err := vfs.ReadFile(fs, "/home/crab/crons.toml", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		fs.WriteFile("/home/crab/crons.toml", []byte(strings.Replace(string(b), "failures = 3\n", "", 1)), 0o600)
		runs = 0
		start(11 * time.Minute)
		if runs != 1 {
			t.Errorf("without the line it ran %d times", runs)
		}
	})
}

// TestCronUnknownSkill checks that a cron for a skill that does not exist, was removed, or
// is not in the session's scope is refused, and that a run of one fails without the model.
func TestCronUnknownSkill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := bubble(t, fs)
		defer d.Close()
		writeSkill(t, fs, "feeds")
		writeSkill(t, fs, "Upper_case")
		l, err := d.loaded.Resolve(t.Context(), &session.Request{Agent: "crab", Sender: "user"})
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range []string{"", l.StoredID()} {
			for name, fix := range map[string]string{"feed": "did you mean feeds? crabmem skills list", "nosuch": "crabmem skills list", "Upper_case": "crabmem skills list"} {
				_, err := op.AddCron.Do(t.Context(), op.Local{On: d.on(&request{ctx: t.Context()})}, op.NewCron{Schedule: "* * * * *", Skill: name, Session: in})
				if e, ok := errors.AsType[*errtable.Error](err); !ok || e.Kind != "unknown_skill" || e.Exit != errtable.ExitNotFound || !strings.HasPrefix(e.Fix, fix) {
					t.Errorf("a cron for %s in %q: %v", name, in, err)
				}
			}
		}
		number := l.ID()
		if e := handle(t, d, &pb.ClientMessage{Msg: &pb.ClientMessage_CreateCron{CreateCron: &pb.CreateCronMsg{Schedule: "* * * * *", Skill: "nosuch", Session: number}}}).GetError(); e == nil || !strings.Contains(e.Message, "nosuch") {
			t.Errorf("a frame of the RFC: %v", e)
		}
		if list := d.crons.List(); len(list) != 0 {
			t.Fatalf("the table has %v", list)
		}
		removed := mustCreate(t, d, cron.Cron{Schedule: "* * * * *", Skill: "feeds", Timezone: "UTC"})
		fresh := mustCreate(t, d, cron.Cron{Schedule: "* * * * *", Skill: "feeds", Timezone: "UTC", SessionFile: cron.NewSession})
		if err := fs.Remove("/home/crab/skills/feeds/SKILL.md"); err != nil {
			t.Fatal(err)
		}
		before := len(d.loaded.List())
		d.firingFor(t, 10*time.Minute)
		for _, id := range []uint64{removed.ID, fresh.ID} {
			c := op.Cron{ID: id}
			if d.firing.state(&c); c.Failures != cron.MaxFailures || !c.Stopped {
				t.Errorf("entry %d failed %d times, stopped %v", id, c.Failures, c.Stopped)
			}
		}
		if got := m.heard(); len(got) != 0 || len(d.loaded.List()) != before {
			t.Errorf("the model received %q, and there are %d sessions, not %d", got, len(d.loaded.List()), before)
		}
	})
}

// TestCronEdited edits the file while an entry runs. The edit starts no second
// run. An error in the file is logged once.
func TestCronEdited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := bubble(t, fs)
		defer d.Close()
		var said strings.Builder
		d.log = slog.New(slog.NewTextHandler(&said, nil))
		m.takes = 24 * time.Minute
		mustCreate(t, d, cron.Cron{Schedule: "*/10 * * * *", Skill: "slow", Timeout: "1h", Timezone: "UTC"})
		go func() {
			time.Sleep(12 * time.Minute)
			b, err := vfs.ReadFile(fs, "/home/crab/crons.toml", 1<<20)
			if err != nil {
				t.Error(err)
			}
			text := strings.Replace(string(b), "*/10", "*/5", 1) + "\n[[cron]]\nid = 7\nschedule = 'never'\nskill = 'bad'\n"
			if err := vfs.Replace(fs, "/home/crab/crons.toml", 0o600, writes(text)); err != nil {
				t.Error(err)
			}
		}()
		d.firingFor(t, 36*time.Minute)
		if got := strings.Join(m.heard(), "|"); got != "2000-01-01 00:10:00 /slow|2000-01-01 00:35:00 /slow" {
			t.Errorf("it ran %s", got)
		}
		if n := strings.Count(said.String(), "crons.toml:"); n != 1 || !strings.Contains(said.String(), "'never'") {
			t.Errorf("the log has %d warnings: %s", n, said.String())
		}
	})
}

// TestCronClockSetBack: a clock that was ahead by days does not keep entries
// from running for as long.
func TestCronClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := bubble(t, faultfs.NewMem())
		defer d.Close()
		var ahead atomic.Int64
		ahead.Store(int64(72 * time.Hour))
		d.now = func() time.Time { return time.Unix(0, time.Now().UnixNano()+ahead.Load()) }
		mustCreate(t, d, cron.Cron{Schedule: "0 * * * *", Skill: "hourly", Timezone: "UTC"})
		go func() {
			time.Sleep(10 * time.Minute)
			ahead.Store(0)
		}()
		d.firingFor(t, 2*time.Hour+time.Minute)
		if got := strings.Join(m.heard(), "|"); got != "2000-01-01 01:00:00 /hourly|2000-01-01 02:00:00 /hourly" {
			t.Errorf("it ran %s", got)
		}
	})
}

// zoneSkill returns the name of a skill for a time zone.
func zoneSkill(zone string) string {
	return strings.ReplaceAll(strings.ToLower(zone[strings.Index(zone, "/")+1:]), "_", "-")
}

// TestCronYear simulates the days around the changes of clocks, of the month, and of the
// year 2000 in three zones, two of which change their clocks.
func TestCronYear(t *testing.T) {
	race.Skip(t)
	for first, days := range map[int]int{
		55:  50, // February 25: a leap day, and the changes of March 26 and April 2
		295: 12, // October 22: both changes of October 29
		363: 5,  // December 29
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Duration(first) * 24 * time.Hour)
			cronDays(t, days)
		})
	}
}

// cronDays compares the runs of some days with a walk over every minute by the clocks on
// the wall.
func cronDays(t *testing.T, days int) {
	zones := []string{"Europe/Berlin", "America/New_York", "Asia/Kolkata"}
	// At 02:30 of the days when clocks are set there is no such time, or two.
	const hour, minute = 2, 30
	d, m := bubble(t, faultfs.NewMem())
	defer d.Close()
	d.mcp.Close() // who looks for components all the time is not the subject
	want := make(map[string]int)
	begin := time.Now()
	for _, zone := range zones {
		mustCreate(t, d, cron.Cron{Schedule: fmt.Sprintf("%d %d * * *", minute, hour), Skill: zoneSkill(zone), Timezone: zone})
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		day, last := "", begin.Add(-time.Minute).In(loc)
		for at := begin.Add(time.Minute); !at.After(begin.AddDate(0, 0, days)); at = at.Add(time.Minute) {
			now := at.In(loc)
			date := now.Format("2006-01-02")
			passed := now.Hour()*60+now.Minute() >= hour*60+minute
			before := last.Hour()*60+last.Minute() < hour*60+minute || last.Format("2006-01-02") != date
			if passed && before && date != day {
				day = date // once on a day that has it twice, and when clocks skip it, then
				want[at.UTC().Format("2006-01-02 15:04:05")+" /"+zoneSkill(zone)]++
			}
			last = now
		}
	}
	d.firingFor(t, time.Duration(days)*24*time.Hour-time.Since(begin)+time.Second)
	got := m.heard()
	for _, line := range got {
		want[line]--
		if want[line] < 0 {
			t.Errorf("it ran at %s", line)
		}
		if want[line] == 0 {
			delete(want, line)
		}
	}
	for line := range want {
		t.Errorf("it did not run at %s", line)
	}
	if len(got) < len(zones)*days {
		t.Errorf("%d runs", len(got))
	}
	t.Logf("cron: %d runs in %d days in %d zones from %s", len(got), days, len(zones), begin.Format(time.DateOnly))
}
