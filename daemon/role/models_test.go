package role

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/config"
	"crabmem/daemon/session"
	"crabmem/sessionlog/record"
)

// TestModels: each role has its model, a branch that of the run that thinks, and a task
// that of its type, also after a restart. A request's own model wins for its run.
func TestModels(t *testing.T) {
	for _, c := range []struct {
		models               config.RoleModels
		types                map[string]string
		run, kind            string // of the request, and the type of the task
		channel, branch, job string
	}{
		{channel: "script", branch: "script", job: "script"},
		{models: config.RoleModels{Channel: "small"}, kind: "free text", channel: "small", branch: "small", job: "script"},
		{models: config.RoleModels{Channel: "small", Branch: "big", Worker: "big"}, channel: "small", branch: "big", job: "big"},
		{models: config.RoleModels{Worker: "big"}, types: map[string]string{"coding": "code"}, kind: "coding", channel: "script", branch: "script", job: "code"},
		{models: config.RoleModels{Channel: "small", Worker: "big"}, types: map[string]string{"coding": "code"}, run: "code", channel: "code", branch: "code", job: "big"},
	} {
		bubble(t, func(r *rig) {
			r.config.Roles.Models, r.config.Roles.TaskModels = c.models, c.types
			calls := map[string]string{} // models by role, the ones before the restart first
			r.reply = func(q *request) answer {
				if of := q.of; !strings.HasSuffix(calls[of], q.Model) {
					calls[of] += " " + q.Model
				}
				switch last := q.last(); {
				case q.of == record.Worker && last == "the job":
					return later(time.Minute, call("bash", `{"command":"1h"}`))
				case q.of == record.Worker:
					return call(Outcome, `{"text":"done"}`)
				case q.of == Channel && last == "go":
					return answer{calls: []string{"branch {\"question\":\"why\"}", fmt.Sprintf(`spawn_worker {"task":"the job","task_type":%q}`, c.kind)}}
				}
				return say("ok")
			}
			called := func(of string) string {
				r.turn.Lock()
				defer r.turn.Unlock()
				return calls[of]
			}
			l, err := r.sessions.Resolve(r.t.Context(), &session.Request{Agent: "crab", Sender: "user", Content: "go"})
			r.check(err)
			run := session.Run{Session: l, Content: "go", Sender: "user", Model: c.run}
			r.order()
			r.check(r.sessions.Run(r.t.Context(), &run))
			synctest.Wait()
			if called(Channel) != " "+c.channel || called(record.Branch) != " "+c.branch {
				t.Errorf("%+v: called %s, %s", c, called(Channel), called(record.Branch))
			}
			time.Sleep(2 * time.Minute)
			r.crash()
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if called(record.Worker) != " "+c.job || !strings.Contains(r.took(), "work_ended w1") {
				t.Errorf("%+v: called %s", c, called(record.Worker))
			}
		})
	}
}

// TestTaskType: an unknown type of a task is refused with the ones that exist.
func TestTaskType(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Roles.TaskModels = map[string]string{"coding": "code", "reading": "small"}
		refused := ""
		r.reply = func(q *request) answer {
			if q.last() == "go" {
				return call(SpawnWorker, `{"task":"x","task_type":"codeing"}`)
			}
			refused = q.last()
			return say("ok")
		}
		r.send("user", "go")
		r.turn.Lock()
		defer r.turn.Unlock()
		if want := "no such task_type: codeing: want coding, reading, or omit it"; !strings.Contains(refused, want) {
			t.Errorf("refused with %q, want %q", refused, want)
		}
	})
}

// TestCortex: an agent with the role cortex has its model and its tools. Only an admin's run
// reads the configuration, and work that the agent gives out never does.
func TestCortex(t *testing.T) {
	for sender, may := range map[string]bool{"user": true, "tg:7": false} {
		bubble(t, func(r *rig) {
			r.config.Agents[1].Role, r.config.Roles.Models.Cortex = config.Cortex, "big"
			var own, worker []string
			r.reply = func(q *request) answer { // the rig has no tools that change memory
				names := make([]string, len(q.Tools))
				for i := range q.Tools {
					names[i] = q.Tools[i].Name
				}
				slices.Sort(names)
				switch last := q.last(); {
				case q.of == record.Worker:
					worker = names
					return call(Outcome, `{"text":"done"}`)
				case last == "go":
					own = append(names, q.Model)
					return answer{calls: []string{`spawn_worker {"task":"the job"}`, `config_inspect {"section":"roles"}`}}
				case q.has("roles.keep = 1 (default)"):
					return say("inspected")
				}
				return say("no answer")
			}
			if answer := r.send(sender, "go"); strings.Contains(answer, "inspected") != may {
				t.Errorf("%s: %s", sender, answer)
			}
			r.settle(time.Minute)
			want := "ask_user cancel channel_recall config_inspect docs recall route spawn_worker big"
			if !may {
				want = strings.Replace(want, "config_inspect ", "", 1)
			}
			if got := strings.Join(own, " "); got != want || len(worker) == 0 || slices.Contains(worker, ConfigInspect) {
				t.Errorf("%s: has %s; its worker has %s", sender, got, worker)
			}
		})
	}
}
