package agent

import (
	"context"
	"encoding/json"
	"time"

	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// maxParallel is the limit of concurrent calls of a response.
const maxParallel = 8

// grace is how long calls have to end after the run was cancelled.
const grace = 5 * time.Second

// The result of a call that had no result when the run ended.
const cancelledResult = "error: canceled before it finished"

// call runs the calls of an answer, and returns their results in the order of the
// calls. A call that may change something begins after all earlier calls and ends
// before all later ones; calls between two such calls run concurrently. Results
// are shown in the order of the calls too, each as soon as those before it are.
func (t *turn) call(ctx context.Context, calls []sessionlog.ToolCall) []sessionlog.Message {
	t.emit(Event{Kind: ToolStart, Calls: t.shown(calls)})
	results := make([]tool.Result, len(calls))
	done := make(chan int, len(calls)) // never blocks a call that outlives the run
	events := make(chan Event)
	calling, stop := context.WithCancel(ctx)
	defer stop()
	calling = context.WithValue(calling, emitKey{}, func(e Event) {
		select {
		case events <- e:
		case <-calling.Done():
		}
	})
	room := make(chan struct{}, maxParallel)
	outputs := make([]tool.Result, len(calls))
	ends := make([]chan struct{}, len(calls))
	change := 0 // the last call that may change something, or 0
	for i, c := range calls {
		ends[i] = make(chan struct{})
		after := ends[change:i]
		if !t.Tools.Reads(c.Function.Name) {
			change = i
		} else if len(after) > 0 && !t.Tools.Reads(calls[change].Function.Name) {
			after = after[:1]
		} else {
			after = nil
		}
		go func() {
			// It ends with the tool, which ends with ctx.
			defer close(ends[i])
			if waitAll(calling, after) && enter(calling, room) {
				outputs[i] = t.guarded(calling, c)
				<-room
			} else {
				outputs[i] = tool.Result{Output: cancelledResult, Failed: true}
			}
			done <- i
		}()
	}
	ready := make([]bool, len(calls))
	shown := 0
	var late <-chan time.Time
	ended := ctx.Done()
	for shown < len(calls) {
		select {
		case e := <-events:
			t.emit(e)
			continue
		case i := <-done:
			results[i], ready[i] = outputs[i], true
			results[i].Output = t.shorten(calls[i].Function.Name, t.record(results[i].Output))
		case <-ended:
			late, ended = time.After(grace), nil
			continue
		case <-late:
			for i := range results {
				if !ready[i] {
					results[i], ready[i] = tool.Result{Output: cancelledResult, Failed: true, Took: grace}, true
				}
			}
		}
		for shown < len(calls) && ready[shown] {
			t.showResult(calls[shown], results[shown])
			shown++
		}
	}
	ms := make([]sessionlog.Message, len(calls))
	for i, c := range calls {
		ms[i] = sessionlog.Message{Role: record.RoleTool, Content: results[i].Output, ToolCallID: c.ID}
	}
	return ms
}

// shown returns calls as an event contains them, with redacted arguments.
func (t *turn) shown(calls []sessionlog.ToolCall) []Call {
	list := make([]Call, len(calls))
	for i, c := range calls {
		list[i] = Call{c.ID, c.Function.Name, t.redact(c.Function.Arguments)}
	}
	return list
}

// waitAll waits until all channels are closed. It returns false if ctx ends
// before.
func waitAll(ctx context.Context, list []chan struct{}) bool {
	for _, c := range list {
		select {
		case <-c:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// enter adds to room. It returns false if ctx ends before.
func enter(ctx context.Context, room chan<- struct{}) bool {
	if ctx.Err() != nil { // select would choose at random
		return false
	}
	select {
	case room <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *turn) toolCall(c sessionlog.ToolCall) tool.Call {
	return tool.Call{
		ID: c.ID, Name: c.Function.Name, Arguments: json.RawMessage(c.Function.Arguments),
		Agent: t.Agent.Name, Session: t.Session.ID, Requester: t.Session.CreatedBy, Dir: t.Session.Dir, Workspace: t.Session.Workspace, Scope: t.Scope(), Depth: t.Depth,
		Results: t.Session.Results, Offers: t.Agent.Offers, Narrow: t.Narrow,
	}
}

func (t *turn) showResult(c sessionlog.ToolCall, r tool.Result) {
	if r.Refused != nil {
		t.emit(Event{Kind: Refused, Refused: r.Refused})
	}
	t.emit(Event{Kind: ToolResult, ID: c.ID, Tool: c.Function.Name, Result: &Result{r.Output, r.Failed, r.Took.Milliseconds()}})
}
