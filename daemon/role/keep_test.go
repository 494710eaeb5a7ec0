package role

import (
	"strings"
	"testing"
	"time"

	"crabmem/sessionlog/record"
)

// places returns where a session's file is: sessions, trash, or both.
func (r *rig) places(id string) string {
	var list []string
	for _, dir := range []string{"/sessions", "/sessions/.trash"} {
		if _, err := r.fs.Lstat(rigHome + dir + "/" + id + ".jsonl"); err == nil {
			list = append(list, dir)
		}
	}
	return strings.Join(list, " ")
}

// TestKeep moves the session of delivered work to the trash after [roles] keep, with its
// long results, and the session of no other work.
func TestKeep(t *testing.T) {
	const day = 24 * time.Hour
	bubble(t, func(r *rig) {
		long := strings.Repeat("0123456789", 2000)
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && strings.HasPrefix(q.last(), "go "):
				return call(SpawnWorker, `{"task":"`+q.last()+`","interactive":`+map[bool]string{true: "true", false: "false"}[q.last() == "go ask"]+`}`)
			case q.of == record.Worker && !q.has("ran "):
				return call("bash", `{"command":"`+long+`"}`)
			case q.of == record.Worker:
				return call(Outcome, `{"text":"12 passed"}`)
			}
			return say("fine")
		}
		r.check(r.Start())
		r.config.Roles.Wakes = 0 // a delivery needs no answer
		r.send("user", "go once")
		r.settle(time.Minute)
		r.config.Roles.WaitingTimeout = 1000 * day
		r.send("user", "go ask")
		r.settle(time.Minute)
		child := func(id string) string {
			v, err := r.Show(parentID, id)
			r.check(err)
			return v.Child
		}
		old, asks := child("w1"), child("w2")
		results := func(id string) bool {
			_, err := r.fs.ReadDir(rigHome + "/results/" + id)
			return err == nil
		}
		r.settle(29 * day)
		if got := r.places(old); got != "/sessions" || !results(old) {
			t.Fatalf("after 29 days: %s", got)
		}
		r.settle(2 * day)
		if got := r.places(old) + ", " + r.places(asks); got != "/sessions/.trash, /sessions" || results(old) || !results(asks) {
			t.Errorf("after 31 days: %s; results: %v, %v", got, results(old), results(asks))
		}
		if list, err := r.List(parentID); err != nil || len(list) != 1 {
			t.Errorf("%d items are listed: %v", len(list), err)
		}
		r.check(r.logs.Restore(old))
	})
}
