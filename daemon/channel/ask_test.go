package channel_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"
)

// tea is a question with buttons.
var tea = agent.Question{Question: "Which tea?", Options: []agent.Option{{Label: "Green", Description: "mild"}, {Label: "Black"}}}

const teaText = "Which tea?\n1. Green - mild\n2. Black\n\nPress a button, or answer with a number."

// asks makes the daemon ask about tea, and answer with the reply.
func (r *rig) asks(q ...agent.Question) {
	r.d.reply = func(ctx context.Context, m *op.Message) (string, error) {
		if !strings.HasPrefix(strings.TrimPrefix(m.Content, "/"), "tea") {
			return strings.ToUpper(m.Content), nil
		}
		return "you get " + r.d.ask(ctx, m, q...), nil
	}
}

// data returns the data of a button of the newest message.
func (r *rig) data(button int) (message int64, data string) {
	r.t.Helper()
	synctest.Wait()
	list := r.api.Sent()
	s := list[len(list)-1]
	if len(s.Buttons) <= button {
		r.t.Fatalf("no button %d: %+v", button, s)
	}
	return s.ID, s.Buttons[button].Data
}

// press presses a button of the newest message.
func (r *rig) press(button int) {
	r.t.Helper()
	id, data := r.data(button)
	if r.api.Press(7, id, data) == 0 {
		r.t.Error("no button is pressed")
	}
}

// noButtons checks that no message has a button, and that no question is open.
func (r *rig) noButtons() {
	r.t.Helper()
	r.noButtonsBelow()
	for _, f := range files(r.m) {
		if len(f.Questions) > 0 {
			r.t.Errorf("questions %+v", f.Questions)
		}
	}
}

// TestButton answers a question with a button, a number, a label, or another text. The
// answer is not a message of the session, and the buttons are removed.
func TestButton(t *testing.T) {
	for text, want := range map[string]string{"": "Black", "1": "Green", "Black": "Black", " coffee ": "coffee", "3": "3"} {
		bubble(t, func(r *rig) {
			r.asks(tea)
			r.start()
			r.api.Text(7, "tea please")
			r.want(teaText)
			if text == "" {
				r.press(1)
			} else {
				r.api.Text(7, text)
			}
			r.want(teaText, "you get "+want)
			r.lines("crab_tg-7_1: tea please")
			r.noButtons()
			if got := r.api.Pressed(); len(got) > 0 != (text == "") || len(got) > 0 && got[0] != "" {
				t.Errorf("texts after the press: %q", got)
			}
			if r.api.Unconfirmed() != 0 {
				t.Error("an update is not confirmed")
			}
		})
	}
}

// TestTextQuestion: a question without options has no buttons, and several questions get one
// answer.
func TestTextQuestion(t *testing.T) {
	name := agent.Question{Question: "What is your name?"}
	for want, list := range map[string][]agent.Question{
		"What is your name?": {name},
		"1/2 What is your name?\n\n2/2 Which tea?\n1. Green - mild\n2. Black\n\nAnswer the questions in one message.": {name, tea},
	} {
		bubble(t, func(r *rig) {
			r.asks(list...)
			r.start()
			r.api.Text(7, "tea")
			r.want(want)
			r.api.Text(7, "Mia, 2")
			r.want(want, "you get Mia, 2")
			r.noButtons()
		})
	}
}

// TestManyOptions: a question with many options has numbers and no buttons.
func TestManyOptions(t *testing.T) {
	bubble(t, func(r *rig) {
		q := agent.Question{Question: "Which?"}
		for i := range 13 {
			q.Options = append(q.Options, agent.Option{Label: fmt.Sprint("o", i)})
		}
		r.asks(q)
		r.start()
		r.api.Text(7, "tea")
		r.noButtonsBelow()
		r.api.Text(7, "o12")
		synctest.Wait()
		if got := r.sent(); got[len(got)-1] != "you get o12" {
			t.Errorf("%q", got)
		}
	})
}

func (r *rig) noButtonsBelow() {
	r.t.Helper()
	synctest.Wait()
	for _, s := range r.api.Sent() {
		if len(s.Buttons) > 0 {
			r.t.Errorf("buttons below %q", s.Text)
		}
	}
}

// TestQuestionTimeout: a question without an answer loses its buttons, and a late press has no
// effect. A text is a message.
func TestQuestionTimeout(t *testing.T) {
	bubble(t, func(r *rig) {
		r.ignores = true
		r.asks(tea)
		r.start()
		r.api.Text(7, "tea")
		id, data := r.data(0)
		time.Sleep(4 * time.Minute)
		r.api.Queue("editMessageReplyMarkup", telegramtest.Flood)
		time.Sleep(time.Minute + time.Second)
		if r.api.Press(7, id, data) == 0 {
			t.Error("the button is gone")
		}
		time.Sleep(time.Minute)
		r.want(teaText, "you get no answer")
		r.noButtons()
		if got := fmt.Sprintf("%q", r.api.Pressed()); got != `["This question is closed."]` {
			t.Errorf("texts after the press: %s", got)
		}
		r.api.Text(7, "green")
		r.want(teaText, "you get no answer", "GREEN")
	})
}

// TestStrangerPresses: only the person may press a button, and only that of the message.
func TestStrangerPresses(t *testing.T) {
	bubble(t, func(r *rig) {
		r.ignores = true
		r.asks(tea)
		r.start()
		r.api.Text(7, "tea")
		id, data := r.data(0)
		for _, user := range []int64{8, 9} {
			r.api.Press(user, id, data)
		}
		synctest.Wait()
		r.want(teaText)
		r.press(0)
		r.want(teaText, "you get Green")
	})
}

// TestEarlierText: a text that waits when a question begins is no answer to it. A command is no
// answer.
func TestEarlierText(t *testing.T) {
	bubble(t, func(r *rig) {
		r.d.reply = func(ctx context.Context, m *op.Message) (string, error) {
			if m.Content != "tea" {
				return strings.ToUpper(m.Content), nil
			}
			time.Sleep(time.Minute)
			return "you get " + r.d.ask(ctx, m, tea), nil
		}
		r.start()
		r.api.Text(7, "tea")
		synctest.Wait()
		r.api.Queue("sendMessage", telegramtest.Flood) // the question is sent later
		r.api.Text(7, "and cake")
		time.Sleep(time.Minute + time.Second)
		r.api.Text(7, "and milk")
		time.Sleep(time.Minute)
		r.api.Text(7, "/skill")
		r.want(teaText)
		r.press(1)
		r.want(teaText, "you get Black", "AND CAKE\n\nAND MILK", "/SKILL")
	})
}

// TestAnsweredElsewhere: a question that another client answered loses its buttons during the
// run.
func TestAnsweredElsewhere(t *testing.T) {
	bubble(t, func(r *rig) {
		r.d.reply = func(ctx context.Context, m *op.Message) (string, error) {
			answer := r.d.ask(ctx, m, tea)
			time.Sleep(time.Minute)
			return "you get " + answer, nil
		}
		r.start()
		r.api.Text(7, "tea")
		r.want(teaText)
		if err := r.d.answer(&op.Reply{Number: numberOf(&op.Message{Sender: "tg:7"}), Content: "Black"}); err != nil {
			t.Fatal(err)
		}
		r.noButtons()
		time.Sleep(time.Minute)
		r.want(teaText, "you get Black")
	})
}

// TestLostReply: an answer whose delivery to the daemon is not certain is not used again, and
// the person learns it.
func TestLostReply(t *testing.T) {
	for _, slow := range []time.Duration{0, time.Minute} {
		bubble(t, func(r *rig) {
			r.asks(tea)
			r.d.lost, r.d.rounds = 1, slow
			r.start()
			r.api.Text(7, "tea")
			r.want(teaText)
			r.api.Text(7, "2")
			time.Sleep(2 * time.Minute)
			r.want(teaText, "The agent may not have this answer: its delivery was not confirmed.", "you get Black")
			r.lines("crab_tg-7_1: tea")
			r.noButtons()
		})
	}
}

// TestStopQuestion: the command to stop ends a run that asks.
func TestStopQuestion(t *testing.T) {
	bubble(t, func(r *rig) {
		r.asks(tea)
		r.start()
		r.api.Text(7, "tea")
		r.want(teaText)
		r.api.Text(7, "/stop")
		r.want(teaText, "Stopped.")
		r.noButtons()
	})
}

// TestQuestionRestart: a question stays open when the channel or the daemon restarts. An
// answer that arrives before the agent asks again goes to it, and the person sees the question
// once.
func TestQuestionRestart(t *testing.T) {
	for _, when := range []string{"before the stop", "while the daemon is stopped", "after the restart", "not again"} {
		t.Run(when, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.asks(tea)
				r.start()
				r.api.Text(7, "tea")
				r.want(teaText)
				r.d.fail(100)
				if when == "before the stop" {
					r.press(1)
					time.Sleep(time.Second)
				}
				r.down.Store(true)
				r.restart()
				if when == "while the daemon is stopped" || when == "not again" {
					r.press(1)
					time.Sleep(time.Minute)
				}
				r.down.Store(false)
				r.d.fail(0)
				if when == "not again" {
					r.d.mu.Lock()
					r.d.reply = nil
					r.d.mu.Unlock()
				}
				time.Sleep(2 * time.Minute)
				switch when {
				case "after the restart":
					r.press(1)
					fallthrough
				default:
					r.want(teaText, "you get Black")
				case "not again":
					r.want(teaText, "TEA", "The question is closed: this answer was too late.")
				}
				r.lines("crab_tg-7_1: tea")
				r.noButtons()
			})
		})
	}
}

// TestButtonFaults fails each method of a question. The person can answer with a text after
// each, and the run ends.
func TestButtonFaults(t *testing.T) {
	race.Skip(t)
	for _, method := range []string{"sendMessage", "answerCallbackQuery", "editMessageReplyMarkup"} {
		for _, fault := range []telegramtest.Fault{telegramtest.NoConnection, telegramtest.Flood, telegramtest.CutBefore, telegramtest.CutAfter, telegramtest.BadGateway,
			telegramtest.ServerError, telegramtest.BadRequest, telegramtest.NotModified, telegramtest.UnknownMethod} {
			t.Run(method+"/"+string(fault), func(t *testing.T) {
				bubble(t, func(r *rig) {
					r.asks(tea)
					r.api.Queue(method, fault)
					r.start()
					r.api.Text(7, "tea")
					time.Sleep(time.Minute)
					if list := r.api.Sent(); len(list) == 1 && len(list[0].Buttons) > 0 {
						r.press(1)
					} else {
						r.api.Text(7, "2")
					}
					time.Sleep(time.Hour)
					got := r.sent()
					refused := method == "sendMessage" && (fault == telegramtest.BadRequest || fault == telegramtest.NotModified || fault == telegramtest.UnknownMethod)
					if !refused && got[len(got)-1] != "you get Black" {
						t.Errorf("sent %q", got)
					}
					if f := files(r.m)[0]; len(f.Questions) > 0 || f.Turn != nil {
						t.Errorf("file %+v", f)
					}
				})
			})
		}
	}
}

// asked is a question that a button answers, before the crash or after it.
var asked = script{func(r *rig) {
	r.asks(tea)
	r.start()
	r.api.Text(7, "tea")
	time.Sleep(3 * time.Second)
	r.pressAny()
	time.Sleep(3 * time.Second)
}, (*rig).checkAsked, func(r *rig) { r.pressAny() }}

// pressAny presses the second button of a message, and returns false if no message has one.
func (r *rig) pressAny() bool {
	synctest.Wait()
	for _, s := range r.api.Sent() {
		if len(s.Buttons) > 0 {
			return r.api.Press(7, s.ID, s.Buttons[1].Data) != 0
		}
	}
	return false
}

// checkAsked returns an error unless the question was sent once, the daemon has the answer
// once, and the person got the answer of the agent once, or a notice.
func (r *rig) checkAsked() (bad []string) {
	sent := r.sent()
	notice := strings.Contains(strings.Join(sent, "|"), "may be missing") || strings.Contains(strings.Join(sent, "|"), "may not have this answer")
	for _, want := range []string{teaText, "you get Black"} {
		if n := strings.Count(strings.Join(sent, "|"), want); n > 1 || n == 0 && !notice {
			bad = append(bad, fmt.Sprintf("%q was sent %d times: %q", want, n, sent))
		}
	}
	if n := len(r.d.replies); n > 1 || n == 0 && !notice || n == 1 && r.d.replies[0] != "Black" {
		bad = append(bad, fmt.Sprintf("replies to the question: %q", r.d.replies))
	}
	if list := files(r.m); len(list) != 1 || len(list[0].Questions) > 0 || len(list[0].Waiting) > 0 || r.pressAny() {
		bad = append(bad, fmt.Sprintf("a question is open: %+v", list))
	}
	if fmt.Sprint(r.d.lines) != "[crab_tg-7_1: tea]" {
		bad = append(bad, fmt.Sprintf("messages of the sessions: %q", r.d.lines))
	}
	return bad
}
