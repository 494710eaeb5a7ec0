package work

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"crabmem/sessionlog/record"
)

// rules are the permitted changes of state, written a second time: from, to, reasons.
const rules = `
running running resumed
running waiting outcome
running done outcome
running failed error reported no_outcome exhausted timeout stalled cancelled interrupted
waiting running routed
waiting done closed
waiting failed lost
failed/exhausted running routed
failed/timeout running routed
failed/stalled running routed
failed/interrupted running routed
failed/no_outcome running routed
`

func permits(from, to Status) bool {
	for line := range strings.Lines(rules) {
		w := strings.Fields(line)
		if len(w) > 2 && (w[0] == from.State || w[0] == from.State+"/"+from.Reason) && w[1] == to.State && slices.Contains(w[2:], to.Reason) {
			return true
		}
	}
	return false
}

var (
	states  = []string{record.Running, record.Waiting, record.Done, record.Failed, "odd", ""}
	reasons = []string{Spawned, Resumed, Routed, Signaled, Closed, Errored, Reported, NoOutcome, Exhausted, Timeout, Stalled, Cancelled, Interrupted, Lost, "odd", ""}
)

// TestTransition compares every pair of statuses with the rules.
func TestTransition(t *testing.T) {
	pairs, permitted := 0, 0
	var all []Status
	for _, state := range states {
		for _, reason := range reasons {
			all = append(all, Status{state, reason})
		}
	}
	for _, from := range all {
		for _, to := range all {
			err := Transition(from, to)
			if (err == nil) != permits(from, to) || err != nil && !errors.Is(err, ErrTransition) {
				t.Errorf("from %s to %s: %v", from, to, err)
			}
			if pairs++; err == nil {
				permitted++
			}
		}
	}
	t.Logf("pairs: %d, permitted: %d", pairs, permitted)
}

// TestTransitions applies random records to work, and compares it with the rules after each.
func TestTransitions(t *testing.T) {
	n := 20_000
	if s := os.Getenv("CRABMEM_WORK"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	r := rand.New(rand.NewPCG(1, 1))
	p, status, attempt, ends, routes := spawned(), Status{record.Running, Spawned}, 1, 0, 0
	accepted := 0
	for i := range n {
		if i%50 == 0 {
			p, status, attempt, ends, routes = spawned(), Status{record.Running, Spawned}, 1, 0, 0
		}
		w := record.Work{Op: []string{record.WorkState, record.WorkEnd, record.WorkRoute, record.WorkStart, "odd"}[min(r.IntN(12), 11)%5],
			State: states[r.IntN(len(states))], Reason: reasons[r.IntN(len(reasons))], Attempt: attempt + r.IntN(3), N: max(ends, routes) + r.IntN(3)}
		if r.IntN(2) == 0 { // plausible
			w.N = map[string]int{record.WorkEnd: ends + 1, record.WorkRoute: routes + 1}[w.Op]
		}
		to, ok := Status{w.State, w.Reason}, false
		switch w.Op {
		case record.WorkState:
			to.Reason = Resumed
			ok = w.Attempt == attempt+1 && permits(status, to)
		case record.WorkEnd:
			ok = w.N == ends+1 && permits(status, to)
		case record.WorkRoute:
			if to = (Status{record.Running, Routed}); status.State == record.Running {
				to = status
			}
			ok = w.N == routes+1 && (to == status || permits(status, to))
		}
		next, err := p.after(w)
		if (err == nil) != ok {
			t.Fatalf("step %d: %+v after %s: %v", i, w, status, err)
		}
		if !ok {
			continue
		}
		accepted++
		switch w.Op {
		case record.WorkState:
			attempt++
		case record.WorkEnd:
			ends++
		case record.WorkRoute:
			if routes++; status.State == record.Failed {
				attempt++
			}
		}
		status = to
		if p = next; p.Status != status || p.attempt != attempt || p.ends != ends || p.routes != routes || len(p.pending) != routes {
			t.Fatalf("step %d: %+v leaves %+v, want %s, attempt %d, %d outcomes, %d messages", i, w, p, status, attempt, ends, routes)
		}
	}
	if accepted < n/100 {
		t.Errorf("only %d of %d records were accepted", accepted, n)
	}
	t.Logf("random records: %d, accepted: %d", n, accepted)
}

// TestDecide compares each state that recovery may find with the table of recovery, written
// a second time.
func TestDecide(t *testing.T) {
	n := 0
	for _, kind := range []string{record.Branch, record.Worker} {
		for _, state := range states[:4] {
			for bits := range 32 {
				for attempt := 1; attempt <= 3; attempt++ {
					for ends := range 3 {
						for delivered := range ends + 1 {
							f := Found{Started: bits&1 != 0, Bare: bits&2 != 0, Gone: bits&4 != 0, External: bits&8 != 0, Resumes: bits&16 != 0,
								Kind: kind, State: state, Attempt: attempt, Ends: ends, Delivered: delivered}
							a, notice := Keep, Silent
							switch {
							case !f.Started:
								if f.Bare {
									a, notice = Trash, Log
								}
							case f.Gone:
								a, notice = Lose, Channel
							case state == record.Running && kind == record.Worker && !f.External && attempt == 1:
								a, notice = Resume, Event
							case state == record.Running:
								a, notice = Interrupt, Channel
							case state == record.Waiting && f.External && !f.Resumes:
								a, notice = Lose, Channel
							case ends > delivered:
								a, notice = Hand, Channel
							case state != record.Waiting:
								a = Close
							}
							if got, who := Decide(f); got != a || who != notice {
								t.Errorf("%+v: %s %q, want %s %q", f, got, who, a, notice)
							}
							n++
						}
					}
				}
			}
		}
	}
	t.Logf("states of recovery: %d", n)
}
