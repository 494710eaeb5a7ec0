package role

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/config"
	"crabmem/sessionlog/record"
)

// TestForkWorker gives tasks to workers with and without the conversation: by the call, by
// the agent's configuration, and after a message and a restart.
func TestForkWorker(t *testing.T) {
	for _, c := range []struct {
		args, agent string // the call's context, and the agent's
		sees        bool
	}{{"", "", false}, {"fork", "", true}, {"", "fork", true}, {"none", "fork", false}} {
		bubble(t, func(r *rig) {
			r.config.Agents[0].Context = c.agent // coder
			r.config.Workers = []config.ExternalWorker{{Name: "ext", Command: "/bin/true", Protocol: "exec"}}
			r.config.Agents[1].Members = append(r.config.Agents[1].Members, "ext")
			r.close()
			r.open(r.fs)
			runs := 0
			r.reply = func(q *request) answer {
				switch {
				case q.of == record.Worker:
					if runs++; q.has("the code is blue") != c.sees || q.has("too old") || !q.has("paint it") {
						t.Errorf("%+v: run %d sees the conversation: %v", c, runs, !c.sees)
					}
					if runs == 1 {
						return later(time.Hour, say("cut off by a restart"))
					}
					return call(Outcome, `{"text":"ok"}`)
				case q.last() == "go":
					return answer{calls: []string{
						SpawnWorker + fmt.Sprintf(` {"task":"paint it","agent":"coder","interactive":true,"context":%q}`, c.args),
						SpawnWorker + ` {"task":"x","agent":"ext","context":"fork"}`,
						SpawnWorker + ` {"task":"x","context":"all"}`,
					}}
				}
				return say("fine")
			}
			r.send("user", "too old"+strings.Repeat(".", 170_000))
			r.send("user", "the code is blue")
			r.send("user", "go")
			r.restart()
			r.settle(time.Minute)
			if _, err := r.RouteTo(parentID, "w1", "more"); err != nil {
				t.Error(err)
			}
			r.settle(time.Minute)
			file := r.lines(parentID)
			if runs != 3 || !strings.Contains(file, "and no conversation\n") || !strings.Contains(file, "tool: no such context: all: want none or fork\n") {
				t.Errorf("%+v: %d runs: %s", c, runs, file[max(0, len(file)-1500):])
			}
			_, _ = r.CancelWork(parentID, "w1", "")
			r.settle(time.Minute)
		})
	}
}
