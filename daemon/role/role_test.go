package role

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/sessionlog/record"
)

// TestChannel gives a worker and a branch work, and follows their results to the user.
func TestChannel(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = func(q *request) answer {
			switch q.of {
			case Channel:
				switch {
				case strings.Contains(q.last(), "results of work"):
					return say("it passed")
				case q.last() == "go":
					return answer{calls: []string{SpawnWorker + ` {"task":"run the tests"}`, Branch + ` {"question":"why?"}`}}
				}
				return say("on it")
			case record.Worker:
				if q.has("ran true") {
					return call(Outcome, `{"text":"12 passed"}`)
				}
				return later(time.Minute, call("bash", `{"command":"true"}`))
			case record.Branch:
				if !q.has("go") {
					t.Error("the branch does not see the conversation")
				}
				return later(10*time.Second, say("because"))
			}
			return say("bye")
		}
		if a := r.send("user", "go"); a != "on it" {
			t.Errorf("answer %q", a)
		}
		synctest.Wait()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		t.Log(r.took())
		t.Log(r.lines("crab_user_1"))
	})
}
