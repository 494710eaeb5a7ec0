package channel_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/channel"
	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"
)

// control is a mistake that the enumeration must find.
type control string

const (
	noMistake     control = ""
	confirmsFirst control = "a message is confirmed before it is stored"
	sendsFirst    control = "a text is sent before that is stored"
	forgets       control = "IDs are forgotten at a restart"
	losesAlbum    control = "the album of a message is not stored"
	losesFull     control = "the full length of a text is not stored"
	losesTurn     control = "a turn is composed again after a restart"
	choosesAgain  control = "the session of a turn is chosen again after a restart"
	pressesFirst  control = "the press of a button is confirmed before it is stored"
	forgetsAsked  control = "questions are forgotten at a restart"
	forgetsOther  control = "questions of other sessions are forgotten at a restart"
	sendsLive     control = "a streamed message with an unknown outcome is sent again"
	losesRemote   control = "the ID of a streamed message is not stored"
)

// script is a person's acts while the channel runs, and a check after them.
type script struct {
	send  func(*rig)
	check func(*rig) []string
	later func(*rig) // the person's acts minutes after the crash; nil: no acts
}

// texts is two messages.
var texts = script{func(r *rig) {
	// The first message is answered before it is confirmed.
	r.api.Queue("getUpdates", "", "", telegramtest.NoConnection, telegramtest.NoConnection)
	r.start()
	r.api.Text(7, "one")
	time.Sleep(3 * time.Second)
	r.api.Text(7, "two")
	time.Sleep(3 * time.Second)
}, (*rig).checkTexts, nil}

// joined is an album, and a paste during its run.
var joined = script{func(r *rig) {
	r.d.reply = func(ctx context.Context, m *op.Message) (string, error) {
		return strings.ToUpper(strings.ReplaceAll(m.Content, full, "paste-")), ctx.Err()
	}
	r.start()
	for _, caption := range []string{"a1", "a2", "a3"} {
		r.photo("a", caption)
		time.Sleep(time.Second)
	}
	r.d.mu.Lock()
	r.d.slow = 5 * time.Second
	r.d.mu.Unlock()
	time.Sleep(2 * time.Second)
	r.api.Text(7, full)
	time.Sleep(time.Second)
	r.api.Text(7, "rest")
	time.Sleep(10 * time.Second)
}, (*rig).checkJoined, nil}

// crossed is two messages. If a crash interrupts the second, the next channel begins after the
// boundary of the session.
var crossed = script{func(r *rig) {
	r.session = "idle 1m"
	r.start()
	r.api.Text(7, "one")
	time.Sleep(50 * time.Second)
	r.d.mu.Lock()
	r.d.slow = 5 * time.Second
	r.d.mu.Unlock()
	r.api.Text(7, "two")
	time.Sleep(90 * time.Second)
}, (*rig).checkTexts, nil}

// isRead has the calls that do not change the disk.
var isRead = map[string]bool{"lstat": true, "stat": true, "readdir": true, "read": true}

// crashAt follows a script, and stops the channel before a call of the file system. The
// next channel has the disk of a power cut, or of a kill. crashAt returns what went wrong, and
// whether the channel made the call.
func crashAt(t *testing.T, s script, call int, kill bool, mistake control) (bad []string, hit bool) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var mu sync.Mutex
		r.api.Fail = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			bad = append(bad, err.Error())
		}
		if mistake == confirmsFirst || mistake == pressesFirst {
			r.change = func(p *channel.Platform) {
				receive := p.Receive
				p.Receive = func(ctx context.Context, accept func([]channel.Message) error) error {
					return receive(ctx, func(list []channel.Message) error {
						if mistake == pressesFirst && (len(list) == 0 || list[0].Button == "") {
							return accept(list)
						}
						defer time.AfterFunc(time.Second, func() { _ = accept(list) })
						return nil
					})
				}
			}
		}
		disk, calls := r.m, 0
		r.m.SetHook(func(c faultfs.Call) error {
			if isRead[c.Op] || c.Op == "unlock" || c.Op == "lock" && strings.Contains(c.Name, "channel-") {
				return nil // a crash before it is a crash before the next change
			}
			mu.Lock()
			calls++
			n := calls
			mu.Unlock()
			switch {
			case n < call:
				return nil
			case n == call && kill:
				disk = r.m.Kill()
			case n == call:
				disk = r.m.Crash()
			}
			if n == call { // a process that has ended polls no more
				hit = true
				r.api.Queue("getUpdates", slices.Repeat([]telegramtest.Fault{telegramtest.NoConnection}, 12)...)
			}
			return syscall.EIO
		})
		s.send(r)
		if err := r.stop(); err != nil && !hit {
			t.Errorf("channel: %v", err)
		}
		synctest.Wait()
		r.m.SetHook(nil)
		if hit {
			r.api.Clear("getUpdates")
			r.m = disk
			spoil(t, r.m, mistake)
		}
		r.start()
		time.Sleep(3 * time.Minute)
		if s.later != nil {
			s.later(r)
		}
		time.Sleep(5 * time.Minute)
		if err := r.stop(); err != nil {
			t.Errorf("channel after a crash: %v", err)
		}
		synctest.Wait()
		bad = append(bad, s.check(r)...)
	})
	return bad, hit
}

// sessionOfTurn matches the session of an open turn, and the keys before it.
var sessionOfTurn = regexp.MustCompile(`("turn":\{[^}]*)"session":"[^"]+"`)

// spoil changes a disk as a channel with a mistake would.
func spoil(t *testing.T, m *faultfs.Mem, mistake control) {
	list, _ := m.ReadDir(home + "/telegram")
	for _, e := range list {
		name := home + "/telegram/" + e.Name()
		b, err := vfs.ReadFile(m, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		switch mistake {
		case losesRemote:
			b = bytes.ReplaceAll(b, []byte(`"remote":"`), []byte(`"lost":"`))
		case sendsFirst, sendsLive:
			b = bytes.ReplaceAll(b, []byte(`"state":"sending"`), []byte(`"state":"pending"`))
		case forgets:
			for _, key := range []string{"done", "deliveries"} {
				b = bytes.ReplaceAll(b, []byte(`"`+key+`":[{`), []byte(`"forgotten":[{`))
			}
		case losesAlbum:
			b = bytes.ReplaceAll(b, []byte(`"album":"a"`), []byte(`"lost":"a"`))
		case losesFull:
			b = bytes.ReplaceAll(b, []byte(`"full":true`), []byte(`"lost":true`))
		case losesTurn:
			b = bytes.ReplaceAll(b, []byte(`"turn":{`), []byte(`"lost":{`))
		case choosesAgain:
			b = sessionOfTurn.ReplaceAll(b, []byte(`$1"new":true`))
		case forgetsAsked, forgetsOther:
			b = bytes.ReplaceAll(b, []byte(`"questions":[{`), []byte(`"forgotten":[{`))
		}
		m.WriteFile(name, b, 0o600)
	}
}

// checkTexts returns an error for each message that the sessions do not contain once, and for each
// answer that was sent twice, or is missing without a notice.
func (r *rig) checkTexts() (bad []string) {
	var lines, texts []string
	for _, line := range r.d.lines {
		_, text, _ := strings.Cut(line, ": ")
		lines = append(lines, strings.Split(text, "\n\n")...)
	}
	sent := r.sent()
	for _, text := range sent {
		texts = append(texts, strings.Split(text, "\n\n")...)
	}
	count := func(list []string, want string) (n int) {
		for _, s := range list {
			if s == want {
				n++
			}
		}
		return n
	}
	notices := 0
	for _, s := range texts {
		if strings.Contains(s, "may be missing") {
			notices++
		}
	}
	for _, word := range []string{"one", "two"} {
		if n := count(lines, word); n != 1 {
			bad = append(bad, fmt.Sprintf("the sessions contain %s %d times: %q", word, n, lines))
		}
		if n := count(texts, strings.ToUpper(word)); n > 1 || n == 0 && notices == 0 {
			bad = append(bad, fmt.Sprintf("the answer to %s was sent %d times: %q", word, n, sent))
		}
	}
	if i := slices.Index(texts, "ONE"); i >= 0 && slices.Contains(texts[:i], "TWO") {
		bad = append(bad, fmt.Sprintf("order: %q", sent))
	}
	return bad
}

// checkJoined returns an error unless the sessions contain the album and the paste once, and
// not divided, and each has one answer or a notice.
func (r *rig) checkJoined() (bad []string) {
	lines, sent := strings.ReplaceAll(strings.Join(r.d.lines, "|"), full, "paste-"), strings.Join(r.sent(), "|")
	lines, sent = strings.ReplaceAll(lines, pic, ""), strings.ReplaceAll(sent, strings.ToUpper(pic), "")
	for _, want := range []string{"a1\n\na2\n\na3", "paste-rest"} {
		if strings.Count(lines, want) != 1 {
			bad = append(bad, fmt.Sprintf("the sessions do not contain %q once: %q", want, lines))
		}
		if n := strings.Count(sent, strings.ToUpper(want)); n > 1 || n == 0 && !strings.Contains(sent, "may be missing") {
			bad = append(bad, fmt.Sprintf("the answer to %q was sent %d times: %q", want, n, sent))
		}
	}
	if strings.Count(lines, "a2") != 1 || strings.Count(lines, "rest") != 1 {
		bad = append(bad, fmt.Sprintf("parts are repeated: %q", lines))
	}
	return bad
}

// TestCrashes stops the channel before calls of the file system: one in eight, or each with
// CRABMEM_CRASH=full. Each message is in the sessions once, and no answer is sent twice or is
// missing without a notice.
func TestCrashes(t *testing.T) { crashes(t, texts) }

// TestCrashesJoined is TestCrashes for an album and a paste: each is one turn.
func TestCrashesJoined(t *testing.T) { crashes(t, joined) }

// TestCrashesAsked is TestCrashes for a question that a button answers.
func TestCrashesAsked(t *testing.T) { crashes(t, asked) }

// TestCrashesCrossed is TestCrashes for a restart after the boundary of the session.
func TestCrashesCrossed(t *testing.T) { crashes(t, crossed) }

func crashes(t *testing.T, s script) {
	race.Skip(t)
	first, step := seed.Slice(t, 8)
	points := 0
	for _, kill := range []bool{false, true} {
		for call := 1 + first; ; call += step {
			bad, hit := crashAt(t, s, call, kill, noMistake)
			if len(bad) > 0 {
				t.Errorf("call %d, kill %v: %s", call, kill, strings.Join(bad, "; "))
			}
			if !hit {
				break
			}
			points++
		}
	}
	t.Logf("%d crashes", points)
	if points < 200/step {
		t.Errorf("%d crashes", points)
	}
}

// TestControls: the enumeration finds each mistake. It makes one in four, or all with
// CRABMEM_CRASH=full.
func TestControls(t *testing.T) {
	race.Skip(t)
	all := []struct {
		mistake control
		script
	}{{confirmsFirst, texts}, {sendsFirst, texts}, {forgets, texts}, {losesAlbum, joined}, {losesFull, joined}, {losesTurn, joined}, {choosesAgain, crossed},
		{pressesFirst, asked}, {forgetsAsked, asked}, {forgetsOther, elsewhere}, {sendsLive, streamed}, {losesRemote, streamed}}
	first, step := seed.Slice(t, 4)
	for i := first; i < len(all); i += step {
		mistake, s, found := all[i].mistake, all[i].script, false
		for call, hit := 1, true; hit && !found; call += 3 {
			var bad []string
			bad, hit = crashAt(t, s, call, false, mistake)
			found = len(bad) > 0
		}
		if !found {
			t.Errorf("not found: %s", mistake)
		}
	}
}
