package linear

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"crabmem/crmem"
)

// Check returns an error unless some order of the calls explains their responses
// and the state end. A call without a response may be in the order or not, because
// its writer was killed. All successful calls must come before end. Failed calls
// and calls without a response may come after it.
//
// Check orders writes and reads separately. The error of a write may depend on
// writes that are not yet durable, but the result of a read never does. So one
// order need not explain both.
//
// Set strict for stores without checkpoints and without kills. A checkpoint stages
// pending writes again, in another order. An error may depend on the order before
// the checkpoint, even on a write that fails later. Without strict, an error only
// needs one possible value per name, and the values are independent.
func Check(calls []Call, begin, end State, strict bool) error {
	var writes, reads []Call
	for _, c := range calls {
		read := c.Ops[0].Do == "get"
		if read && c.End == 0 {
			continue
		}
		if !read && (strict || c.Err == "") {
			writes = append(writes, c)
		}
		if read || c.Err == "" {
			reads = append(reads, c)
		}
		if !strict && c.Err != "" && !justified(&c, calls, begin) {
			return fmt.Errorf("writer %d, %d to %d: %+v: no possible values explain %q", c.Writer, c.Begin, c.End, c.Ops, c.Err)
		}
	}
	if err := explain(writes, begin, end); err != nil {
		return fmt.Errorf("writes: %w", err)
	}
	if err := explain(reads, begin, end); err != nil {
		return fmt.Errorf("reads: %w", err)
	}
	return nil
}

// justified reports whether values that the names may have had during a call
// explain its error.
func justified(c *Call, calls []Call, begin State) bool {
	states := []State{begin}
	for n := range Names {
		var next []State
		for _, v := range possible(n, c, calls, begin) {
			for _, st := range states {
				st.at[n] = v
				next = append(next, st)
			}
		}
		states = next
	}
	return slices.ContainsFunc(states, func(st State) bool {
		_, _, err := st.apply(c.Ops)
		return err == c.Err
	})
}

// possible returns the values that a name may have had during a call. It uses each
// write that began before the end of the call. It excludes a write if a later write
// ended before the call began. A failed write counts only while it was pending.
func possible(name int, c *Call, calls []Call, begin State) []value {
	old := 0 // values of calls that ended before old are overwritten
	for i := range calls {
		w := &calls[i]
		if _, writes := w.leaves(name); writes && w.succeeded() && w.End < c.Begin {
			old = max(old, w.Begin)
		}
	}
	var list []value
	if old == 0 {
		list = append(list, begin.at[name])
	}
	for i := range calls {
		w := &calls[i]
		values, writes := w.leaves(name)
		if writes && w.Begin != c.Begin && w.Begin < c.End && (w.End == 0 || w.End >= old && (w.Err == "" || w.End > c.Begin)) {
			for _, v := range values {
				if !slices.Contains(list, v) {
					list = append(list, v)
				}
			}
		}
	}
	return list
}

// leaves returns the values that a name may have after a call that succeeds. writes
// reports whether the call writes the name.
func (c *Call) leaves(name int) (values []value, writes bool) {
	got := c.Got
	for i := range c.Ops {
		op := &c.Ops[i]
		switch op.Do {
		case "get", "unchanged":
			continue
		case "remove", "forget":
			if op.Name == name {
				values, writes = []value{{}}, true
			}
			continue
		}
		if op.Name == name {
			writes = true
			// A call without a response may have written any value.
			values = []value{{id: 1 << 63}, {id: 1 << 63, kind: crmem.Archive}}
		}
		if c.succeeded() {
			if op.Name == name {
				values = []value{valueOf(&got[0])}
			}
			got = got[1:]
		}
	}
	return values, writes
}

func (c *Call) succeeded() bool { return c.End != 0 && c.Err == "" }

// explain returns an error unless porcupine finds an order of the calls. An extra
// operation compares the state with end. It begins after all successful calls.
func explain(calls []Call, begin, end State) error {
	const never = math.MaxInt64
	last := 0
	ops := make([]porcupine.Operation, 0, len(calls)+1)
	for i := range calls {
		c := &calls[i]
		if c.succeeded() {
			last = max(last, c.End)
		}
		ended := int64(never)
		if c.End != 0 {
			ended = 2 * int64(c.End)
		}
		ops = append(ops, porcupine.Operation{Input: c, Call: 2 * int64(c.Begin), Return: ended})
	}
	ops = append(ops, porcupine.Operation{Input: end, Call: 2*int64(last) + 1, Return: never})
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{begin} },
		Step: func(st, input, _ any) []any { return follow(st.(State), input) },
	}
	result, info := porcupine.CheckOperationsVerbose(model.ToModel(), ops, 0)
	if result == porcupine.Ok {
		return nil
	}
	var best []int
	for _, order := range info.PartialLinearizations()[0] {
		if len(order) > len(best) {
			best = order
		}
	}
	var b strings.Builder
	for i := range calls {
		if c := &calls[i]; !slices.Contains(best, i) {
			fmt.Fprintf(&b, "\nwriter %d, %d to %d: %+v: %q %+v", c.Writer, c.Begin, c.End, c.Ops, c.Err, c.Got)
		}
	}
	return fmt.Errorf("no order explains the responses and the final state %+v; the longest order has %d of %d calls, without:%s", end, len(best), len(calls), b.String())
}

// follow returns the possible states after an operation of explain. A call without
// a response may have had no effect.
func follow(st State, input any) []any {
	c, ok := input.(*Call)
	if !ok {
		if st == input.(State) {
			return []any{st}
		}
		return nil
	}
	next, got, err := st.apply(c.Ops)
	if c.End == 0 {
		if next == st {
			return []any{st}
		}
		return []any{next, st}
	}
	if err != c.Err || err == "" && !slices.EqualFunc(got, c.Got, func(v value, e crmem.Entry) bool { return v == valueOf(&e) }) {
		return nil
	}
	return []any{next}
}
