package role

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/sessionlog/record"
)

// spawnAll is a model whose channel spawns n workers for the message go, whose steps are
// those of work, and says fine.
func spawnAll(n int, work answer) func(q *request) answer {
	return func(q *request) answer {
		switch {
		case q.of == record.Worker:
			return work
		case q.of == Channel && q.last() == "go":
			a := answer{}
			for i := range n {
				a.calls = append(a.calls, fmt.Sprintf(`%s {"task":"t%d"}`, SpawnWorker, i))
			}
			return a
		}
		return say("fine")
	}
}

// used returns the heap's bytes and the number of goroutines.
func used() (heap int64, goroutines int) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), runtime.NumGoroutine()
}

// TestMemoryOfWork runs two works in each of many channels, and two more. No goroutine of
// the second two remains, and at most 1 KiB of memory for each work and its result. Ten
// conversations are loaded at a time: the memory of their messages is not the subject.
func TestMemoryOfWork(t *testing.T) {
	channels, measured := 3, os.Getenv("CRABMEM_ROLE_COSTS") != ""
	if measured {
		channels = 1000
	}
	bubbleOn(t, t.TempDir(), func(r *rig) {
		r.config.Roles.Running, r.config.Limits.Sessions = 2*channels, 10
		r.config.Origins = trust.Rules{{Prefix: "tg:", Level: trust.Trusted, Allow: []string{tool.Delegate + ":worker"}}}
		all := func() {
			for n := range channels {
				if a := r.send(fmt.Sprintf("tg:1%d", n), "go"); a != "fine" {
					t.Fatal(a, r.took())
				}
			}
			r.took()
			if len(r.items) != 2*channels {
				t.Fatalf("%d works run", len(r.items))
			}
		}
		r.reply = spawnAll(2, later(time.Hour, call(Outcome, `{"text":"result"}`)))
		all() // the runtime keeps the descriptors of goroutines
		r.settle(3 * time.Hour)
		heap, goroutines := used()
		all()
		busy, many := used()
		r.settle(3 * time.Hour)
		if len(r.items) != 0 || len(r.parents) != 0 {
			t.Errorf("%d works and %d parents remain", len(r.items), len(r.parents))
		}
		r.took()
		after, few := used()
		works := int64(2 * channels)
		t.Logf("%d works: %d KiB and %d goroutines before, %d and %d while they run, %d and %d after them", works, heap>>10, goroutines, busy>>10, many, after>>10, few)
		if few > goroutines {
			t.Errorf("%d goroutines before, %d after", goroutines, few)
		}
		if grown := after - heap; measured {
			gate.Most(t, "bytes of the heap that remain of each work", grown/works, 1<<10+int64(len("result")))
		}
	})
}
