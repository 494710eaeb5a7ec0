package channel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
)

const makeText = "w7 wants to run: make\n1. Yes, once\n2. No\n\nPress a button, or answer with a number."

// list returns a session's work and question, all open work, or all open questions.
func (d *daemon) list(q *op.WorkQuery) []role.View {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.work), func(v role.View) bool {
		if q.Questions {
			return v.Question == ""
		}
		return q.Session == "" && v.Kind == "question" || q.Session != "" && v.Session != q.Session
	})
}

// setWork sets what list returns, and sends an event of it.
func (d *daemon) setWork(event bool, list ...role.View) {
	d.mu.Lock()
	d.work = list
	d.mu.Unlock()
	if event {
		d.events <- agent.Event{Kind: agent.WorkWaiting}
	}
	synctest.Wait()
}

func (d *daemon) follow(ctx context.Context, send func(agent.Event) error) error {
	for {
		select {
		case e := <-d.events:
			if err := send(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *daemon) answerWork(identity string, in *op.WorkAnswer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.work, func(v role.View) bool { return v.Session == in.Session && v.ID == in.Work && v.Question != "" })
	if d.busy > 0 {
		d.busy--
		return &client.NoDaemonError{}
	}
	if i < 0 {
		return &client.Error{Code: 409, Kind: "conflict", Message: "no question"}
	}
	d.work[i].Question = ""
	d.answered = append(d.answered, fmt.Sprint(identity, " ", in.Work, ": ", in.Answer))
	if d.rounds > 0 {
		d.mu.Unlock()
		time.Sleep(d.rounds)
		d.mu.Lock()
	}
	if d.lost > 0 {
		d.lost--
		return errors.New("the connection ended")
	}
	return nil
}

// made is the question of work of the session of user 7.
var made = role.View{Session: "crab_tg-7_1", ID: "w7", Kind: "worker", Question: "w7 wants to run: make", Options: []string{"Yes, once", "No"}}

// answers compares the answers to work.
func (r *rig) answers(want ...string) {
	r.t.Helper()
	synctest.Wait()
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if !slices.Equal(r.d.answered, want) {
		r.t.Errorf("answers %q, want %q", r.d.answered, want)
	}
}

// TestWorkAsks: the question of work has buttons, and the answer is of the person's identity.
// A text is an answer only if it is a choice.
func TestWorkAsks(t *testing.T) {
	for text, want := range map[string]string{"": "Yes, once", "2": "No", "yes, ONCE": "yes, ONCE", "Y": "Y"} {
		bubble(t, func(r *rig) {
			r.start()
			r.api.Text(7, "hello")
			r.want("HELLO")
			r.d.setWork(true, made)
			r.want("HELLO", makeText)
			r.api.Text(7, "why?")
			r.want("HELLO", makeText, "WHY?")
			r.answers()
			if text == "" {
				s := r.api.Sent()[1]
				r.api.Press(7, s.ID, s.Buttons[0].Data)
			} else {
				r.api.Text(7, text)
			}
			r.answers("tg:7 w7: " + want)
			r.noButtons()
			r.lines("crab_tg-7_1: hello", "crab_tg-7_1: why?")
			time.Sleep(time.Hour)
			r.want("HELLO", makeText, "WHY?")
		})
	}
}

// TestWorkAsksInRun: a person can answer the question of work during a run.
func TestWorkAsksInRun(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.api.Text(7, "hello")
		r.want("HELLO")
		r.d.mu.Lock()
		r.d.slow = time.Minute
		r.d.mu.Unlock()
		r.api.Text(7, "and")
		synctest.Wait()
		r.d.setWork(true, made)
		r.want("HELLO", makeText)
		r.press(1)
		r.answers("tg:7 w7: No")
		r.noButtons()
	})
}

// TestWorkAnsweredElsewhere: a question that another client answered loses its buttons within
// a minute, also after a restart. A new question of the same work is asked.
func TestWorkAnsweredElsewhere(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.api.Text(7, "hello")
		r.want("HELLO")
		r.d.setWork(true, made)
		r.want("HELLO", makeText)
		r.d.setWork(false)
		time.Sleep(time.Minute)
		r.noButtons()
		r.d.setWork(true, made)
		r.want("HELLO", makeText, makeText)
		_ = r.stop()
		r.d.setWork(false)
		r.start()
		r.noButtons()
		r.answers()
	})
}

// TestWorkRestart: the question of work survives a restart of the channel, which finds one that
// began while it was stopped, and sends an answer that waits for the daemon.
func TestWorkRestart(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.api.Text(7, "hello")
		r.want("HELLO")
		_ = r.stop()
		r.d.setWork(false, made)
		r.start()
		r.want("HELLO", makeText)
		r.restart()
		r.want("HELLO", makeText)
		r.d.fail(2)
		r.press(0)
		r.answers()
		r.restart()
		time.Sleep(time.Minute)
		r.answers("tg:7 w7: Yes, once")
		r.noButtons()
	})
}

// TestLostAnswer: the answer to work whose response is lost is sent again, which the daemon
// refuses: it counts once.
func TestLostAnswer(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.api.Text(7, "hello")
		r.want("HELLO")
		r.d.setWork(true, made)
		r.d.mu.Lock()
		r.d.lost = 1
		r.d.mu.Unlock()
		r.press(0)
		time.Sleep(time.Minute)
		r.answers("tg:7 w7: Yes, once")
		r.noButtons()
		r.want("HELLO", makeText, "The agent may not have this answer: its delivery was not confirmed.")
	})
}

// TestSlowAnswer: a question is not closed as answered elsewhere while its answer is sent.
func TestSlowAnswer(t *testing.T) {
	bubble(t, func(r *rig) {
		r.d.rounds = 5 * time.Second
		r.start()
		r.api.Text(7, "hello")
		r.want("HELLO")
		r.d.setWork(true, made)
		r.press(0)
		time.Sleep(time.Second)
		r.d.setWork(true)
		time.Sleep(time.Minute)
		r.answers("tg:7 w7: Yes, once")
		r.noButtons()
		r.want("HELLO", makeText)
	})
}

// TestKeptQuestion: the question of a session that stays open after the run keeps its buttons,
// and a later answer is sent to it.
func TestKeptQuestion(t *testing.T) {
	for _, restart := range []bool{false, true} {
		bubble(t, func(r *rig) {
			r.asks(tea)
			r.start()
			r.d.setWork(false, role.View{Session: "crab_tg-7_1", ID: "q2", Kind: "question", Question: "Which tea?; Green; Black"})
			r.api.Text(7, "tea")
			r.want(teaText)
			id, data := r.data(1)
			time.Sleep(5 * time.Minute)
			r.want(teaText, "you get no answer")
			if restart {
				r.restart()
			}
			time.Sleep(time.Hour)
			if r.api.Press(7, id, data) == 0 {
				t.Error("no button")
			}
			r.answers("tg:7 q2: Black")
			r.noButtons()
		})
	}
}

// TestManyWorkQuestions: a conversation has a limited number of open questions, and asks each once.
func TestManyWorkQuestions(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.api.Text(7, "hello")
		r.want("HELLO")
		var list []role.View
		for i := range 20 {
			v := made
			v.ID, v.Question = fmt.Sprint("w", i), fmt.Sprint("question ", i)
			list = append(list, v)
		}
		r.d.setWork(true, list...)
		time.Sleep(10 * time.Minute)
		if n := len(r.sent()); n != 1+16 {
			t.Errorf("%d texts", n)
		}
		r.press(1) // the next one is asked
		time.Sleep(10 * time.Minute)
		if n := len(r.sent()); n != 1+17 {
			t.Errorf("%d texts", n)
		}
	})
}

// TestOlderSessionAsks: the work of a session before /new asks the person, also after a restart.
func TestOlderSessionAsks(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		for _, text := range []string{"hello", "/new", "again"} {
			r.api.Text(7, text)
			synctest.Wait()
		}
		r.restart()
		before := len(r.sent())
		r.d.setWork(true, made)
		if sent := r.sent(); len(sent) != before+1 || sent[before] != makeText {
			t.Errorf("sent %q", sent[before:])
		}
	})
}
