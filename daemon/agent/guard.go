package agent

import (
	"fmt"
	"sync"

	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

// Repeats limits the repetitions of a call with the same result in a run. The zero value
// does not.
type Repeats struct {
	Note   int // the result of this repetition gets a note
	Refuse int // this repetition is refused
}

// bashRepeats multiplies the limits for bash, whose commands are often repeated.
const bashRepeats = 3

// guard counts the calls of a run.
type guard struct {
	mu   sync.Mutex
	seen map[[2]string]repeated // by the name and the arguments
}

type repeated struct {
	times  int
	result string // of the last time
}

// refuses returns the error for a call that is repeated too often, or nil.
func (t *turn) refuses(c sessionlog.ToolCall) error {
	most := t.limits(c.Function.Name).Refuse
	t.guard.mu.Lock()
	defer t.guard.mu.Unlock()
	if n := t.guard.seen[[2]string{c.Function.Name, c.Function.Arguments}].times + 1; most > 0 && n >= most {
		return fmt.Errorf("refused: the same call %d times, with the same result each time: do something else", n)
	}
	return nil
}

// counts counts a call with its result, and returns the result with a note if the call
// is repeated often. Another result begins the count again.
func (t *turn) counts(c sessionlog.ToolCall, r tool.Result) tool.Result {
	most := t.limits(c.Function.Name).Note
	if most == 0 {
		return r
	}
	t.guard.mu.Lock()
	defer t.guard.mu.Unlock()
	if t.guard.seen == nil {
		t.guard.seen = make(map[[2]string]repeated)
	}
	key := [2]string{c.Function.Name, c.Function.Arguments}
	s := t.guard.seen[key]
	if s.times > 0 && s.result != r.Output {
		s.times = 0
	}
	s.times, s.result = s.times+1, r.Output
	t.guard.seen[key] = s
	if s.times >= most {
		r.Output += fmt.Sprintf("\n[the same call %d times, with the same result]", s.times)
	}
	return r
}

func (t *turn) limits(name string) Repeats {
	l := t.Agent.Repeats
	if name == tool.Bash {
		l.Note, l.Refuse = l.Note*bashRepeats, l.Refuse*bashRepeats
	}
	return l
}
