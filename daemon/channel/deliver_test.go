package channel_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/box"
	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/fuzz/race"
)

// deliver adds a text as the daemon does. It may be repeated.
func deliver(m *faultfs.Mem, conversation, key, text string) error {
	d := box.Delivery{Source: "cron/5", Key: key}
	return box.Change(m, home, conversation, time.Now, func(f *box.File) bool {
		if old := f.Delivery(d.Source); old == nil || old.Key != key {
			f.Owe(d)
		}
		f.Deliver(&d, box.Cron, text)
		return true
	})
}

// delivery returns the state of the newest delivery.
func delivery(m *faultfs.Mem) (state string) {
	box.Each(m, home, time.Now, func(f *box.File) {
		if d := f.Delivery("cron/5"); d != nil {
			state = strings.TrimSpace(string(d.State) + " " + d.Reason)
		}
	})
	return state
}

// TestDeliver sends texts that the daemon adds, once, in parts, also to a person who has sent no
// message. The state of the delivery is that of its parts.
func TestDeliver(t *testing.T) {
	for fault, want := range map[telegramtest.Fault]struct{ texts, state string }{
		"":                        {"news", "sent"},
		telegramtest.NoConnection: {"news", "sent"},
		telegramtest.CutAfter:     {"news|" + missing, "unknown the platform did not confirm it"},
		telegramtest.Blocked:      {"", "failed the platform refused it, or the conversation accepts no texts"},
	} {
		bubble(t, func(r *rig) {
			r.start()
			if fault != "" {
				r.api.Queue("sendMessage", fault)
			}
			for range 2 {
				if err := deliver(r.m, "tg:7", "c5.1", "news"); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
			if got := strings.Join(r.sent(), "|"); got != want.texts {
				t.Errorf("%q: sent %q before the restart", fault, got)
			}
			r.restart()
			if err := deliver(r.m, "tg:7", "c5.1", "news"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if got := strings.Join(r.sent(), "|"); got != want.texts || delivery(r.m) != want.state {
				t.Errorf("%q: sent %q, state %q", fault, got, delivery(r.m))
			}
		})
	}
	bubble(t, func(r *rig) { // while the channel does not run
		if err := deliver(r.m, "tg:7/12", "c5.1", strings.Repeat("word ", 1000)); err != nil {
			t.Fatal(err)
		}
		r.start()
		time.Sleep(time.Minute)
		if got := r.sent(); len(got) != 2 || len(got[0])+len(got[1]) < 4900 || delivery(r.m) != "sent" {
			t.Errorf("%d texts, state %q", len(got), delivery(r.m))
		}
	})
}

// TestDeliverCrashes stops daemon and channel before each call of the file system that follows a
// text. The text is sent once, or its delivery is unknown or failed.
func TestDeliverCrashes(t *testing.T) {
	race.Skip(t)
	for _, mistake := range []control{noMistake, sendsFirst, forgets} {
		found, points := []string(nil), 0
		for _, kill := range []bool{false, true} {
			for call, hit := 1, true; hit; call++ {
				var bad string
				if bad, hit = deliverCrash(t, call, kill, mistake); bad != "" {
					found = append(found, fmt.Sprintf("call %d, kill %v: %s", call, kill, bad))
				}
				points++
			}
		}
		if mistake == noMistake && len(found) > 0 || mistake != noMistake && found == nil || points < 20 {
			t.Errorf("%q: %d crashes: %s", mistake, points, strings.Join(found, "\n"))
		}
	}
}

func deliverCrash(t *testing.T, call int, kill bool, mistake control) (bad string, hit bool) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		disk, calls := r.m, 0
		var mu sync.Mutex
		r.m.SetHook(func(c faultfs.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if !hit && !slices.Contains([]string{"create", "write", "sync", "rename", "remove", "syncdir", "mkdir"}, c.Op) || c.Op == "unlock" {
				return nil
			}
			switch calls++; {
			case calls < call:
				return nil
			case calls == call && kill:
				disk = r.m.Kill()
			case calls == call:
				disk = r.m.Crash()
			}
			hit = true
			return syscall.EIO
		})
		_ = deliver(r.m, "tg:7", "c5.1", "news")
		time.Sleep(3 * time.Second)
		if err := r.stop(); err != nil && !hit {
			t.Errorf("channel: %v", err)
		}
		synctest.Wait()
		r.m.SetHook(nil)
		r.m = disk
		spoil(t, r.m, mistake)
		r.start()
		if err := deliver(r.m, "tg:7", "c5.1", "news"); err != nil { // the daemon repeats what is owed
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if err := r.stop(); err != nil {
			t.Errorf("channel after a crash: %v", err)
		}
		n := 0
		for _, text := range r.sent() {
			if text == "news" {
				n++
			}
		}
		if state := delivery(r.m); n > 1 || n == 0 && !strings.HasPrefix(state, "unknown") || n == 1 && state != "sent" && !strings.HasPrefix(state, "unknown") {
			bad = fmt.Sprintf("sent %d times, state %q", n, state)
		}
	})
	return bad, hit
}
