package gateway

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"crabmem/daemon/model/modeltest"
	"crabmem/fuzz/race"
)

// fill occupies all of a room for another key.
func (r *room) fill() (free func()) {
	other := party{key: "other"}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.most - r.used
	r.add(other, n)
	return func() { r.give(other, n) }
}

// TestRoom takes and gives at random, against a model of the limits.
func TestRoom(t *testing.T) {
	random := rand.New(rand.NewPCG(31, 32))
	r := newRoom(64)
	parties := []party{{"a", false}, {"b", false}, {"c", true}, {"d", true}, {"e", true}, {"f", true}, {"g", true}, {"h", true}}
	held := make(map[party]int64)
	for range 100_000 {
		p, n := parties[random.IntN(len(parties))], int64(1+random.IntN(6))
		if random.IntN(3) == 0 {
			if held[p] >= n {
				r.give(p, n)
				held[p] -= n
			}
			continue
		}
		var all, untrusted int64
		for q, n := range held {
			all += n
			if q.isUntrusted {
				untrusted += n
			}
		}
		share := int64(32)
		if p.isUntrusted {
			share = 8
		}
		want := all+n <= 64 && held[p]+n <= share && !(p.isUntrusted && untrusted+n > 32)
		ok, full := r.take(p, n)
		if ok != want || full != (all+n > 64) {
			t.Fatalf("%v takes %d of %v: %v, %v", p, n, held, ok, full)
		}
		if ok {
			held[p] += n
		}
	}
	for p, n := range held {
		if n > 0 {
			r.give(p, n)
		}
	}
	if r.used != 0 || r.untrusted != 0 || len(r.byKey) != 0 {
		t.Errorf("at the end %d, %d, %v", r.used, r.untrusted, r.byKey)
	}
}

// slow sends the header of a request, and the beginning of its body.
func (r *rig) slow(who, path string, length int, body string) net.Conn {
	r.t.Helper()
	host := strings.TrimPrefix(r.url, "http://")
	c, err := net.Dial("tcp", host)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, host, r.keys[who], length, body)
	return c
}

// TestSlowBodies: many requests of an untrusted key, each with the beginning of a body,
// occupy its share of the readers, the bytes that they sent, and no call. The others are
// refused, and other keys are served.
func TestSlowBodies(t *testing.T) {
	r := newRig(t)
	share := r.g.readers.share(party{"api:eve", true})
	before := runtime.NumGoroutine()
	var conns []net.Conn
	for range 64 {
		conns = append(conns, r.slow("eve", "/v1/recall", 500_000, "{"))
	}
	r.eventually("the share is occupied", func() bool { return r.g.readers.occupied() == share })
	r.want("another key", r.do("ann", "POST", "/v1/recall", object{"query": "x"}), 200, "")
	r.want("an admin", r.do("root", "GET", "/v1/agents", nil), 200, "")
	if calls, bytes := r.g.calls.occupied(), r.g.memory.occupied(); calls != 0 || bytes > share*minBuffer {
		t.Errorf("%d calls and %d bytes are occupied", calls, bytes)
	}
	r.eventually("the goroutines of refused requests end", func() bool { return runtime.NumGoroutine() <= before+4*int(share)+40 })
	for _, c := range conns {
		c.Close()
	}
	r.eventually("nothing is occupied", func() bool { return r.g.readers.occupied()+r.g.memory.occupied()+r.g.calls.occupied() == 0 })
	r.want("the key itself", r.do("eve", "POST", "/v1/recall", object{"query": "x"}), 403, "scope")
}

// TestBigBodies: a route that changes the memory refuses an untrusted key before its body,
// and the bodies of a trusted key occupy at most its share of the memory.
func TestBigBodies(t *testing.T) {
	race.Skip(t)
	r := newRig(t)
	c := r.slow("eve", "/v1/memories", maxBigBody, "")
	p, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || p.StatusCode != 403 {
		t.Errorf("an untrusted key: %v, %v", p, err)
	}
	part := strings.Repeat("x", maxBigBody-100)
	share := r.g.memory.share(party{"api:ann", false})
	statuses := make(chan int, 8)
	for range cap(statuses) {
		c := r.slow("ann", "/v1/memories", maxBigBody, "{")
		go func() { // ends with the connection
			_, _ = io.WriteString(c, part)
			p, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				statuses <- 0
				return
			}
			statuses <- p.StatusCode
		}()
	}
	refused := cap(statuses) - int(share/maxBigBody)
	for range refused {
		if status := <-statuses; status != 429 && status != 0 { // 0: refused while it was sent
			t.Errorf("status %d", status)
		}
	}
	if n := r.g.memory.occupied(); n > share {
		t.Errorf("%d bytes are occupied, the share is %d", n, share)
	}
	r.want("another key", r.do("bob", "POST", "/v1/memories", object{"name": "a", "content": strings.Repeat("word ", 1<<20)}), 201, "")
}

// TestHookShares: the messages of one key occupy its share of the runs, and those of
// another are answered.
func TestHookShares(t *testing.T) {
	r := newRig(t)
	r.model.Func(func(q modeltest.Request) modeltest.Reply {
		if strings.Contains(q.LastUser(), "stall") {
			return modeltest.Stall()
		}
		return modeltest.Say("x")
	})
	for i := range 6 {
		r.want("send", r.do("eve", "POST", "/webhook/send", hookMessage{Conversation: fmt.Sprint("c", i), Content: "stall"}), 202, "")
	}
	share := r.g.hooks.runs.share(party{"api:eve", true})
	r.eventually("the share is occupied", func() bool { return r.g.hooks.runs.occupied() == share })
	r.want("send", r.do("ann", "POST", "/webhook/send", hookMessage{Conversation: "a", Content: "hi"}), 202, "")
	p := r.want("poll", r.do("ann", "GET", "/webhook/poll/a?wait=60", nil), 200, "")
	if p.field("messages.0.content") != "x" || r.g.hooks.runs.occupied() > share {
		t.Errorf("%s, %d runs", p.body, r.g.hooks.runs.occupied())
	}
	r.model.Release()
}
