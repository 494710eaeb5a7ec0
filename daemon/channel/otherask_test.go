package channel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/role"
)

// terminal is a question of a terminal's run.
var terminal = role.View{Session: "crab_user_1", ID: "aX", Kind: "question", Question: "Which tea?", Options: []string{"Green", "Black"}}

const terminalText = "In the session crab_user_1: Which tea?\n1. Green\n2. Black\n\nPress a button, or reply to this message."

// asAdmin calls f with a channel in which user 7 is an admin and has written.
func asAdmin(t *testing.T, f func(r *rig)) {
	bubble(t, func(r *rig) {
		r.admins = []string{"tg:7"}
		r.start()
		r.api.Text(7, "hello")
		r.want("HELLO")
		f(r)
	})
}

// TestAdminAnswers: an admin receives the owner's questions and the approvals of all sessions, and
// answers by a button or a reply. Another text is a message. Other users receive no such question.
func TestAdminAnswers(t *testing.T) {
	for _, answer := range []string{"button", "reply"} {
		asAdmin(t, func(r *rig) {
			r.api.Text(8, "hello")
			r.want("HELLO", "HELLO")
			approval, others := made, terminal
			approval.Session, others.Session, others.To = "crab_tg-9_1", "crab_tg-9_2", "tg:9"
			r.d.setWork(false, terminal, others)
			r.d.events <- agent.Event{Kind: agent.AskUser}
			r.want("HELLO", "HELLO", terminalText)
			r.d.setWork(true, terminal, others, approval)
			sent := r.api.Sent()
			if len(sent) != 4 || sent[2].Chat != 7 || sent[3].Chat != 7 || !strings.HasPrefix(sent[3].Text, "In the session crab_tg-9_1: w7 wants to run: make\n") {
				t.Fatalf("sent %+v", sent)
			}
			r.api.Text(7, "1") // for the agent
			r.answers()
			m := privateMessage(7)
			m["text"] = "why?"
			m["reply_to_message"] = reply(123456, sent[3].ID)["reply_to_message"]
			r.api.Message(m) // no choice
			r.answers()
			for _, s := range sent[2:] {
				if answer == "button" {
					r.api.Press(7, s.ID, s.Buttons[0].Data)
				} else {
					m := privateMessage(7)
					m["text"], m["reply_to_message"] = "1", reply(123456, s.ID)["reply_to_message"]
					r.api.Message(m)
				}
				synctest.Wait()
			}
			r.answers("tg:7 aX: Green", "tg:7 w7: Yes, once")
			time.Sleep(time.Hour)
			r.noButtons()
			r.lines("crab_tg-7_1: hello", "crab_tg-8_1: hello", "crab_tg-7_1: 1", "crab_tg-7_1: why?")
			if n := len(r.sent()); n != 6 {
				t.Errorf("sent %q", r.sent())
			}
		})
	}
}

// TestAdminAskedOnce: a question is sent once, also over restarts of the channel, and not to the
// conversation that has it. A question of a run with the same text, after that, is another one.
func TestAdminAskedOnce(t *testing.T) {
	asAdmin(t, func(r *rig) {
		own := made
		own.ID = "w8"
		r.d.setWork(true, terminal)
		r.d.setWork(true, terminal, own)
		want := []string{"HELLO", terminalText, makeText}
		r.want(want...)
		for range 3 {
			r.restart()
			time.Sleep(10 * time.Minute)
			r.want(want...)
		}
		next := terminal
		next.ID = "aY"
		r.d.setWork(true, next, own)
		r.want(append(want, terminalText)...)
		if list := r.api.Sent(); len(list[1].Buttons) > 0 || len(list[3].Buttons) == 0 {
			t.Errorf("buttons %+v", list)
		}
	})
}

// TestAdminLate: a question that was answered elsewhere loses its buttons within a minute. The
// response to an earlier press says that the question is closed.
func TestAdminLate(t *testing.T) {
	for _, press := range []bool{false, true} {
		asAdmin(t, func(r *rig) {
			r.d.setWork(true, terminal)
			want := []string{"HELLO", terminalText}
			r.want(want...)
			r.d.setWork(false)
			if press {
				r.press(0)
				want = append(want, "The question is closed: this answer was too late.")
			}
			time.Sleep(time.Minute + time.Second)
			r.noButtons()
			r.want(want...)
			r.answers()
		})
	}
}

// TestNotAdmin: a person who is no longer an admin, or no longer a user, receives no questions.
func TestNotAdmin(t *testing.T) {
	for _, user := range []bool{false, true} {
		asAdmin(t, func(r *rig) {
			if user {
				r.admins = nil
			} else {
				r.allowed = []string{"8"}
			}
			r.d.setWork(true, terminal)
			time.Sleep(10 * time.Minute)
			r.want("HELLO")
		})
	}
}

// elsewhere is a terminal's question that an admin answers, before the crash or after it.
var elsewhere = script{func(r *rig) {
	r.admins = []string{"tg:7"}
	r.d.setWork(false, terminal)
	r.start()
	r.api.Text(7, "one")
	time.Sleep(90 * time.Second)
	r.pressAny()
	time.Sleep(time.Minute)
}, (*rig).checkElsewhere, func(r *rig) { r.pressAny() }}

// checkElsewhere returns an error unless the admin has the question once, and the daemon the answer
// once, or a notice says which is uncertain.
func (r *rig) checkElsewhere() (bad []string) {
	sent := strings.Join(r.sent(), "|")
	notice := strings.Contains(sent, "may be missing") || strings.Contains(sent, "may not have this answer")
	if n := strings.Count(sent, terminalText); n > 1 || n == 0 && !notice {
		bad = append(bad, fmt.Sprintf("the question was sent %d times: %q", n, sent))
	}
	if n := len(r.d.answered); n > 1 || n == 0 && !notice || n == 1 && r.d.answered[0] != "tg:7 aX: Black" {
		bad = append(bad, fmt.Sprintf("answers %q", r.d.answered))
	}
	if len(r.d.answered) > 0 && slices.ContainsFunc(files(r.m), func(f file) bool { return len(f.Questions) > 0 || len(f.Waiting) > 0 }) {
		bad = append(bad, fmt.Sprintf("a question is open: %+v", files(r.m)))
	}
	return bad
}

// TestCrashesElsewhere is TestCrashes for a question of another session.
func TestCrashesElsewhere(t *testing.T) { crashes(t, elsewhere) }
