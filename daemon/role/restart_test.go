package role

import (
	"strings"
	"testing"
	"time"
)

// TestRestartBeforeAnswer restarts the daemon twice after the delivery of the last outcome
// and before the channel's answer to it. The channel answers once.
func TestRestartBeforeAnswer(t *testing.T) {
	bubble(t, func(r *rig) {
		wait := time.Hour
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return call(SpawnWorker, `{"task":"a"}`)
			case q.of != Channel || !q.has("12 passed"):
				return answer{text: "begun", calls: map[bool][]string{true: {Outcome + ` {"text":"12 passed"}`}}[q.of == "worker"]}
			}
			return later(wait, say("fine"))
		}
		r.send("user", "go")
		for range 2 {
			r.settle(4 * time.Second)
			if file := r.lines(parentID); !strings.Contains(file, "[w1.1]") || strings.Contains(file, "fine") {
				t.Error(file)
			}
			r.restart()
		}
		wait = 0
		r.settle(time.Minute)
		if file := r.lines(parentID); strings.Count(file, "[w1.1]") != 1 || strings.Count(file, "assistant: fine") != 1 {
			t.Error(file)
		}
		if list, err := r.fs.ReadDir(rigHome + "/work"); err != nil || len(list) > 0 {
			t.Errorf("%v, %v", list, err)
		}
	})
}
