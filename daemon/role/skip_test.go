package role

import (
	"strings"
	"testing"
	"time"

	"crabmem/daemon/session"
	"crabmem/sessionlog/record"
)

// as sends a message of an identity to the session of user, and returns the answer.
func (r *rig) as(sender, text, request string) string {
	r.t.Helper()
	l, err := r.sessions.Open(r.t.Context(), parentID, "")
	r.check(err)
	run := session.Run{Session: l, Content: text, Sender: sender, Request: request}
	r.order()
	err = r.sessions.Run(r.t.Context(), &run)
	r.settle(0)
	if err != nil {
		return "error: " + err.Error()
	}
	return run.Answer
}

// TestSkip ends runs without an answer: only where several people speak, and once for a
// request.
func TestSkip(t *testing.T) {
	bubble(t, func(r *rig) {
		calls, empty := 0, false
		r.reply = func(q *request) answer {
			calls++
			for _, m := range q.Messages {
				empty = empty || m.Role == record.RoleAssistant && m.Content == "" && len(m.ToolCalls) == 0
			}
			switch {
			case q.last() == "hello" || q.last() == "not you":
				return call(Skip, `{"reason":"not for me"}`)
			case strings.HasPrefix(q.last(), "only one person speaks"):
				return say("refused")
			case q.last() == "more" && !q.has("[no response]"):
				t.Error("the next request has no answer before it")
			}
			return say("fine")
		}
		if a := r.send("user", "hello"); a != "refused" {
			t.Errorf("alone: %q", a)
		}
		for range 2 { // the second is a repeated request
			if a := r.as("tg:1", "not you", "r1"); a != "" {
				t.Errorf("a group: %q", a)
			}
		}
		if calls != 3 {
			t.Errorf("%d calls of the model", calls)
		}
		if file := r.lines(parentID); !strings.HasSuffix(file, "tool: no answer will be sent\nassistant: \n") {
			t.Error(file)
		}
		if a := r.as("user", "more", ""); a != "fine" || empty {
			t.Errorf("answer %q; a request has an empty message: %v", a, empty)
		}
		if a := r.as("user", "not you", ""); a != "" { // tg:1 has spoken
			t.Errorf("the creator in a group: %q", a)
		}
	})
}

// TestSkipResults skips in a wake, and when results arrive: both need an answer.
func TestSkipResults(t *testing.T) {
	for _, wake := range []bool{true, false} {
		bubble(t, func(r *rig) {
			r.reply = func(q *request) answer {
				switch {
				case q.of == record.Worker:
					return later(time.Second, call(Outcome, `{"text":"ok"}`))
				case q.last() == "go" && wake:
					return call(SpawnWorker, `{"task":"x"}`)
				case q.last() == "go":
					return answer{calls: []string{SpawnWorker + ` {"task":"x"}`, Reply + ` {"content":"on it"}`}}
				case wake && q.has("results need an answer"), !wake && q.has("results of work"):
					return say("it is ok")
				case wake && q.has("results of work"):
					return call(Skip, `{}`)
				case !wake && strings.Contains(q.last(), "said"):
					return later(time.Minute, call(Skip, `{}`))
				}
				return say("fine")
			}
			r.send("user", "hello")
			r.as("tg:1", "go", "")
			r.settle(5 * time.Minute)
			if file := r.lines(parentID); !strings.HasSuffix(file, "assistant: it is ok\n") {
				t.Errorf("wake %v: %s", wake, file)
			}
		})
	}
}
