package daemon

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
	"crabmem/daemon/session"
)

// TestQuestionsOfRuns lists the question that a client's run asks, with an event, and answers
// it as another admin. Others may not answer, and an ID counts for one question.
func TestQuestionsOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := channel(t, faultfs.NewMem(), tgTrusted+"[origins.\"tg:8\"]\ntrust = \"admin\"\n[agents.plain]\n")
		defer d.Close()
		questions := func() []role.View {
			list, err := op.ListWork.Do(t.Context(), op.Local{On: d.on(&request{ctx: t.Context()})}, op.WorkQuery{Questions: true})
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		events, err := d.events.add(op.EventFilter{}, func(string) bool { return true }, 64, 8)
		if err != nil {
			t.Fatal(err)
		}
		defer d.events.remove(events)
		asks := func(sender string) (id string, answer <-chan string) {
			l, err := d.loaded.Resolve(t.Context(), &session.Request{Agent: "plain", Sender: sender})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan string, 1)
			go func() { // until the question has an answer
				run := session.Run{Session: l, Sender: sender, Content: `ask_user {"questions":[{"question":"Which tea?","header":"tea","options":[{"label":"Green","description":""},{"label":"Black","description":""}]}]}`, Interactive: true, Each: func(agent.Event) error { return nil }}
				if err := d.loaded.Run(t.Context(), &run); err != nil {
					run.Answer = err.Error()
				}
				ended <- run.Answer
			}()
			synctest.Wait()
			return l.StoredID(), ended
		}
		id, answer := asks("user")
		list := questions()
		if len(list) != 1 || list[0].Session != id || list[0].Question != "Which tea?" || strings.Join(list[0].Options, " ") != "Green Black" || list[0].To != "" {
			t.Fatalf("questions %+v", list)
		}
		seen := false
		for len(events.queue) > 0 {
			if e := <-events.queue; e.Kind == agent.AskUser {
				if seen = true; e.Session != id || e.Questions != nil {
					t.Errorf("event %+v", e)
				}
			}
		}
		if !seen {
			t.Error("no event")
		}
		first, stale := list[0].ID, d.loaded.Asked()[0]
		for _, c := range []struct {
			session, id, by, text string
			status                uint32
		}{{id, first, "tg:7", "x", http.StatusForbidden}, {id, first, "tg:8", " ", http.StatusBadRequest}, {id, "aZ", "tg:8", "x", 0}, {"crab_user_9", first, "tg:8", "x", 0}} {
			if err := d.roles.Answer(c.session, c.id, c.by, c.text); err == nil || c.status != 0 && errtable.Find(err).HTTP != c.status {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if err := d.roles.Answer(id, first, "tg:8", "Black"); err != nil || <-answer != "Black" {
			t.Errorf("answer: %v", err)
		}
		if list := questions(); len(list) != 0 {
			t.Errorf("questions %+v", list)
		}
		id, answer = asks("user")
		if d.loaded.ReplyTo(stale, "x") {
			t.Error("a reply to an earlier question counts")
		}
		if err := d.roles.Answer(id, first, "tg:8", "Green"); err == nil {
			t.Error("the answer to an earlier question counts")
		}
		if err := d.roles.Answer(id, questions()[0].ID, "", "Green"); err != nil || <-answer != "Green" {
			t.Errorf("answer: %v", err)
		}
		id, answer = asks("tg:7")
		list = questions()
		if len(list) != 1 || list[0].To != "tg:7" {
			t.Fatalf("questions %+v", list)
		}
		for _, by := range []string{"", "tg:8"} {
			if err := d.roles.Answer(id, list[0].ID, by, "x"); errtable.Find(err).HTTP != http.StatusForbidden {
				t.Errorf("as %q: %v", by, err)
			}
		}
		time.Sleep(10 * time.Minute)
		if list := questions(); len(list) != 0 || !strings.Contains(<-answer, "timed out") {
			t.Errorf("questions %+v", list)
		}
	})
}
