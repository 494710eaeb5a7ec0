package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"crabmem/daemon/model"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// flushSteps bounds the responses of the model in a flush.
const flushSteps = 3

// Flush collects the notes that a model stores before a summary. Only the tools recall and
// remember run. Neither the session nor its log contains the messages.
type Flush struct {
	*Runner
	agent          *Agent
	session        *Session // frozen
	size           int64    // of its log
	system, prompt string
	call           tool.Call // without a name and arguments
	notes          []record.Note
}

type flushKey struct{}

// FlushOf returns the flush in whose context a tool is called, or nil.
func FlushOf(ctx context.Context) *Flush {
	f, _ := ctx.Value(flushKey{}).(*Flush)
	return f
}

// Add collects a note. It replaces an earlier one with the same name.
func (f *Flush) Add(n record.Note) error {
	if len(n.Content) > record.MaxNote {
		return fmt.Errorf("the note has %d bytes, at most %d: shorten it", len(n.Content), record.MaxNote)
	}
	f.notes = slices.DeleteFunc(f.notes, func(o record.Note) bool { return o.Name == n.Name })
	if len(f.notes) == record.MaxNotes {
		return fmt.Errorf("%d notes are stored already: no more", record.MaxNotes)
	}
	f.notes = append(f.notes, n)
	return nil
}

// flush returns the flush of the messages so far, or nil if there is no prompt, the session
// does work of another one, or the run may not call remember.
func (t *turn) flush() *Flush {
	s := t.Session
	f := &Flush{Runner: t.Runner, agent: t.Agent, system: t.system, prompt: cmp.Or(t.Agent.FlushPrompt, t.Hooks.FlushPrompt), call: t.toolCall(sessionlog.ToolCall{})}
	scope := t.Scope().Narrow(tool.Only(tool.Recall, tool.Remember))
	if f.prompt == "" || t.EndFlush == nil || s.Log == nil || !scope.Tools.Allows(tool.Remember) {
		return nil
	}
	if m := s.Log.Meta(); m.IsWork() {
		return nil
	}
	f.session, f.size = s.freeze(scope), s.Log.Size()
	f.call.Scope, f.call.Offers, f.call.Narrow = scope, nil, nil
	return f
}

// run asks the model, and stores the notes in a call of commit. An error before that changes
// nothing.
func (f *Flush) run(ctx context.Context, commit func(func() error) error) (names []string, err error) {
	s := f.session
	n, upto, err := f.BeginFlush(s, f.size)
	if err != nil || n == 0 {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, flushKey{}, f), backgroundTimeout)
	defer cancel()
	from := len(s.Messages)
	for ; from > s.first() && n > 0; from-- {
		if s.Messages[from-1].Role != record.RoleTool {
			n--
		}
	}
	span := Session{Compactions: s.Compactions, Messages: append(s.Messages[:s.first():s.first()], s.Messages[from:]...)}
	var ms []sessionlog.Message
	if f.system != "" {
		ms = append(ms, sessionlog.Message{Role: record.RoleSystem, Content: f.system})
	}
	ms = append(ms, shortened(span.answered(len(span.Messages)), f.Models.ContextLimit(f.agent.Model)*4/5*bytesPerToken)...)
	ms = append(ms, sessionlog.Message{Role: record.RoleUser, Content: strings.TrimSpace(f.prompt)})
	for range flushSteps {
		resp, err := f.Models.Send(ctx, model.Request{Model: f.agent.Model, Messages: ms, Tools: f.Tools.Schemas(f.call.Scope, nil)})
		if err != nil {
			return nil, err
		}
		if len(resp.Message.ToolCalls) == 0 {
			break
		}
		ms = append(ms, resp.Message)
		for _, c := range resp.Message.ToolCalls {
			call := f.call
			call.ID, call.Name, call.Arguments = c.ID, c.Function.Name, []byte(c.Function.Arguments)
			r := f.Tools.Call(ctx, call)
			ms = append(ms, sessionlog.Message{Role: record.RoleTool, Content: f.record(r.Output), ToolCallID: c.ID})
		}
	}
	err = commit(func() error {
		names, err = f.EndFlush(s, upto, f.notes)
		return err
	})
	return names, err
}

// flushNow flushes in the turn, before a compaction of an agent without a role. After an
// error, the compaction follows.
func (t *turn) flushNow(ctx context.Context) {
	f, b := t.flush(), t.Background
	if f == nil || b != nil && b.paused() {
		return
	}
	names, err := f.run(ctx, func(commit func() error) error { return commit() })
	if b != nil && ctx.Err() == nil {
		b.count(err)
	}
	t.flushed(names, err)
}

// flushed shows the result of a flush.
func (t *turn) flushed(names []string, err error) {
	if err != nil {
		t.notice(fmt.Sprintf("flush memory: %v", err))
	} else if len(names) > 0 {
		t.emit(Event{Kind: Flushed, Content: strings.Join(names, ", ")})
	}
}
