package role

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/sessionlog/record"
)

// world runs a random history of a channel and its work, with restarts, kills, and power
// cuts. A model of the history knows which work exists and which outcomes it has.
type world struct {
	*rig
	rand *rand.Rand
	last bool // the history is over: the models finish what is open

	facts sync.Mutex
	acked map[string]int // outcomes that were reported of each work
}

// n returns a random number below n.
func (w *world) n(n int) int {
	w.facts.Lock()
	defer w.facts.Unlock()
	return w.rand.IntN(n)
}

// model is the response of a random model.
func (w *world) model(q *request) answer {
	id := fmt.Sprint("w", 1+w.n(9))
	if w.last {
		switch {
		case q.of == record.Worker:
			return call(Outcome, `{"text":"end"}`)
		case q.of == Channel && q.last() == "last":
			return call(Cancel, `{"id":"w999"}`)
		}
		return say("end")
	}
	wait := time.Duration(w.n(200)) * time.Second
	if q.of == Channel {
		wait = time.Duration(w.n(3)) * time.Second
	}
	a := answer{after: wait, text: []string{"", "text"}[w.n(2)]}
	for range 1 + w.n(2) {
		switch {
		case q.of == "end" || w.n(4) == 0 || a.err != nil:
			a.text = "said"
			return a
		case w.n(20) == 0:
			a.err = errModel
		case q.of == record.Worker:
			a.calls = append(a.calls, []string{
				fmt.Sprintf(`bash {"command":"%dm","timeout_secs":%d}`, w.n(30), 1+w.n(1800)), Outcome + ` {"text":"result"}`, Outcome + ` {"text":"result","ok":false}`,
				SetStatus + ` {"status":"half"}`, SetStatus + ` {}`, "bash {", "no_tool {}"}[w.n(7)])
		case q.of == record.Branch:
			a.calls = append(a.calls, []string{"recall {}", fmt.Sprintf(`%s {"task":"t%d"}`, SpawnWorker, w.n(1000))}[w.n(2)])
		default:
			a.calls = append(a.calls, []string{
				fmt.Sprintf(`%s {"task":"t%d"}`, SpawnWorker, w.n(1000)), fmt.Sprintf(`%s {"task":"t%d","interactive":true,"agent":"coder"}`, SpawnWorker, w.n(1000)),
				fmt.Sprintf(`%s {"question":"q%d"}`, Branch, w.n(1000)), fmt.Sprintf(`%s {"id":%q,"message":"more"}`, Route, id),
				fmt.Sprintf(`%s {"id":%q}`, Cancel, id), Reply + ` {"content":"soon"}`, "bash {}"}[w.n(7)])
		}
	}
	return a
}

// step does one random thing.
func (w *world) step() {
	id := fmt.Sprint([]string{"w", "b"}[w.n(2)], 1+w.n(4))
	switch w.n(10) {
	case 0, 1, 2:
		w.send("user", []string{"go", "more", "again"}[w.n(3)])
	case 3:
		_, _ = w.RouteTo(parentID, id, "more") // may be refused
	case 4:
		_, _ = w.CancelWork(parentID, id, "")
	case 5:
		w.restart()
	case 6:
		w.crash(func() *faultfs.Mem { return w.fs.Kill() })
	case 7:
		w.crash(func() *faultfs.Mem { return w.fs.Crash() })
	default:
		w.settle(time.Duration(w.n(600)) * time.Second)
	}
	synctest.Wait()
}

// crash stops the machine at a random moment of the next message, and starts it from what
// the disk then has.
func (w *world) crash(take func() *faultfs.Mem) {
	var image *faultfs.Mem
	var acked map[string]int
	calls, at := 0, w.n(60)
	var mu sync.Mutex
	w.hook(func(faultfs.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls == at {
			image = take()
			w.facts.Lock()
			acked = maps.Clone(w.acked)
			w.facts.Unlock()
		}
		return nil
	})
	w.send("user", "go")
	w.settle(time.Duration(w.n(300)) * time.Second)
	mu.Lock()
	if image == nil {
		image, acked = take(), maps.Clone(w.acked)
	}
	calls = at
	mu.Unlock()
	w.close()
	w.facts.Lock()
	w.acked = acked
	w.facts.Unlock()
	w.open(image)
	w.check(w.Start())
	synctest.Wait()
}

// verify checks the files: each start has its outcomes, each outcome is delivered exactly
// once, no reported outcome is lost, and each call has a result.
func (w *world) verify() error {
	parent := w.lines(parentID)
	for key, n := range counted(parent) {
		if n != 1 {
			return fmt.Errorf("%s is delivered %d times", key, n)
		}
	}
	delivered, starts := counted(parent), 0
	children, err := w.logs.Children()
	w.check(err)
	for session, of := range children {
		_, id, _ := strings.Cut(of, "/")
		if !strings.Contains(parent, "start "+id+" ") {
			return fmt.Errorf("%s has no start", session)
		}
		starts++
		ends, open := 0, true
		for line := range strings.Lines(w.lines(session)) {
			switch {
			case strings.HasPrefix(line, "end "):
				if ends++; !open {
					return fmt.Errorf("%s ended twice:\n%s", id, w.lines(session))
				}
				open = strings.HasPrefix(line, "end "+record.Waiting)
			case strings.HasPrefix(line, "route "):
				open = true
			}
		}
		if open || ends == 0 {
			return fmt.Errorf("%s has no outcome:\n%s", id, w.lines(session))
		}
		if ends < w.acked[id] {
			return fmt.Errorf("%s lost an outcome: %d of %d", id, ends, w.acked[id])
		}
		got := 0
		for key := range delivered {
			if name, _, _ := strings.Cut(key, "."); name == id {
				got++
			}
		}
		if got != ends {
			return fmt.Errorf("%s has %d outcomes, %d delivered", id, ends, got)
		}
		if err := w.answered(session); err != nil {
			return err
		}
	}
	if n := strings.Count("\n"+parent, "\nstart "); n != starts {
		return fmt.Errorf("%d starts, %d children", n, starts)
	}
	for id := range w.acked {
		if !strings.Contains(parent, "start "+id+" ") {
			return fmt.Errorf("%s is lost", id)
		}
	}
	return w.answered(parentID)
}

// counted counts the keys of the deliveries in the lines of a session.
func counted(lines string) map[string]int {
	keys := make(map[string]int)
	for line := range strings.Lines(lines) {
		if _, list, ok := strings.Cut(line, " ["); ok && strings.HasSuffix(line, "]\n") {
			for _, key := range strings.Fields(strings.TrimSuffix(list, "]\n")) {
				keys[key]++
			}
		}
	}
	return keys
}

// answered checks that each call of a session has a result.
func (w *world) answered(session string) error {
	s, err := w.logs.Read(session)
	w.check(err)
	defer s.Close()
	c, err := s.LenientContext()
	w.check(err)
	open := 0
	for _, m := range c.Messages {
		switch {
		case m.Role == record.RoleTool:
			open--
		case open != 0:
			return fmt.Errorf("%s: %d calls without a result", session, open)
		default:
			open = len(m.ToolCalls)
		}
	}
	return nil
}

// history runs one history.
func history(t *testing.T, seed uint64) {
	bubble(t, func(r *rig) {
		w := &world{rig: r, rand: rand.New(rand.NewPCG(seed, 1)), acked: make(map[string]int)}
		r.reply = w.model
		r.published = func(e agent.Event) {
			w.facts.Lock()
			defer w.facts.Unlock()
			switch e.Kind {
			case agent.WorkStarted:
				w.acked[e.ID] += 0
			case agent.WorkEnded, agent.WorkWaiting:
				w.acked[e.ID]++
			}
		}
		w.send("user", "go")
		for range 3 + w.n(8) {
			w.step()
		}
		r.settle(3 * time.Hour)
		w.last = true
		r.settle(time.Hour)
		// What waits is closed, and what is not delivered comes with the next run.
		for n := range 99 {
			_, _ = w.CancelWork(parentID, fmt.Sprint("w", n+1), "")
		}
		w.send("user", "last")
		w.send("user", "last")
		r.settle(time.Minute)
		if err := w.verify(); err != nil {
			t.Errorf("seed %d: %v\n%s\n%s", seed, err, w.lines(parentID), r.took())
		}
		if len(r.items) != 0 || len(r.parents) != 0 {
			t.Errorf("seed %d: %d items and %d parents remain", seed, len(r.items), len(r.parents))
		}
	})
}

// TestHistories runs random histories. CRABMEM_ROLE_HISTORIES sets their number.
func TestHistories(t *testing.T) {
	first, count := uint64(1), 40
	if testing.Short() {
		count = 10
	}
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_ROLE_HISTORIES")); err == nil {
		count, first = n, uint64(time.Now().UnixNano())
	}
	if text := os.Getenv("CRABMEM_ROLE_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, count = n, 1
	}
	for n := range count {
		if history(t, first+uint64(n)); t.Failed() {
			break
		}
	}
	t.Logf("%d histories, seeds from %d", count, first)
}
