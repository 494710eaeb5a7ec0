package daemoncrash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/internal/fault"
)

// TestRandom repeatedly cuts the power while four clients send requests. Each daemon
// of a history runs on the disk after the previous power cut.
func TestRandom(t *testing.T) {
	n, lives := 8, 6
	if full {
		n, lives = 40, 12
	}
	first, n := crashtest.Seeds(n)
	cuts, idles := 0, 0
	acked := map[string]int{}
	for seed := first; seed < first+uint64(n); seed++ {
		h, err := newHistory(seed)
		for i := 0; err == nil && i < lives; i++ {
			err = h.life()
		}
		if err != nil {
			t.Errorf("seed %d, life %d: %v", seed, h.lives, err)
		}
		cuts += h.cuts
		idles += h.lives - h.cuts
		for kind, k := range h.l.counts() {
			acked[kind] += k
		}
	}
	t.Logf("random histories of daemons checked: %d power cuts during requests of 4 clients, %d while idle, 0 lost; at the end %v", cuts, idles, acked)
	if cuts == 0 {
		t.Error("no power cut during requests")
	}
}

// history is a home with a sequence of daemons, each of which ends with a power cut.
type history struct {
	rng     *rand.Rand
	m       *faultfs.Mem
	mu      sync.Mutex
	l       *ledger
	clients []*client
	lives   int // number of daemons
	cuts    int // number of power cuts during requests
}

func newHistory(seed uint64) (*history, error) {
	h := &history{rng: rand.New(rand.NewPCG(seed, 3)), l: newLedger()}
	for i := range 4 {
		h.clients = append(h.clients, &client{who: fmt.Sprint("client-", i), mu: &h.mu, l: &h.l, crons: map[string]uint64{}})
	}
	var err error
	h.m, err = newMachine()
	return h, err
}

var errPower = errors.New("power cut")

// life has the clients send requests until the power is cut, and checks the disk.
// Acknowledgments after the power cut do not count.
func (h *history) life() error {
	h.lives++
	after, percent := h.rng.IntN(400), 25*h.rng.IntN(5)
	r := rand.New(rand.NewPCG(h.rng.Uint64(), 5))
	var image *faultfs.Mem
	var acked *ledger
	cut := func() { // h.mu is held
		frozen := h.m.Kill()
		image, acked = frozen.Crash(fault.RandomOutcome(r, frozen.Unsynced(), percent)...), h.l.clone()
	}
	h.m.Hook = func(c faultfs.Call) error {
		if err := crashtest.NoReserve(c); err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if fault.Mutates(c.Op) {
			if after--; after < 0 && image == nil {
				cut()
				h.cuts++
			}
		}
		if image != nil {
			return errPower
		}
		return nil
	}
	d, err := openDaemon(h.m)
	if err == nil {
		var wg sync.WaitGroup
		errs := make([]error, len(h.clients))
		for i, c := range h.clients {
			c.d, c.rng = d, rand.New(rand.NewPCG(h.rng.Uint64(), 6))
			wg.Go(func() {
				for k := 0; k < 12 && errs[i] == nil; k++ {
					symbol := "config" // not sent here: all clients share one configuration
					for symbol == "config" || symbol == "reopen" {
						symbol = alphabet[c.rng.IntN(len(alphabet))]
					}
					errs[i] = c.do(symbol)
				}
			})
		}
		wg.Wait()
		err = errors.Join(errs...)
	}
	h.mu.Lock()
	if image == nil {
		if err != nil {
			h.mu.Unlock()
			return err // an error without a power cut
		}
		cut()
	}
	h.mu.Unlock()
	if d != nil {
		_ = d.Close() // on the dead machine
	}
	return h.reopen(image, acked)
}

// reopen checks the disk of a machine, which becomes the machine of the history.
func (h *history) reopen(m *faultfs.Mem, acked *ledger) error {
	j := newOracle()
	f, err := j.recover(m.Kill(), acked, h.lives%3 == 0)
	if err != nil {
		return err
	}
	if err := acked.check(f, false); err != nil {
		return err
	}
	acked.settle(f)
	h.l, h.m = acked, m
	for _, c := range h.clients {
		c.crons = map[string]uint64{}
		for args, id := range f.crons {
			if belongs(args, c.who) {
				c.crons[args] = id
			}
		}
	}
	return nil
}
