package channel_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"
)

// idOf returns a message's ID in the files. The number of a press of a button is negative.
func idOf(chat, message int64) string {
	once := fmt.Sprint(message)
	if message < 0 {
		once = fmt.Sprint("press ", -message)
	}
	sum := sha256.Sum256(fmt.Append(nil, "tg:", chat, "\x00", once))
	return hex.EncodeToString(sum[:16])
}

// TestAnswer: a message of an allowed user is answered once, and later ones continue the session.
func TestAnswer(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.api.Text(7, "hello")
		r.want("HELLO")
		r.api.Text(7, "again")
		r.want("HELLO", "AGAIN")
		r.lines("crab_tg-7_1: hello", "crab_tg-7_1: again")
		if n := r.api.Unconfirmed(); n != 0 {
			t.Errorf("%d updates are not confirmed", n)
		}
	})
}

// TestRestart: a restart repeats no answer, also if the updates are delivered
// again.
func TestRestart(t *testing.T) {
	bubble(t, func(r *rig) {
		r.api.Queue("getUpdates", "", "", telegramtest.NoConnection, telegramtest.NoConnection)
		r.start()
		r.api.Text(7, "hello")
		r.want("HELLO")
		if r.api.Unconfirmed() != 1 {
			t.Error("the message is confirmed")
		}
		r.restart()
		r.want("HELLO")
		time.Sleep(time.Minute)
		if r.api.Unconfirmed() != 0 {
			t.Error("the message is not confirmed")
		}
		r.lines("crab_tg-7_1: hello")
	})
}

// TestRedelivery: a message that is delivered again within 48 hours is not answered again,
// also after restarts.
func TestRedelivery(t *testing.T) {
	race.Skip(t)
	bubble(t, func(r *rig) {
		r.start()
		message := privateMessage(7)
		message["text"] = "hello"
		id := r.api.Message(message)
		r.want("HELLO")
		time.Sleep(47 * time.Hour)
		r.restart()
		r.api.Redeliver(message, id)
		r.want("HELLO")
		r.lines("crab_tg-7_1: hello")
		time.Sleep(time.Hour + time.Minute)
		r.api.Text(7, "more") // the file is written without old IDs
		synctest.Wait()
		if n := len(ids(r.m, 7)); n != 1 {
			t.Errorf("%d IDs after 48 hours", n)
		}
	})
}

// TestQueued: messages that arrive during a run become one turn afterwards, with the first ID
// as its request.
func TestQueued(t *testing.T) {
	bubble(t, func(r *rig) {
		release := make(chan struct{})
		r.d.reply = func(_ context.Context, m *op.Message) (string, error) {
			<-release
			return "to " + m.Content, nil
		}
		r.start()
		r.api.Text(7, "1")
		synctest.Wait()
		r.api.Text(7, "2")
		r.api.Text(7, "3")
		r.api.Text(7, "/skill 4")
		r.api.Text(7, "5")
		synctest.Wait()
		close(release)
		r.want("to 1", "to 2\n\n3", "to /skill 4", "to 5")
	})
}

// TestConversations: a conversation does not wait for the run of another one.
func TestConversations(t *testing.T) {
	bubble(t, func(r *rig) {
		r.d.reply = func(ctx context.Context, m *op.Message) (string, error) {
			if m.Sender == "tg:7" {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return m.Sender, nil
		}
		r.start()
		r.api.Text(7, "slow")
		synctest.Wait()
		r.api.Text(8, "fast")
		r.want("tg:8")
	})
}

// TestStrangers: messages of unknown senders, bots, channels, and groups have no answer, no
// typing, and no session. One line of the log an hour counts them, without text.
func TestStrangers(t *testing.T) {
	bubble(t, func(r *rig) {
		r.ignores = true
		r.start()
		for range 3 {
			r.api.Text(9, "buy secrets")
		}
		private := map[string]any{"id": int64(7), "type": "private"}
		person := map[string]any{"id": int64(7)}
		r.api.Message(map[string]any{"from": map[string]any{"id": int64(7), "is_bot": true}, "chat": private, "text": "bot"})
		r.api.Message(map[string]any{"chat": private, "text": "no sender"})
		r.api.Message(map[string]any{"from": person, "sender_chat": map[string]any{"id": int64(-1), "type": "channel"}, "chat": private, "text": "channel"})
		r.api.Message(map[string]any{"from": person, "chat": map[string]any{"id": int64(-100), "type": "supergroup"}, "text": "group"})
		r.want()
		r.lines()
		if n := r.api.Count("sendChatAction"); n != 0 || r.api.Unconfirmed() != 0 {
			t.Errorf("%d times typing, %d updates are not confirmed", n, r.api.Unconfirmed())
		}
		time.Sleep(time.Hour)
		r.api.Text(9, "buy secrets")
		r.api.Text(9, "buy secrets")
		synctest.Wait()
		_ = r.stop()
		if log := r.log.String(); strings.Count(log, "ignored messages") != 2 || !strings.Contains(log, "messages=4") || strings.Contains(log, "secrets") {
			t.Errorf("log:\n%s", log)
		}
		if len(files(r.m)) != 0 {
			t.Errorf("files of strangers: %+v", files(r.m))
		}
	})
}

// TestRemovedUser: a user that the owner removes is a stranger at the next message.
func TestRemovedUser(t *testing.T) {
	bubble(t, func(r *rig) {
		r.ignores = true
		r.start()
		r.api.Text(7, "hello")
		r.want("HELLO")
		r.allowed = []string{"8"}
		r.api.Text(7, "again")
		r.api.Text(8, "hi")
		r.want("HELLO", "HI")
		r.lines("crab_tg-7_1: hello", "crab_tg-8_1: hi")
	})
}

// TestDaemonStopped: messages wait while no daemon runs, and are answered after.
func TestDaemonStopped(t *testing.T) {
	bubble(t, func(r *rig) {
		r.down.Store(true)
		r.start()
		r.api.Text(7, "hello")
		time.Sleep(time.Hour)
		r.want()
		if r.api.Unconfirmed() != 0 {
			t.Error("the message is not confirmed")
		}
		r.restart()
		time.Sleep(time.Hour)
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		r.down.Store(false)
		r.start()
		time.Sleep(time.Minute)
		r.want("HELLO")
		r.lines("crab_tg-7_1: hello")
	})
}

// TestLostResponse: a turn whose response is lost is sent again as it is, and the session
// contains it once.
func TestLostResponse(t *testing.T) {
	bubble(t, func(r *rig) {
		r.d.lose = 3
		r.start()
		r.api.Text(7, "hello")
		time.Sleep(time.Minute)
		r.want("HELLO")
		r.lines("crab_tg-7_1: hello")
		if r.d.calls != 4 {
			t.Errorf("%d calls", r.d.calls)
		}
	})
}

// TestFailedRun: a failed run has an answer without details, and the next message is answered.
func TestFailedRun(t *testing.T) {
	bubble(t, func(r *rig) {
		r.d.reply = func(_ context.Context, m *op.Message) (string, error) {
			switch m.Content {
			case "unknown":
				return "", &op.Error{Code: 404, Kind: "not_found", Message: "no skill x"}
			case "broken":
				return "", &op.Error{Code: 500, Kind: "failed", Message: "/home/crab/secret"}
			}
			return "fine", nil
		}
		r.start()
		r.api.Text(7, "unknown")
		r.want("Error: no skill x")
		r.api.Text(7, "broken")
		r.want("Error: no skill x", "Error: the run failed. The log of the channel has the cause.")
		r.api.Text(7, "x")
		r.want("Error: no skill x", "Error: the run failed. The log of the channel has the cause.", "fine")
	})
}

// TestTyping: the platform shows that the agent works, every 4 seconds, and not after the run.
func TestTyping(t *testing.T) {
	bubble(t, func(r *rig) {
		r.d.reply = func(context.Context, *op.Message) (string, error) {
			time.Sleep(9 * time.Second)
			return "done", nil
		}
		r.start()
		r.api.Text(7, "x")
		time.Sleep(time.Hour)
		r.want("done")
		if n := r.api.Count("sendChatAction"); n != 3 {
			t.Errorf("%d times typing, want 3", n)
		}
	})
}

// TestTooMany: a conversation with too many messages gets a notice, and delays no other one.
func TestTooMany(t *testing.T) {
	bubble(t, func(r *rig) {
		r.ignores = true
		r.down.Store(true)
		r.start()
		for i := range 65 {
			r.api.Text(7, fmt.Sprint(i))
			synctest.Wait()
		}
		if n := r.api.Unconfirmed(); n != 0 {
			t.Errorf("%d updates are not confirmed", n)
		}
		r.api.Text(8, "other")
		synctest.Wait()
		if len(ids(r.m, 7)) != 64 || len(ids(r.m, 8)) != 1 {
			t.Errorf("%d and %d messages wait", len(ids(r.m, 7)), len(ids(r.m, 8)))
		}
	})
}

// TestOneProcess: a home's second channel does not start.
func TestOneProcess(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		first := r.stop
		r.start()
		if err := r.stop(); err == nil || !strings.Contains(err.Error(), "channel-telegram.lock") {
			t.Errorf("second channel: %v", err)
		}
		r.stop = first
	})
}

// TestUnreadableConversation: a file that cannot be read stops only its conversation.
func TestUnreadableConversation(t *testing.T) {
	bubble(t, func(r *rig) {
		r.ignores = true
		r.start()
		r.api.Text(7, "hello")
		r.want("HELLO")
		entries, _ := r.m.ReadDir(home + "/telegram")
		f, err := r.m.OpenFile(home+"/telegram/"+entries[0].Name(), os.O_RDWR, 0)
		if err == nil {
			err = errors.Join(f.Truncate(3), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		r.api.Text(7, "again")
		r.api.Text(8, "other")
		time.Sleep(time.Hour)
		r.want("HELLO", "OTHER")
		other := made
		other.Session = "crab_tg-8_1"
		r.d.setWork(true, made, other)
		r.want("HELLO", "OTHER", makeText)
		_ = r.stop()
		if n := r.api.Unconfirmed(); n != 0 || !strings.Contains(r.log.String(), "move the file away") {
			t.Errorf("%d updates are not confirmed", n)
		}
	})
}

// TestManyConversations: a person for whose conversation there is no place stops no other one.
func TestManyConversations(t *testing.T) {
	race.Skip(t)
	bubble(t, func(r *rig) {
		r.ignores = true
		r.start()
		for i := range 300 {
			r.topic(7, int64(2+i), "x")
		}
		r.api.Text(7, "hello")
		time.Sleep(time.Hour)
		if sent := r.sent(); len(sent) < 250 || r.api.Unconfirmed() != 0 {
			t.Errorf("%d texts, %d updates are not confirmed", len(sent), r.api.Unconfirmed())
		}
	})
}
