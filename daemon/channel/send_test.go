package channel_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/op"
)

// TestSendFaults: each outcome of a request has its rule. Only a text that the platform
// certainly did not get is sent again.
func TestSendFaults(t *testing.T) {
	for fault, want := range map[telegramtest.Fault]struct {
		texts string // that the bot sent
		state string // of the answer
	}{
		telegramtest.NoConnection: {"HELLO", "sent"},
		telegramtest.Flood:        {"HELLO", "sent"},
		telegramtest.FloodNoTime:  {"HELLO", "sent"},
		telegramtest.WrongToken:   {"HELLO", "sent"},
		telegramtest.OtherPoll:    {"HELLO", "sent"},
		telegramtest.CutBefore:    {missing, "unknown"},
		telegramtest.CutAfter:     {"HELLO|" + missing, "unknown"},
		telegramtest.BadGateway:   {missing, "unknown"},
		telegramtest.ServerError:  {missing, "unknown"},
		telegramtest.BadRequest:   {"", "failed"},
		telegramtest.Blocked:      {"", "failed"},
		telegramtest.Migrated:     {"", "failed"},
	} {
		t.Run(string(fault), func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.api.Queue("sendMessage", fault)
				r.start()
				r.api.Text(7, "hello")
				time.Sleep(time.Hour)
				if got := strings.Join(r.sent(), "|"); got != want.texts {
					t.Errorf("sent %q, want %q", got, want.texts)
				}
				if a := files(r.m)[0].Answers[0]; a.State != want.state || a.Content != "" || (a.Remote != "") != (a.State == "sent") {
					t.Errorf("answer %+v, want state %s", a, want.state)
				}
				r.restart()
				time.Sleep(time.Hour)
				if got := strings.Join(r.sent(), "|"); got != want.texts {
					t.Errorf("after a restart: sent %q, want %q", got, want.texts)
				}
			})
		})
	}
}

// TestFlood: the channel waits as long as the platform asks, or 5 seconds, and keeps the order.
func TestFlood(t *testing.T) {
	bubble(t, func(r *rig) {
		r.api.Queue("sendMessage", telegramtest.Flood, telegramtest.FloodNoTime)
		r.d.reply = func(_ context.Context, m *op.Message) (string, error) {
			return strings.Repeat("a", 3000) + "\n\n" + strings.Repeat("b", 3000), nil
		}
		r.start()
		r.api.Text(7, "x")
		for _, step := range []struct {
			wait time.Duration
			sent int
		}{{30*time.Second - 1, 0}, {2, 0}, {5*time.Second - 2, 0}, {2, 2}} {
			time.Sleep(step.wait)
			if got := r.sent(); len(got) != step.sent {
				t.Errorf("%d messages, want %d", len(got), step.sent)
			}
		}
		if got := r.sent(); len(got) != 2 || got[0][0] != 'a' || got[1][0] != 'b' {
			t.Errorf("order: %.10q", got)
		}
	})
}

// TestCrashWhileSending: a text that was sent when the channel stopped is not sent again, and
// the person learns of it.
func TestCrashWhileSending(t *testing.T) {
	for _, delivered := range []bool{false, true} {
		bubble(t, func(r *rig) {
			crash := r.m
			r.d.reply = func(_ context.Context, m *op.Message) (string, error) {
				if !delivered && crash == r.m {
					crash = r.m.Crash()
				}
				return "HELLO", nil
			}
			r.api.Do = func(method string) {
				if method == "sendMessage" && delivered {
					crash = r.m.Crash()
				}
			}
			r.start()
			r.api.Text(7, "hello")
			r.want("HELLO")
			_ = r.stop()
			r.api.Do = nil
			r.m = crash
			r.start()
			if delivered {
				r.want("HELLO", missing)
			} else {
				r.want("HELLO", "HELLO") // the first one is of a process that continued: its disk is lost
			}
			r.lines("crab_tg-7_1: hello")
		})
	}
}

// TestBlocked: the channel drops texts to a person who blocked the bot, and sends others.
func TestBlocked(t *testing.T) {
	bubble(t, func(r *rig) {
		r.api.Queue("sendMessage", telegramtest.Blocked)
		r.d.reply = func(_ context.Context, m *op.Message) (string, error) {
			if m.Sender == "tg:7" {
				return strings.Repeat("a ", 4000), nil
			}
			return "fine", nil
		}
		r.start()
		r.api.Text(7, "x")
		synctest.Wait()
		r.api.Text(8, "x")
		r.want("fine")
		for _, a := range files(r.m)[0].Answers {
			if a.State == "pending" || a.State == "sending" {
				t.Errorf("answer %+v", a)
			}
		}
	})
}
