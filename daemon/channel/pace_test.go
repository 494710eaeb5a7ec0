package channel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/channel/telegram"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"
)

// story makes the agent answer with some parts.
func (r *rig) story(parts int) {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.d.reply = func(_ context.Context, m *op.Message) (string, error) {
		if strings.Contains(m.Content, "short") {
			return "short", nil
		}
		return strings.TrimSpace(strings.Repeat(strings.Repeat("a", 3000)+"\n\n", parts)), nil
	}
}

// checkPace returns an error for each time in which a chat, or all chats, have more messages
// than the Bot API advises.
func (r *rig) checkPace() (bad []string) {
	times := make(map[int64][]time.Time) // by chat; 0: all
	for _, s := range r.api.Sent() {
		for _, key := range []int64{0, s.Chat} {
			times[key] = append(times[key], s.At)
		}
	}
	check := func(chat int64, n int, in time.Duration) {
		for i := n; i < len(times[chat]); i++ {
			if d := times[chat][i].Sub(times[chat][i-n]); d < in {
				bad = append(bad, fmt.Sprintf("chat %d: %d messages in %v, want %v", chat, n+1, d, in))
			}
		}
	}
	for chat := range times {
		switch {
		case chat == 0:
			check(chat, 30, time.Second)
		case chat < 0:
			check(chat, 20, time.Minute)
			fallthrough
		default:
			check(chat, 1, time.Second)
		}
	}
	return bad
}

// TestPace: a chat has a text a second, and a group, with all topics, 20 a minute. All chats have
// 30 a second. No text comes later than that.
func TestPace(t *testing.T) {
	race.Skip(t)
	for name, c := range map[string]struct {
		write func(*rig)
		texts int
		in    time.Duration
	}{
		"chat":  {func(r *rig) { r.api.Text(7, "x") }, 45, 44 * time.Second},
		"group": {func(r *rig) { r.group(7, "x", reply(123456, 3)) }, 45, 124 * time.Second},
		"topics": {func(r *rig) {
			for topic := range int64(3) {
				r.group(7, "x", reply(123456, 3), fields{"is_topic_message": true, "message_thread_id": topic + 5})
			}
		}, 138, 6*time.Minute + 17*time.Second}, // 3 notices of new sessions
		"pauses": {func(r *rig) { // 20 answers in 40 s, one after a minute, and one to the other messages
			for range 25 {
				r.group(7, "short", reply(123456, 3))
				time.Sleep(2 * time.Second)
			}
		}, 22, 12 * time.Second},
		"all": {func(r *rig) {
			for user := range int64(70) {
				r.api.Text(1000+user, "short")
			}
		}, 70, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.spaced, r.ignores, r.groups = true, true, []telegram.Group{{ID: -100}}
				for user := range 70 {
					r.allowed = append(r.allowed, fmt.Sprint(1000+user))
				}
				r.story(45)
				r.start()
				began := time.Now()
				c.write(r)
				time.Sleep(c.in - 1)
				if got := len(r.sent()); got >= c.texts {
					t.Errorf("%d texts in %v", got, c.in-1)
				}
				time.Sleep(time.Nanosecond)
				if got := len(r.sent()); got != c.texts {
					t.Errorf("%d texts in %v, want %d", got, time.Since(began), c.texts)
				}
				if bad := r.checkPace(); bad != nil {
					t.Errorf("%s", strings.Join(bad, "\n"))
				}
			})
		})
	}
}

// TestPaceOfOthers: groups whose texts wait delay no other conversation, also if each has a run.
func TestPaceOfOthers(t *testing.T) {
	bubble(t, func(r *rig) {
		r.spaced = true
		for i := range int64(5) {
			r.groups = append(r.groups, telegram.Group{ID: -100 - i})
		}
		r.d.reply = func(ctx context.Context, m *op.Message) (string, error) {
			err := ctx.Value(emitKey{}).(func(agent.Event) error)(agent.Event{Kind: agent.Reply, Content: strings.Repeat(strings.Repeat("a", 3000)+"\n\n", 30)})
			time.Sleep(30 * time.Second)
			return "end", err
		}
		r.start()
		for i := range int64(5) {
			r.group(7, "x", reply(123456, 3), fields{"chat": fields{"id": -100 - i, "type": "group"}})
		}
		time.Sleep(31 * time.Second) // four runs have ended, and each has a text that waits
		r.story(1)
		r.api.Text(7, "short")
		if sent := r.sent(); !slices.Contains(sent, "short") {
			t.Errorf("%d texts, and no answer", len(sent))
		}
		time.Sleep(time.Hour)
		if n := len(r.sent()); n != 5*31+1 {
			t.Errorf("%d texts", n)
		}
	})
}

// TestPaceOverRestart: a text that waits ends with the channel, and is sent once after a power cut.
func TestPaceOverRestart(t *testing.T) {
	bubble(t, func(r *rig) {
		r.spaced = true
		r.story(3)
		r.start()
		r.api.Text(7, "x")
		time.Sleep(1500 * time.Millisecond)
		began := time.Now()
		r.restart()
		if d := time.Since(began); d != 0 {
			t.Errorf("the channel stops after %v", d)
		}
		time.Sleep(time.Minute)
		if got := r.sent(); len(got) != 3 || slices.Contains(got, missing) {
			t.Errorf("sent %.9q", got)
		}
	})
}
