package channel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
)

// slowly makes each run take a minute, or end with its context.
func (r *rig) slowly() {
	r.d.reply = func(ctx context.Context, m *op.Message) (string, error) {
		t := time.NewTimer(time.Minute)
		defer t.Stop()
		select {
		case <-t.C:
			return "to " + m.Content, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// TestNew: /new begins a session with the next message, and names it.
func TestNew(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.api.Text(7, "1")
		synctest.Wait()
		r.api.Text(7, " /new\n")
		synctest.Wait()
		r.restart()
		r.api.Text(7, "2")
		synctest.Wait()
		r.api.Text(7, "3")
		r.want("1", "The next message begins a session.", "This is a new session: crab_tg-7_2", "2", "3")
		r.lines("crab_tg-7_1: 1", "crab_tg-7_2: 2", "crab_tg-7_2: 3")
	})
}

// TestOlderSession: the first message continues the sender's latest session, such as one
// of another program.
func TestOlderSession(t *testing.T) {
	bubble(t, func(r *rig) {
		r.d.sessions["tg:7"] = []string{"crab_tg-7_9"}
		r.start()
		r.api.Text(7, "1")
		r.want("1")
		r.lines("crab_tg-7_9: 1")
	})
}

// TestStop: /stop ends the run, drops the messages before it, and answers the ones after it.
func TestStop(t *testing.T) {
	bubble(t, func(r *rig) {
		r.slowly()
		r.start()
		r.api.Text(7, "/stop")
		r.want("No run is active.")
		r.api.Text(7, "1")
		time.Sleep(time.Second)
		r.api.Text(7, "/stop")
		r.want("No run is active.", "Stopped.")
		r.api.Text(7, "2")
		synctest.Wait()
		r.api.Text(7, "3")
		r.api.Text(7, "/stop")
		r.api.Text(7, "4")
		time.Sleep(time.Minute)
		r.want("No run is active.", "Stopped.", "Stopped. The messages that waited are dropped.", "to 4")
		r.lines("crab_tg-7_1: 1", "crab_tg-7_1: 2", "crab_tg-7_1: 4")
	})
}

// TestOvertaken: if other runs followed an interrupted one in its session, the run cannot continue.
// The conversation does.
func TestOvertaken(t *testing.T) {
	bubble(t, func(r *rig) {
		r.d.reply = func(_ context.Context, m *op.Message) (string, error) {
			if m.Content == "1" {
				return "", &client.Error{Code: 409, Kind: "request", Message: "an earlier request has this ID and no answer"}
			}
			return "to " + m.Content, nil
		}
		r.start()
		r.api.Text(7, "1")
		time.Sleep(time.Minute)
		r.api.Text(7, "2")
		time.Sleep(time.Minute)
		r.want("Error: the run was interrupted, and others followed. Send the message again.", "to 2")
	})
}

// TestStopAll: /stop all also cancels the work of the session, and only that. A daemon that does
// not answer delays it.
func TestStopAll(t *testing.T) {
	bubble(t, func(r *rig) {
		r.slowly()
		r.start()
		r.d.setWork(false, role.View{Session: "crab_tg-7_1", ID: "w7"}, role.View{Session: "crab_tg-8_1", ID: "w1"})
		r.api.Text(7, "1")
		synctest.Wait()
		r.api.Text(7, "/stop  all")
		time.Sleep(time.Second)
		canceled := "Stopped. The open work of the session is canceled."
		r.want(canceled)
		r.api.Text(7, "/stop")
		r.want(canceled, "No run is active.")
		r.restart()
		r.d.cancelError = &op.Error{Code: 503, Kind: "no_daemon", Message: "busy"}
		r.api.Text(8, "x")
		time.Sleep(2 * time.Minute)
		r.api.Text(8, "/stop all")
		time.Sleep(time.Second)
		r.want(canceled, "No run is active.", "to x")
		r.d.cancelError = &op.Error{Code: 409, Kind: "conflict", Message: "w1 is done"}
		r.restart()
		time.Sleep(time.Minute)
		r.want(canceled, "No run is active.", "to x", "No run is active. The open work of the session is canceled.")
		if got := strings.Join(slices.Compact(r.d.canceled), "|"); got != "crab_tg-7_1 w7|crab_tg-8_1 w1" {
			t.Errorf("canceled %q", got)
		}
	})
}

// TestStopAfterRestart: a run that was stopped is not repeated after a restart, and the
// session that it would have begun begins with the next message.
func TestStopAfterRestart(t *testing.T) {
	bubble(t, func(r *rig) {
		r.slowly()
		r.api.Text(7, "/new")
		r.start()
		r.api.Text(7, "1")
		synctest.Wait()
		r.api.Text(7, "2")
		synctest.Wait()
		r.m.SetHook(func(c faultfs.Call) error {
			if c.Op != "write" {
				return nil
			}
			if w := files(r.m)[0].Waiting; len(w) > 0 && w[len(w)-1].Content == "/stop" {
				return syscall.EIO // the last change before the crash added it
			}
			return nil
		})
		r.api.Text(7, "/stop")
		synctest.Wait()
		r.restart()
		r.m.SetHook(nil)
		r.want("The next message begins a session.", "Stopped. The messages that waited are dropped.")
		r.api.Text(7, "3")
		time.Sleep(time.Minute)
		r.lines("crab_tg-7_1: 1", "crab_tg-7_2: 3")
	})
}

// TestHelp: /help and the command that opens a conversation print the commands, and other
// words after a slash are for the daemon.
func TestHelp(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		for _, text := range []string{"/help", "/start"} {
			r.api.Text(7, text)
			if got := r.sent(); len(got) == 0 || got[len(got)-1][:5] != "/new " {
				t.Errorf("%s: %q", text, got)
			}
		}
		r.api.Text(7, "/helper x")
		r.lines()
		synctest.Wait()
		r.lines("crab_tg-7_1: /helper x")
	})
}

// topic adds a user's text in a topic of a private chat.
func (r *rig) topic(user, topic int64, text string) {
	m := privateMessage(user)
	m["is_topic_message"], m["message_thread_id"], m["text"] = true, topic, text
	r.api.Message(m)
}

// TestTopic: a topic is a separate conversation of the same identity.
func TestTopic(t *testing.T) {
	bubble(t, func(r *rig) {
		r.ignores = true // stored looks for the conversation without a topic
		r.start()
		r.api.Text(7, "1")
		synctest.Wait()
		r.topic(7, 42, "2")
		r.want("1", "This is a new session: crab_tg-7_2", "2")
		if sent := r.api.Sent(); sent[2].Topic != 42 || sent[0].Topic != 0 {
			t.Errorf("topics: %+v", sent)
		}
		r.lines("crab_tg-7_1: 1", "crab_tg-7_2: 2")
	})
}

// TestBoundary: a session ends at its boundary, also over a restart, unless it has a question
// or a run.
func TestBoundary(t *testing.T) {
	bubble(t, func(r *rig) {
		r.session = "idle 8h"
		r.start()
		for i, wait := range []time.Duration{0, 7 * time.Hour, 8 * time.Hour, 8 * time.Hour} {
			time.Sleep(wait)
			if i == 3 {
				r.d.loaded = []op.Session{{SessionFile: op.SessionFile{ID: "crab_tg-7_2"}, Asking: true}}
			}
			r.restart()
			r.api.Text(7, fmt.Sprint(i))
			synctest.Wait()
		}
		r.lines("crab_tg-7_1: 0", "crab_tg-7_1: 1", "crab_tg-7_2: 2", "crab_tg-7_2: 3")
		r.want("0", "1", "This is a new session: crab_tg-7_2", "2", "3")
	})
}
