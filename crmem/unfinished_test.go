package crmem_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

const hiddenText = "a purged text"

// purgeable returns a store whose entries 1 and 2 have the text in several segments and
// bases. Other changes concern their names and aliases, and two identities.
func purgeable(t *testing.T, seed int) *past {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(seed), 5))
	p := newPast(t)
	p.segmentLimit = int64(1 + 400*random.IntN(3))
	p.plain = seed%2 == 0
	p.reopen()
	p.do(crmem.Add{Name: "a", Content: hiddenText + " 0"})
	p.do(crmem.Add{Name: "b", Content: hiddenText + " b"})
	p.do(crmem.Update{Name: "b", Content: "other text"})
	name := "a"
	for i := range 14 {
		switch random.IntN(6) {
		case 0:
			p.do(crmem.Update{Name: name, Content: fmt.Sprint(hiddenText, " ", i)})
		case 1:
			p.do(crmem.Alias{Name: name, Aliases: []string{fmt.Sprint("alias ", i)}}, crmem.Add{Name: fmt.Sprint("with alias ", i)})
		case 2:
			p.do(crmem.Rename{Name: name, To: fmt.Sprint("a", i)}, crmem.Add{Name: name, Content: "has the former name"})
			name = fmt.Sprint("a", i)
		case 3:
			p.do(crmem.Add{Name: fmt.Sprint("entry ", i), Content: "kept"})
		case 4:
			p.must(p.s.NewIdentity())
		}
		if random.IntN(3) > 0 {
			p.must(p.s.Checkpoint())
		}
	}
	p.do(crmem.Update{Name: name, Content: hiddenText + " last"})
	return p
}

// reader returns a store on a copy of the machine, opened for reading.
func (p *past) reader(m *faultfs.Mem) *past {
	r := &past{t: p.t, m: m, now: p.now, opts: crmem.Options{ReadOnly: true}}
	m.Now = func() time.Time { return time.Unix(r.now, 0) }
	r.open()
	return r
}

// wantUnfinished checks what readers of a machine see during a purge or after it.
func (p *past) wantUnfinished(step string, m *faultfs.Mem, others string, id uint64) (pending bool) {
	p.t.Helper()
	r := p.reader(m)
	defer r.s.Close()
	if got := r.otherChanges(id); got != others {
		p.t.Errorf("%s: changes\n%s\nwant\n%s", step, got, others)
	}
	report, err := crmem.Check(m, "/m.db", 0)
	p.must(err)
	if report.Err() != nil {
		p.t.Errorf("%s: check: %v", step, report.Err())
	}
	pending, err = crmem.PurgePending(m, "/m.db", 0)
	p.must(err)
	if pending != report.PurgePending {
		p.t.Errorf("%s: PurgePending is %t, but Check reports %t", step, pending, report.PurgePending)
	}
	if pending {
		for c, err := range r.s.Changes() {
			p.must(err)
			if c.Entry().ID == id && (id == 1 || strings.Contains(c.Before.Content+c.After.Content, hiddenText)) {
				p.t.Errorf("%s: shows %+v", step, c)
			}
		}
		sn, err := r.s.At(crmem.Point{Seq: 3})
		if err != nil || id == 1 && sn.Len() != 1 {
			p.t.Errorf("%s: change 3: %v", step, err)
		}
	}
	return pending
}

// TestPurgeSteps stops a purge and a redaction before each call that changes a file,
// by a kill and by a power cut. Readers find a valid store with all changes of other
// entries. The next writer completes the purge. With CRABMEM_HISTORIES of 1,200 or more,
// it checks every state of a 200th as many stores, otherwise every tenth of five.
func TestPurgeSteps(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	synctest.Test(t, testPurgeSteps)
}

func testPurgeSteps(t *testing.T) {
	steps, pendings := 0, 0
	runs, stride := 5, 10
	if n := histories() / 200; n > runs {
		runs, stride = n, 1
	}
	for seed := range runs {
		for _, purge := range []bool{true, false} {
			p := purgeable(t, seed)
			id, others, name := uint64(2), "", ""
			if purge {
				id = 1
			}
			for e := range p.s.All() {
				if e.ID == id {
					name = e.Name
				}
			}
			others = p.otherChanges(id)
			if !purge {
				p.do(crmem.Update{Name: name, Content: "newest text"}) // the text is not current
			}
			var states []*faultfs.Mem
			p.m.Hook = func(c faultfs.Call) error {
				switch c.Op {
				case "create", "write", "truncate", "sync", "datasync", "syncdir", "rename", "link", "remove":
					states = append(states, p.m.Kill(), p.m.Crash())
				}
				return nil
			}
			var err error
			if purge {
				_, err = p.s.Purge(name)
			} else {
				_, err = p.s.Redact(2, 2)
			}
			p.m.Hook = nil
			p.must(err)
			for i, m := range states {
				if (i/2+seed)%stride != 0 {
					continue
				}
				step := fmt.Sprintf("seed %d, purge %t, state %d", seed, purge, i)
				steps++
				if !p.wantUnfinished(step, m, others, id) {
					continue
				}
				pendings++
				w := &past{t: t, m: m, now: p.now, opts: p.opts, segmentLimit: p.segmentLimit}
				w.open()
				if purge {
					w.wantAbsent(secrets{hiddenText + " 0": true, hiddenText + " last": true})
				} else {
					w.wantAbsent(secrets{hiddenText + " b": true})
				}
				w.must(w.s.Close())
				if w.wantUnfinished(step+", completed", m, others, id) {
					t.Errorf("%s: the purge is pending after the next writer", step)
				}
				if t.Failed() {
					t.FailNow()
				}
			}
		}
	}
	t.Logf("%d states, %d with a pending purge", steps, pendings)
	if pendings < steps/4 {
		t.Error("too few states with a pending purge")
	}
}

// TestPurgeContinues fails a purge and a redaction for lack of space. The open store
// completes them when there is space.
func TestPurgeContinues(t *testing.T) {
	for _, purge := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := purgeable(t, 1)
			if !purge {
				p.do(crmem.Update{Name: "b", Content: "newest text"})
			}
			var mu sync.Mutex
			full := true
			p.m.Hook = func(c faultfs.Call) error {
				mu.Lock()
				defer mu.Unlock()
				if full && c.Op == "write" && strings.HasPrefix(c.Name, "/m.db-history/.") {
					return syscall.ENOSPC
				}
				return nil
			}
			var err error
			if purge {
				name := ""
				for e := range p.s.All() {
					if e.ID == 1 {
						name = e.Name
					}
				}
				_, err = p.s.Purge(name)
			} else {
				_, err = p.s.Redact(2, 2)
			}
			if err == nil {
				t.Fatalf("purge %t on a full disk succeeds", purge)
			}
			pending := func() bool {
				t.Helper()
				is, err := crmem.PurgePending(p.m, "/m.db", 0)
				p.must(err)
				return is
			}
			time.Sleep(5 * time.Minute)
			if !pending() {
				t.Errorf("purge %t: complete on a full disk", purge)
			}
			mu.Lock()
			full = false
			mu.Unlock()
			time.Sleep(time.Minute)
			if pending() {
				t.Errorf("purge %t: not complete: %q", purge, p.warn)
			}
			if purge {
				p.wantAbsent(secrets{hiddenText + " 0": true, hiddenText + " last": true})
			} else {
				p.wantAbsent(secrets{hiddenText + " b": true})
			}
			p.must(p.s.Close())
		})
	}
}
