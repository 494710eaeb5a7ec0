package daemon

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/session"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog/record"
)

// handle has the daemon answer a request, without a connection.
func handle(t *testing.T, d *Daemon, m *pb.ClientMessage) *pb.ServerMessage {
	t.Helper()
	var last *pb.ServerMessage
	d.Handle(t.Context(), m, func(m *pb.ServerMessage) error {
		last = m
		return nil
	})
	return last
}

// TestRFC0080 is the Design of RFC 0080, a sentence a test. Crons.toml by hand,
// every schedule that is refused, and crashes while it is written are tested
// with package cron; the changes of clocks in TestCronYear.
func TestRFC0080(t *testing.T) {
	create := func(m *pb.CreateCronMsg) *pb.ClientMessage {
		return &pb.ClientMessage{Msg: &pb.ClientMessage_CreateCron{CreateCron: m}}
	}
	list := &pb.ClientMessage{Msg: &pb.ClientMessage_ListCrons{ListCrons: &pb.ListCronsMsg{}}}
	remove := func(id uint64) *pb.ClientMessage {
		return &pb.ClientMessage{Msg: &pb.ClientMessage_DeleteCron{DeleteCron: &pb.DeleteCronMsg{Id: id}}}
	}
	text := func(s string) *string { return &s }
	// in runs a test with a daemon with a fake clock, a session, and the file
	// system of both.
	in := func(sentence string, f func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem)) {
		t.Run(strings.ReplaceAll(sentence, "/", "|"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := faultfs.NewMem()
				d, m := bubble(t, fs)
				defer d.Close()
				for _, name := range []string{"a", "b", "check-feeds", "good", "kept", "only-once", "removed"} {
					writeSkill(t, fs, name)
				}
				l, err := d.loaded.Resolve(t.Context(), &session.Request{Agent: "crab", Sender: "user"})
				if err != nil {
					t.Fatal(err)
				}
				f(t, d, m, l.ID(), fs)
			})
		})
	}
	file := func(t *testing.T, fs vfs.FS) string {
		t.Helper()
		b, err := vfs.ReadFile(fs, "/home/crab/crons.toml", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}

	in("A cron entry triggers a skill into a session on a schedule.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		if i := handle(t, d, create(&pb.CreateCronMsg{Schedule: "0 */2 * * *", Skill: "check-feeds", Session: session})).GetCronInfo(); i == nil {
			t.Fatal("it was not created")
		}
		d.firingFor(t, 4*time.Hour+time.Minute)
		if got := strings.Join(m.heard(), "|"); got != "2000-01-01 02:00:00 /check-feeds|2000-01-01 04:00:00 /check-feeds" {
			t.Errorf("it ran %s", got)
		}
	})
	in("id: auto-incremented on create.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		for want := uint64(1); want <= 3; want++ {
			if i := handle(t, d, create(&pb.CreateCronMsg{Schedule: "0 9 * * *", Skill: "a", Session: session})).GetCronInfo(); i.GetId() != want {
				t.Errorf("id %d, want %d", i.GetId(), want)
			}
		}
	})
	in("schedule: standard cron expression, validated on create and load.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		if e := handle(t, d, create(&pb.CreateCronMsg{Schedule: "61 * * * *", Skill: "a", Session: session})).GetError(); e.GetCode() != 400 || !strings.HasPrefix(e.Message, "invalid cron schedule '61 * * * *'") {
			t.Errorf("answered %v", e)
		}
		if handle(t, d, list).GetCronList().GetCrons() != nil {
			t.Error("it is in the table")
		}
	})
	in("skill: fired as /{skill} slash command into the session.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		handle(t, d, create(&pb.CreateCronMsg{Schedule: "1 0 * * *", Skill: "check-feeds", Session: session}))
		d.firingFor(t, 2*time.Minute)
		if ms := d.messages(t, session); len(ms) != 2 || asSent(ms[0].Content) != "/check-feeds" {
			t.Errorf("the session has %v", ms)
		}
	})
	in("session: target session ID. The session determines the agent.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		if e := handle(t, d, create(&pb.CreateCronMsg{Schedule: "0 9 * * *", Skill: "a", Session: 99})).GetError(); e.GetCode() != 500 || e.Message != "session 99 not found" {
			t.Errorf("answered %v", e)
		}
		handle(t, d, create(&pb.CreateCronMsg{Schedule: "1 0 * * *", Skill: "a", Session: session}))
		d.firingFor(t, 2*time.Minute)
		if l := d.loaded.List(); len(l) != 1 || l[0].Agent() != "crab" || l[0].Messages() != 2 {
			t.Errorf("it ran elsewhere: %v", l)
		}
	})
	in("quiet_start/quiet_end: optional HH:MM window in the daemon's local time. If fire time falls inside, skip silently.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		handle(t, d, create(&pb.CreateCronMsg{Schedule: "0 * * * *", Skill: "a", Session: session, QuietStart: text("23:00"), QuietEnd: text("07:00")}))
		d.firingFor(t, 24*time.Hour-time.Minute)
		if got := m.heard(); len(got) != 16 || got[0] != "2000-01-01 07:00:00 /a" || got[15] != "2000-01-01 22:00:00 /a" {
			t.Errorf("it ran %q", got)
		}
	})
	in("No queuing, no catch-up.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		handle(t, d, create(&pb.CreateCronMsg{Schedule: "30 6 * * *", Skill: "a", Session: session, QuietStart: text("23:00"), QuietEnd: text("07:00")}))
		d.firingFor(t, 48*time.Hour)
		if got := m.heard(); len(got) != 0 {
			t.Errorf("it ran %q", got)
		}
	})
	in("Both must be set; if only one is provided, quiet hours are ignored.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		for _, c := range []*pb.CreateCronMsg{
			{Schedule: "5 0 * * *", Skill: "a", Session: session, QuietStart: text("00:00")},
			{Schedule: "6 0 * * *", Skill: "b", Session: session, QuietEnd: text("12:00")},
		} {
			if r := handle(t, d, create(c)); r.GetCronInfo() == nil {
				t.Errorf("answered %v", r)
			}
		}
		d.firingFor(t, 10*time.Minute)
		if got := m.heard(); len(got) != 2 {
			t.Errorf("it ran %q", got)
		}
	})
	in("once: fire once then delete from memory and disk.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		handle(t, d, create(&pb.CreateCronMsg{Schedule: "1 0 * * *", Skill: "only-once", Session: session, Once: true}))
		if !strings.Contains(file(t, fs), "only-once") {
			t.Error("it was not written")
		}
		d.firingFor(t, 48*time.Hour)
		if len(m.heard()) != 1 || len(d.crons.List()) != 0 || strings.Contains(file(t, fs), "only-once") {
			t.Errorf("it ran %q; the table has %v, the file %s", m.heard(), d.crons.List(), file(t, fs))
		}
	})
	in("Memory is authoritative at runtime. Disk (crons.toml) is recovery for restarts.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		handle(t, d, create(&pb.CreateCronMsg{Schedule: "1 0 * * *", Skill: "a", Session: session}))
		if err := fs.Remove("/home/crab/crons.toml"); err != nil {
			t.Fatal(err)
		}
		d.firingFor(t, 90*time.Second)
		if len(m.heard()) != 1 {
			t.Errorf("it ran %q", m.heard())
		}
	})
	in("Startup: load from disk, start timers. Daemon restart: reload from disk.", func(t *testing.T, d *Daemon, _ *clockwork, session uint64, fs *faultfs.Mem) {
		handle(t, d, create(&pb.CreateCronMsg{Schedule: "1 0 * * *", Skill: "a", Session: session}))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		next, model := bubble(t, fs)
		defer next.Close()
		next.firingFor(t, 2*time.Minute)
		if got := model.heard(); len(got) != 1 {
			t.Errorf("it ran %q", got)
		}
	})
	in("Invalid schedules are skipped with a warning.", func(t *testing.T, d *Daemon, _ *clockwork, session uint64, fs *faultfs.Mem) {
		handle(t, d, create(&pb.CreateCronMsg{Schedule: "1 0 * * *", Skill: "good", Session: session}))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		bad := file(t, fs) + "\n[[cron]]\nid = 9\nschedule = \"never\"\nskill = \"bad\"\nsession = 1\nonce = false\n"
		if err := vfs.Replace(fs, "/home/crab/crons.toml", 0o600, writes(bad)); err != nil {
			t.Fatal(err)
		}
		next, model := bubble(t, fs)
		defer next.Close()
		next.firingFor(t, 2*time.Minute)
		if w := next.crons.Warnings(); len(w) != 1 || !strings.Contains(w[0].Message, "'never'") || len(model.heard()) != 1 {
			t.Errorf("warned %v, ran %q", w, model.heard())
		}
		if !strings.Contains(file(t, fs), "never") {
			t.Error("the skipped entry is lost")
		}
	})
	in("Create/Delete: mutate memory, start/stop timer, atomic write to disk.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		keep := handle(t, d, create(&pb.CreateCronMsg{Schedule: "1 0 * * *", Skill: "kept", Session: session})).GetCronInfo()
		gone := handle(t, d, create(&pb.CreateCronMsg{Schedule: "1 0 * * *", Skill: "removed", Session: session})).GetCronInfo()
		if r := handle(t, d, remove(gone.GetId())); r.GetPong() == nil {
			t.Errorf("answered %v", r)
		}
		if text := file(t, fs); !strings.Contains(text, "kept") || strings.Contains(text, "removed") {
			t.Errorf("the file has %s", text)
		}
		d.firingFor(t, 2*time.Minute)
		if got := strings.Join(m.heard(), "|"); got != "2000-01-01 00:01:00 /kept" || keep.GetId() != 1 {
			t.Errorf("it ran %s", got)
		}
	})
	in("Runtime reload: crons stay in memory, they survive runtime swaps.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		handle(t, d, create(&pb.CreateCronMsg{Schedule: "1 0 * * *", Skill: "a", Session: session}))
		if r := handle(t, d, &pb.ClientMessage{Msg: &pb.ClientMessage_Reload{Reload: &pb.ReloadMsg{}}}); r.GetPong() == nil {
			t.Fatal(r)
		}
		if n := len(handle(t, d, list).GetCronList().GetCrons()); n != 1 {
			t.Errorf("%d entries", n)
		}
		d.firingFor(t, 2*time.Minute)
		if ms := d.messages(t, session); len(ms) != 2 {
			t.Errorf("the session has %d messages", len(ms))
		}
	})
	in("The cron sends content /{skill} and sender cron; output goes to session history only.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		handle(t, d, create(&pb.CreateCronMsg{Schedule: "1 0 * * *", Skill: "a", Session: session}))
		d.firingFor(t, 2*time.Minute)
		if ms := d.messages(t, session); len(ms) != 2 || ms[0].Sender != "cron" || ms[1].Role != record.RoleAssistant || ms[1].Content != "done" {
			t.Errorf("the session has %+v", ms)
		}
	})
	in("DeleteCron { id }: success/not found. ListCrons: CronList.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		if e := handle(t, d, remove(5)).GetError(); e.GetCode() != 404 || e.Message != "cron 5 not found" {
			t.Errorf("answered %v", e)
		}
		handle(t, d, create(&pb.CreateCronMsg{Schedule: "1 0 * * *", Skill: "a", Session: session, QuietStart: text("23:00"), QuietEnd: text("07:00"), Once: true}))
		c := handle(t, d, list).GetCronList().GetCrons()
		if len(c) != 1 || c[0].Id != 1 || c[0].Schedule != "1 0 * * *" || c[0].Skill != "a" || c[0].Session != session || c[0].QuietStart != "23:00" || c[0].QuietEnd != "07:00" || !c[0].Once {
			t.Errorf("the list is %v", c)
		}
	})
	in("Crons are process-lifetime, not session-lifetime.", func(t *testing.T, d *Daemon, m *clockwork, session uint64, fs *faultfs.Mem) {
		handle(t, d, create(&pb.CreateCronMsg{Schedule: "1 0 * * *", Skill: "a", Session: session}))
		if r := handle(t, d, &pb.ClientMessage{Msg: &pb.ClientMessage_Kill{Kill: &pb.KillMsg{Session: session}}}); r.GetPong() == nil {
			t.Fatal(r)
		}
		if len(d.crons.List()) != 1 {
			t.Error("it went with its session")
		}
		d.firingFor(t, 2*time.Minute)
		if got := m.heard(); len(got) != 1 { // the session is opened again
			t.Errorf("it ran %q", got)
		}
	})
}

func writes(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}
