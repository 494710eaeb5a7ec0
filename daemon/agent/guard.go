package agent

import (
	"context"
	"fmt"
	"sync"

	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

// Repeats limits how often a run repeats a call with the same result. The zero value does
// not.
type Repeats struct {
	Note   int // the result of this repetition gets a note
	Refuse int // this repetition is refused
}

// bashRepeats multiplies the limits for bash, whose commands are often repeated.
const bashRepeats = 3

// guard counts a run's calls.
type guard struct {
	mu   sync.Mutex
	seen map[[2]string]repeated // by the name and the arguments
}

type repeated struct {
	times  int
	result string // of the last time
}

// guarded makes a call, unless it is repeated too often. The result of a call that is
// repeated often has a note. Another result begins the count again.
func (t *turn) guarded(ctx context.Context, c sessionlog.ToolCall) tool.Result {
	most := t.Agent.Repeats
	if most == (Repeats{}) {
		return t.Tools.Call(ctx, t.toolCall(c))
	}
	if c.Function.Name == tool.Bash {
		most.Note, most.Refuse = most.Note*bashRepeats, most.Refuse*bashRepeats
	}
	key := [2]string{c.Function.Name, c.Function.Arguments}
	if n := t.guard.get(key).times + 1; n >= most.Refuse {
		return tool.Result{Output: fmt.Sprintf("refused: the same call %d times, with the same result each time: do something else", n), Failed: true}
	}
	r := t.Tools.Call(ctx, t.toolCall(c))
	if n := t.guard.count(key, r.Output); n >= most.Note {
		r.Output += fmt.Sprintf("\n[the same call %d times, with the same result]", n)
	}
	return r
}

func (g *guard) get(key [2]string) repeated {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen[key]
}

// count counts a call, and returns how often it had this result in a row.
func (g *guard) count(key [2]string, result string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen == nil {
		g.seen = make(map[[2]string]repeated)
	}
	times := 1
	if s := g.seen[key]; s.result == result {
		times += s.times
	}
	g.seen[key] = repeated{times, result}
	return times
}
