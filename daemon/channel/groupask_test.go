package channel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/channel/telegram"
	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/role"
)

// inGroup calls f with a rig that runs in the group -100. User 8 is an admin, 9 is an admin that
// is not listed.
func inGroup(t *testing.T, f func(r *rig)) {
	bubble(t, func(r *rig) {
		r.groups = []telegram.Group{{ID: -100, Senders: "all"}}
		r.admins = []string{"tg:8", "tg:9", "tg-open:-100"}
		r.start()
		f(r)
	})
}

// presses presses a button of the message with a question as several users, and compares the
// texts that they see.
func (r *rig) presses(button int, want map[int64]string) {
	r.t.Helper()
	synctest.Wait()
	list := r.api.Sent()
	i := slices.IndexFunc(list, func(s telegramtest.Sent) bool { return len(s.Buttons) > button })
	if i < 0 {
		r.t.Fatalf("no button %d: %+v", button, list)
	}
	id, data := list[i].ID, list[i].Buttons[button].Data
	for user, text := range want {
		r.api.Press(user, id, data)
		synctest.Wait()
		if got := r.api.Pressed(); len(got) == 0 || got[len(got)-1] != text {
			r.t.Errorf("texts after the press of %d: %q, want %q", user, got, text)
		}
	}
}

const (
	onlyMia   = `Only "Mia M" may answer.`
	onlyAdmin = "Only an admin of the bot may answer."
)

// TestGroupQuestion: only the turn's sender may answer its question, by a button or a text,
// also after the run and a restart. The response to another person's press says so.
func TestGroupQuestion(t *testing.T) {
	for _, when := range []string{"in the run", "by a text", "after the run"} {
		inGroup(t, func(r *rig) {
			r.asks(tea)
			if when == "after the run" {
				r.d.setWork(false, role.View{Session: "crab_tg-open--100_1", ID: "q2", Kind: "question", Question: "Which tea?; Green; Black"})
			}
			r.d.mu.Lock()
			lines := &r.d.lines
			r.d.mu.Unlock()
			r.group(7, "/tea@crab_bot", entityOf("bot_command", "/tea@crab_bot", "/tea@crab_bot"))
			id, data := r.data(0)
			r.presses(0, map[int64]string{8: onlyMia, 9: onlyMia, 10: onlyMia})
			r.group(8, "1", reply(123456, 3))
			switch when {
			case "in the run":
				r.presses(0, map[int64]string{7: ""})
			case "by a text":
				r.group(7, "1", reply(123456, 3))
			case "after the run":
				time.Sleep(10 * time.Minute)
				r.restart()
				r.api.Press(8, id, data)
				synctest.Wait()
				r.answers()
				r.api.Press(7, id, data)
				r.answers("tg-open:-100 q2: Green")
			}
			r.noButtons()
			if sent := strings.Join(r.sent(), "|"); when != "after the run" && !strings.Contains(sent, "you get Green") {
				t.Errorf("%s: sent %q", when, sent)
			}
			if want := `crab_tg-open--100_1: [channel: from "Mia M", ID 8]` + "\n1"; !slices.Contains(*lines, want) {
				t.Errorf("%s: messages %q", when, *lines)
			}
		})
	}
}

// TestGroupApproval: only an admin among the users may approve a command in a group, whoever
// asked, and whether a run or work needs it.
func TestGroupApproval(t *testing.T) {
	for _, work := range []bool{false, true} {
		inGroup(t, func(r *rig) {
			asks := tea
			asks.Header = agent.RunCommand
			r.asks(asks)
			text := "/tea@crab_bot"
			if work {
				text = "/x@crab_bot"
			}
			r.group(7, text, entityOf("bot_command", text, text))
			if work {
				v := made
				v.Session = "crab_tg-open--100_1"
				r.d.setWork(true, v)
			}
			r.presses(0, map[int64]string{7: onlyAdmin, 9: onlyAdmin, 10: onlyAdmin})
			r.group(7, "1", reply(123456, 3))
			r.answers()
			if len(r.d.replies) > 0 {
				t.Errorf("replies %q", r.d.replies)
			}
			r.presses(1, map[int64]string{8: ""})
			if got := fmt.Sprint(r.d.replies, r.d.answered); got != map[bool]string{false: "[Black] []", true: "[] [tg-open:-100 w7: No]"}[work] {
				t.Errorf("answers %s", got)
			}
			r.noButtons()
		})
	}
}

// TestGroupStranger: the press of a person whom the group does not admit has no effect and no
// text.
func TestGroupStranger(t *testing.T) {
	bubble(t, func(r *rig) {
		r.groups = []telegram.Group{{ID: -100}}
		r.asks(tea)
		r.start()
		r.group(7, "/tea@crab_bot", entityOf("bot_command", "/tea@crab_bot", "/tea@crab_bot"))
		r.presses(0, map[int64]string{9: ""})
		r.presses(0, map[int64]string{8: onlyMia})
		if len(r.d.replies) > 0 {
			t.Errorf("replies %q", r.d.replies)
		}
	})
}
