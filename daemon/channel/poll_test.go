package channel_test

import (
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/errtable"
	"crabmem/fuzz/race"
)

// TestPollFaults: the channel polls again after each fault that may pass, and no message is
// lost or answered twice.
func TestPollFaults(t *testing.T) {
	for _, fault := range []telegramtest.Fault{telegramtest.NoConnection, telegramtest.CutBefore, telegramtest.CutAfter, telegramtest.BadGateway,
		telegramtest.ServerError, telegramtest.Flood, telegramtest.FloodNoTime, telegramtest.OtherPoll, telegramtest.BadRequest} {
		t.Run(string(fault), func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.api.Queue("getUpdates", fault, fault, "", fault)
				r.start()
				r.api.Text(7, "hello")
				time.Sleep(time.Hour)
				r.want("HELLO")
				r.lines("crab_tg-7_1: hello")
				if n := r.api.Unconfirmed(); n != 0 {
					t.Errorf("%d updates are not confirmed", n)
				}
			})
		})
	}
}

// TestOwnerActs: the channel ends if only the owner can correct the cause, with an exit code
// and a fix.
func TestOwnerActs(t *testing.T) {
	for fault, want := range map[telegramtest.Fault]struct {
		exit int
		fix  string
	}{
		telegramtest.WrongToken:    {errtable.ExitPermission, "token"},
		telegramtest.UnknownMethod: {errtable.ExitPermission, "token"},
		telegramtest.Webhook:       {errtable.ExitConflict, "--delete-webhook"},
	} {
		bubble(t, func(r *rig) {
			r.api.Queue("getUpdates", fault)
			r.start()
			err := r.stop()
			r.stop = nil
			if e, ok := errors.AsType[*errtable.Error](err); !ok || e.Exit != want.exit || !strings.Contains(e.Fix, want.fix) {
				t.Errorf("%s: %v", fault, err)
			}
		})
	}
}

// TestOtherPoll: if another program polls, the channel is silent for a poll's time, then
// backs off, and logs it once.
func TestOtherPoll(t *testing.T) {
	bubble(t, func(r *rig) {
		for range 20 {
			r.api.Queue("getUpdates", telegramtest.OtherPoll)
		}
		r.start()
		time.Sleep(30*time.Second - 1)
		synctest.Wait()
		if n := r.api.Count("getUpdates"); n != 1 {
			t.Errorf("%d polls within 30 seconds", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := r.api.Count("getUpdates"); n < 20 {
			t.Errorf("%d polls", n)
		}
		_ = r.stop()
		if n := strings.Count(r.log.String(), "another program uses the token"); n != 1 {
			t.Errorf("%d lines:\n%s", n, r.log.String())
		}
	})
}

// TestNumbersBeginAgain: Telegram may choose lower numbers of updates after a week without any. The
// channel accepts them at any time.
func TestNumbersBeginAgain(t *testing.T) {
	race.Skip(t)
	bubble(t, func(r *rig) {
		r.start()
		r.api.Text(7, "one")
		r.want("ONE")
		time.Sleep(time.Hour)
		r.api.Restart(5)
		r.api.Text(7, "two")
		r.want("ONE", "TWO")
	})
}

// TestFullDisk: the channel confirms no message that it cannot store, and polling pauses.
func TestFullDisk(t *testing.T) {
	bubble(t, func(r *rig) {
		var full atomic.Bool // of two goroutines
		full.Store(true)
		r.m.SetHook(func(c faultfs.Call) error {
			if full.Load() && c.Op == "write" && strings.Contains(c.Name, "/telegram/") {
				return syscall.ENOSPC
			}
			return nil
		})
		r.start()
		r.api.Text(7, "hello")
		time.Sleep(time.Hour)
		if n := r.api.Count("getUpdates"); n > 100 || r.api.Unconfirmed() != 1 {
			t.Errorf("%d polls, %d updates are not confirmed", n, r.api.Unconfirmed())
		}
		full.Store(false)
		time.Sleep(2 * time.Minute)
		r.want("HELLO")
	})
}

// TestMalformedUpdates: an update that cannot be decoded is confirmed, and the log has its number.
// The others are answered.
func TestMalformedUpdates(t *testing.T) {
	for name, bad := range map[string]fields{
		"text": {"text": 5}, "date": {"text": "x", "date": int64(1) << 50}, "entity": {"entities": []any{fields{"offset": 1e30}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.allowed = append(r.allowed, "9")
				maps.Copy(bad, privateMessage(9))
				r.api.Message(bad)
				r.api.Text(7, "hello")
				r.start()
				time.Sleep(time.Hour)
				r.want("HELLO")
				_ = r.stop()
				if n := strings.Count(r.log.String(), "update=1001"); n != 1 || r.api.Unconfirmed() != 0 {
					t.Errorf("%d lines, %d unconfirmed:\n%s", n, r.api.Unconfirmed(), r.log.String())
				}
			})
		})
	}
}
