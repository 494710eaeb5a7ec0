//go:build unix

package displaced_test

import (
	"slices"
	"testing"

	"crabmem/crmem/vfs/faultfs"
)

// duringChanges lists the changes of TestChangeDuring.
var duringChanges = []string{"remove", "replace, same bytes", "replace, older bytes", "overwrite, older bytes", "truncate to a boundary"}

// TestChangeDuring changes files before each call of a write, a checkpoint, or a clean
// stop. The last change is before the last check of a file name. After a write or a
// checkpoint the process writes again and stops. The acknowledged entries must be in
// the store, or in the copy that a message names.
func TestChangeDuring(t *testing.T) {
	step, i := 5, 0
	if full() {
		step = 1
	}
	counts := map[string]int{}
	for _, st := range starts {
		for _, tg := range targets[:4] {
			for _, ch := range changes {
				if !slices.Contains(duringChanges, ch.name) {
					continue
				}
				for _, nx := range []next{nexts[0], nexts[2], nexts[3]} {
					c := &cell{st, tg, ch, nx}
					last := c.during(t, 0, counts)
					i++
					for n := 1 + i%step; n <= last; n += step {
						c.during(t, n, counts)
					}
				}
			}
		}
	}
	t.Logf("changes before a call: %v", counts)
}

// during runs a cell and makes the change before call n of the writer. If n is 0,
// it makes no change and returns the number of the last check of a file name.
func (c *cell) during(t *testing.T, n int, counts map[string]int) (last int) {
	m := newMem()
	a := newActor(m)
	c.start.do(a, c.next.mode)
	calls := 0
	var at faultfs.Call
	m.Hook = func(call faultfs.Call) error {
		if calls++; call.Op == "lstat" {
			last = calls
		}
		if calls == n {
			m.Hook, at = nil, call
			c.change.apply(m, c.target)
		}
		return nil
	}
	s := a.s
	c.next.do(a)
	m.Hook = nil
	if n == 0 {
		return last
	}
	if c.next.name != "stop" {
		a.s = s
		a.write("z")
		a.close()
	}
	o := &oracle{t: t, acked: a.acked, maybe: a.maybe}
	outcome := o.outcome(m.copied(t))
	counts[outcome]++
	if bad(outcome, c.next) || len(o.extra) > 0 {
		t.Errorf("%v, changed before call %d, %+v: %s %v\nerrors: %v\nnext open: %q", c, n, at, outcome, o.extra, a.errs, o.messages)
	}
	return last
}
