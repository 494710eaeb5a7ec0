package linear

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"crabmem/crmem"
)

// Now is the constant time of every store of this package, in seconds.
const Now = 1_776_162_225

// Clock returns Now.
func Clock() time.Time { return time.Unix(Now, 0) }

// Writer generates the calls of one goroutine. Conditions depend on the
// responses that it received.
type Writer struct {
	rng  *rand.Rand
	id   int
	tag  string // prefix of the contents, unique per run of writers
	n    int
	seen [Names]*crmem.Entry // entries of the last responses; nil means no entry
}

// NewWriter returns the writer with this ID. The contents that it writes start with
// tag.
func NewWriter(seed uint64, id int, tag string) *Writer {
	return &Writer{rng: rand.New(rand.NewPCG(seed, uint64(id))), id: id, tag: tag}
}

// Next returns a random call.
func (w *Writer) Next() Call {
	c := Call{Writer: w.id}
	a := w.rng.IntN(Names)
	b := (a + 1 + w.rng.IntN(Names-1)) % Names
	switch w.rng.IntN(12) {
	case 0:
		c.Ops = []Op{w.op("get", a)}
	case 1:
		c.Ops = []Op{w.op("remember", a)}
	case 2:
		c.Ops = []Op{w.op("forget", a)}
	case 3:
		c.Ops = []Op{w.op([]string{"add", "add", "add", "archive"}[w.rng.IntN(4)], a)}
	case 4:
		c.Ops = []Op{w.op("update", a)}
	case 5:
		c.Ops = []Op{w.op("alias", a)}
	case 6:
		c.Ops = []Op{w.op("remove", a)}
	case 7: // replaces the entry
		c.Ops = []Op{w.op("remove", a), w.op("add", a)}
	case 8: // renames the entry
		c.Ops = []Op{w.op("remove", a), w.op("add", b)}
	case 9: // changes an entry if it is unchanged
		c.Ops = []Op{w.op("unchanged", a), w.op("update", a), w.op("alias", a)}
	case 10: // creates an entry if it is absent, or removes it if it is unchanged
		c.Ops = []Op{w.op("unchanged", a), w.op("add", a)}
		if w.seen[a] != nil {
			c.Ops[1].Do = "remove"
		}
	case 11: // replaces an entry if it and another entry are unchanged
		c.Ops = []Op{w.op("unchanged", a), w.op("unchanged", b), w.op("remove", b), w.op("add", b)}
	}
	return c
}

func (w *Writer) op(do string, name int) Op {
	w.n++
	op := Op{Do: do, Name: name}
	switch do {
	case "unchanged":
		op.Entry = w.seen[name]
		return op
	case "get", "forget", "remove":
		return op
	}
	if do != "alias" {
		op.Content = fmt.Sprintf("%s/%d/%d", w.tag, w.id, w.n)
	}
	if w.rng.IntN(2) == 0 || do == "alias" {
		op.Aliases = []string{fmt.Sprintf("alias %d/%d", w.id, w.n), "common"}[:1+w.rng.IntN(2)]
	}
	return op
}

// Saw records the response to the last call.
func (w *Writer) Saw(c *Call) {
	if c.Err != "" {
		if c.Err == "not found" {
			w.seen[c.Ops[0].Name] = nil
		}
		return
	}
	got := c.Got
	for i := range c.Ops {
		switch op := &c.Ops[i]; op.Do {
		case "unchanged":
		case "remove", "forget":
			w.seen[op.Name] = nil
		default:
			w.seen[op.Name] = &got[0]
			got = got[1:]
		}
	}
}

// History records calls of several writers in time order. The methods may be called
// concurrently.
type History struct {
	mu    sync.Mutex
	clock int
	calls []Call
	open  map[int]int // writer → index of the writer's last call
}

// Begin records the start of a call.
func (h *History) Begin(c Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = map[int]int{}
	}
	h.clock++
	c.Begin = h.clock
	h.open[c.Writer] = len(h.calls)
	h.calls = append(h.calls, c)
}

// End records the response to the writer's last call.
func (h *History) End(c Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	at := &h.calls[h.open[c.Writer]]
	at.End, at.Err, at.Got = h.clock, c.Err, c.Got
}

// Calls returns the calls so far.
func (h *History) Calls() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Call(nil), h.calls...)
}

// Play executes n calls in each of several goroutines and calls pause after each.
// It returns the calls and the errors of Call.Run.
func Play(s *crmem.Store, seed uint64, tag string, writers, n int, pause func()) ([]Call, error) {
	var h History
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		wg.Go(func() {
			w := NewWriter(seed, i, tag)
			for range n {
				c := w.Next()
				h.Begin(c)
				if errs[i] = c.Run(s); errs[i] != nil {
					return
				}
				h.End(c)
				w.Saw(&c)
				pause()
			}
		})
	}
	wg.Wait()
	return h.Calls(), errors.Join(errs...)
}
