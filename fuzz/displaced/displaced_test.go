//go:build unix

package displaced_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
)

// cell is one combination of the table.
type cell struct {
	start  start
	target target
	change change
	next   next
}

func (c *cell) String() string {
	return fmt.Sprintf("%s / %s / %s / %s", c.start.name, c.target.name, c.change.name, c.next.name)
}

// result is the outcome of a cell, with the messages of the next open and the
// errors of the writers.
type result struct {
	outcome  string
	messages []string
	errs     []error
}

// run runs a cell in memory.
func (c *cell) run(t *testing.T) (r result) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%v: panic: %v", c, p)
		}
	}()
	m := newMem()
	a := newActor(m)
	c.start.do(a, c.next.mode)
	c.change.apply(m, c.target)
	c.next.do(a)
	if c.next.name == rebootColumn {
		return c.check(t, m.rebooted(), a)
	}
	return c.check(t, m.copied(t), a)
}

// check determines the outcome and checks the rules of all cells.
func (c *cell) check(t *testing.T, m machine, a *actor) result {
	o := &oracle{t: t, acked: a.acked, maybe: a.maybe}
	r := result{outcome: o.outcome(m), messages: o.messages, errs: a.errs}
	if len(o.extra) > 0 {
		t.Errorf("%v: %s: entries that were never written: %v", c, r.outcome, o.extra)
	}
	for _, err := range a.errs {
		if strings.HasPrefix(err.Error(), "TEST: ") {
			t.Errorf("%v: %v", c, err)
		}
	}
	c.checkCopies(t, m, r)
	return r
}

// checkCopies checks that an error of the writer and a message of the next open name
// each copy of the store.
func (c *cell) checkCopies(t *testing.T, m machine, r result) {
	list, err := m.ReadDir(filepath.Dir(m.store()))
	must(err)
	for _, e := range list {
		if !strings.Contains(e.Name(), ".own-") {
			continue
		}
		name := func(text string) bool { return strings.Contains(text, e.Name()) }
		if !slices.ContainsFunc(r.errs, func(err error) bool { return name(err.Error()) }) {
			t.Errorf("%v: the writer's errors do not name %s: %v", c, e.Name(), r.errs)
		}
		if !slices.ContainsFunc(r.messages, name) {
			t.Errorf("%v: the next open does not name %s: %q", c, e.Name(), r.messages)
		}
		if c.next.name != "stop" {
			continue
		}
		rep, err := crmem.Check(m, m.store(), 0)
		if err != nil || !slices.ContainsFunc(rep.Problems, func(p crmem.Problem) bool { return name(p.File + p.Message) }) {
			t.Errorf("%v: Check does not name %s: %v %+v", c, e.Name(), err, rep)
		}
	}
}

// full reports whether CRABMEM_CRASH=full selects all cells.
func full() bool { return os.Getenv("CRABMEM_CRASH") == "full" }

// TestTable runs every combination in memory and prints the outcomes.
func TestTable(t *testing.T) {
	same, other := map[string]bool{}, map[string]bool{} // undetected in the same boot, in another boot
	for _, st := range starts {
		head := fmt.Sprintf("%-31s %-24s", "changed", "how")
		for _, nx := range nexts {
			head += fmt.Sprintf(" %-14.14s", nx.name)
		}
		lines := []string{"start: " + st.name, head}
		for _, row := range runAll(t, st) {
			line := fmt.Sprintf("%-31s %-24s", row[0].target.name, row[0].change.name)
			for _, c := range row {
				line += fmt.Sprintf(" %-14s", c.outcome)
				switch name := c.target.name + ": " + c.change.name; {
				case c.outcome == silent && c.next.name == rebootColumn:
					other[name] = true
				case c.outcome == silent && c.next.name == killColumn:
					same[name] = true
				case bad(c.outcome, c.next):
					t.Errorf("%v: %s\nerrors: %v\nnext open: %q", &c.cell, c.outcome, c.errs, c.messages)
				}
			}
			lines = append(lines, line)
		}
		t.Log(strings.Join(lines, "\n"))
	}
	for name := range same {
		delete(other, name)
	}
	checkList(t, "in the same boot", same)
	checkList(t, "in another boot", other)
}

// done is a cell and its outcome.
type done struct {
	cell
	result
}

// runAll runs the cells of a start. It runs 16 rows concurrently, because Check
// sleeps.
func runAll(t *testing.T, st start) (rows [][]done) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, tg := range targets {
		for _, ch := range changes {
			if ch.name == anotherStore && strings.HasPrefix(tg.name, "all") {
				continue // the result would be the other store
			}
			row := make([]done, len(nexts))
			rows = append(rows, row)
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				for i, nx := range nexts {
					row[i].cell = cell{st, tg, ch, nx}
					row[i].result = row[i].cell.run(t)
				}
			})
		}
	}
	wg.Wait()
	return rows
}

// checkList compares the undetected cells with the list after "Not detected where"
// in FORMAT.md.
func checkList(t *testing.T, where string, cells map[string]bool) {
	t.Helper()
	got := slices.Sorted(maps.Keys(cells))
	if want := undetected(t, where); !slices.Equal(got, want) {
		t.Errorf("undetected %s:\n%s\nFORMAT.md lists:\n%s", where, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// undetected reads a list of undetected cells from FORMAT.md.
func undetected(t *testing.T, where string) (list []string) {
	t.Helper()
	b, err := os.ReadFile("../../crmem/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "Not detected "+where+":\n\n```\n")
	text, _, end := strings.Cut(rest, "\n```\n")
	if !ok || !end {
		t.Fatalf("FORMAT.md has no list of cells %q", where)
	}
	list = strings.Split(text, "\n")
	slices.Sort(list)
	return list
}

// TestWithoutLinks runs the rows of the log on a file system without hard links.
func TestWithoutLinks(t *testing.T) {
	counts := map[string]int{}
	for _, st := range starts {
		for _, ch := range changes {
			for _, nx := range nexts {
				m := newMem()
				m.Hook = func(c faultfs.Call) error {
					if c.Op == "link" {
						return syscall.EPERM
					}
					return nil
				}
				c := &cell{st, targets[1], ch, nx}
				a := newActor(m)
				st.do(a, nx.mode)
				ch.apply(m, c.target)
				nx.do(a)
				killed := nx.name == killColumn || nx.name == rebootColumn
				after := m.copied(t)
				if nx.name == rebootColumn {
					after = m.rebooted()
				}
				r := c.check(t, after, a)
				counts[r.outcome]++
				if bad(r.outcome, nx) && !(killed && r.outcome == silent && ch.sameLog()) {
					t.Errorf("%v: %s\nerrors: %v\nnext open: %q", c, r.outcome, r.errs, r.messages)
				}
			}
		}
	}
	t.Logf("without hard links: %v", counts)
}

// sameLog reports whether a change can result in an earlier state of the same log.
func (c change) sameLog() bool {
	return strings.Contains(c.name, "older") || strings.Contains(c.name, "boundary")
}

// bad reports whether an outcome violates the contract of a column.
func bad(outcome string, nx next) bool {
	switch outcome {
	case kept, warned, repaired, copied:
		return false
	case reported:
		return nx.name != killColumn && nx.name != rebootColumn
	}
	return true
}
