package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"crabmem/daemon/model"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Input begins a run.
type Input struct {
	Content string
	Sender  string
	Tag     string // names the request in events
	Request string // ID of the client's request; "": none
	After   string // ID of the request whose turn must be the newest; "": any
	Depth   int    // number of delegations that led here
	Literal bool   // Content names no skill
	// Stored is set if the newest message of the user in the session begins the run.
	// Content, Request, and After are then empty.
	Stored bool
}

// ErrExhausted ends a run whose model requests more steps than the limit.
var ErrExhausted = errors.New("step limit reached before a response")

// ErrRequest refuses a request with an ID that the session contains.
var ErrRequest = errors.New("an earlier request has this ID")

// ErrContinued refuses a message after a turn that is not the newest one, or has no
// answer.
var ErrContinued = errors.New("another message has continued the session")

// errEmpty is the error for an empty response.
var errEmpty = errors.New("the model returned an empty response")

// Run runs an agent on a user's input in a session. The last event is Done; its
// error explains why there is no answer. All messages produced until then are
// in the session and on disk, also if ctx ends or the caller stops the
// iteration. Both cancel the run.
//
// If the session contains the request of in.Request, Run appends no message: it
// continues the turn, or returns its answer. Run returns
// ErrRequest if that request has another message, or if its turn has no answer and was
// canceled or is not the newest one. Before it appends a message, Run returns
// ErrContinued unless in.After is the request of the newest turn, which has an answer.
//
// Run never removes a message from the session. A call without a result when
// the run is canceled gets a result that says so.
func (r *Runner) Run(ctx context.Context, a *Agent, s *Session, in Input) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		t := turn{
			Turn:   Turn{Agent: a, Session: s, Sender: in.Sender, Tag: in.Tag, Request: in.Request, Content: in.Content, Depth: in.Depth, Literal: in.Literal, scope: a.Scope.Intersect(s.Scope), bound: tool.Unbounded()},
			Runner: r, yield: yield, cancel: cancel, input: in.Content, requestID: in.Request, after: in.After, stored: in.Stored,
		}
		t.system = a.systemFor(t.scope)
		began := time.Now()
		stop, err := t.run(context.WithValue(ctx, turnKey{}, &t.Turn))
		if kept := t.keep(began); kept != nil {
			stop, err = Failed, errors.Join(err, kept)
		}
		s.Stop = stop
		t.show(Event{Kind: Done, Content: t.answer, Stop: stop, Err: err}, err)
	}
}

// turn is a run.
type turn struct {
	Turn
	*Runner
	yield  func(Event, error) bool
	cancel func()
	gone   bool // the caller does not receive further events

	input     string // the user's
	requestID string
	after     string
	stored    bool                 // the session contains the message that begins the run
	repeated  bool                 // the session contains the answer; hooks receive no event
	system    string               // the system prompt
	streaming *streaming           // of the current response
	newest    int                  // of the user's message in the session's
	injected  []sessionlog.Message // precede it
	answer    string               // text of the last step
	full      int                  // tokens of the context, as far as known
	counted   int                  // messages of the session that are in full
	noCompact bool                 // it failed, or did not help
	short     []sessionlog.Message // for the next request, in place of the session's; nil: those
	guard     guard
	last      bool   // the step has no tools, and ends the run
	nudge     string // the text of Hooks.Again for the next step
	standIn   string // the model of the last response, if it is not the agent's

	progressed time.Time // of the last Progress
}

// emit sends an event, unless the caller stopped receiving.
func (t *turn) emit(e Event) { t.show(e, nil) }

func (t *turn) show(e Event, err error) {
	if !t.repeated {
		t.Hooks.event(&t.Turn, e)
	}
	if !t.gone && !t.yield(e, err) {
		t.gone = true
		t.cancel()
	}
}

// append adds messages to the session: to its log first.
func (t *turn) append(ms ...sessionlog.Message) error {
	s := t.Session
	if s.Log != nil {
		if err := s.Log.Append(ms...); err != nil {
			return fmt.Errorf("write session: %w", err)
		}
	}
	s.Messages = append(s.Messages, ms...)
	return nil
}

// keep makes the written messages durable, and adds the run time.
func (t *turn) keep(began time.Time) error {
	l := t.Session.Log
	if l == nil {
		return nil
	}
	if secs := time.Since(began) / time.Second; secs > 0 {
		if err := l.AddUptime(uint64(secs)); err != nil {
			return err
		}
	}
	return l.Sync()
}

func (t *turn) run(ctx context.Context) (Stop, error) {
	s := t.Session
	t.archive()
	if !t.stored {
		t.Content = clean(t.Hooks.preprocess(&t.Turn))
	}
	s.Messages = slices.DeleteFunc(s.Messages, func(m sessionlog.Message) bool { return m.Injected })
	answered, err := t.begin(ctx)
	if err != nil {
		return Failed, err
	}
	if answered {
		return Answered, nil
	}
	if t.tiered() {
		t.commit()
	}
	if t.Tools.Ready != nil {
		t.Tools.Ready(ctx, t.Scope())
	}
	for n := range t.Agent.MaxIterations {
		t.last = t.concluded() || t.Agent.Concludes && n == t.Agent.MaxIterations-1
		m, err := t.step(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return Cancelled, context.Cause(ctx)
			}
			return Failed, err
		}
		if len(m.ToolCalls) == 0 {
			t.nudge = ""
			if !t.last {
				t.nudge = t.Hooks.again(&t.Turn, m.Content)
			}
			t.compactIfFull(ctx, t.nudge == "")
			if t.nudge == "" {
				return Answered, nil
			}
			continue
		}
		t.nudge = ""
		results := t.call(ctx, m.ToolCalls)
		if err := t.append(results...); err != nil {
			return Failed, err
		}
		if ctx.Err() != nil {
			return Cancelled, context.Cause(ctx)
		}
		t.emit(Event{Kind: ToolsComplete})
		more, err := t.Hooks.between(ctx, &t.Turn)
		s.Messages = append(s.Messages, more...) // they are in the log
		if err != nil {
			return Failed, err
		}
		if t.skipped() && len(more) == 0 { // else a message came that needs an answer
			t.answer = t.redact(t.replied())
			if err := t.append(sessionlog.Message{Role: record.RoleAssistant, Content: t.answer}); err != nil {
				return Failed, err
			}
			return Answered, nil
		}
		t.compactIfFull(ctx, false)
	}
	return Exhausted, fmt.Errorf("%w: %d steps", ErrExhausted, t.Agent.MaxIterations)
}

// step requests one response from the model and adds it to the session. It keeps the
// text of a canceled response as a message, and the text of a failed one as streamed
// text, which a retry replaces. It omits the calls of both. If the client of a request
// with an ID disconnected, the response counts as failed: the client may repeat the
// request.
func (t *turn) step(ctx context.Context) (sessionlog.Message, error) {
	if err := t.fit(ctx); err != nil {
		return sessionlog.Message{}, err
	}
	m, err := t.stream(ctx)
	if errors.Is(err, model.ErrOverflow) && !m.began() && !t.noCompact && t.Agent.CompactThreshold > 0 {
		// The estimate was too low. Compact once per turn, and never repeat text
		// that the user has seen.
		if t.compactOverflow(ctx); !t.noCompact {
			t.noCompact = true
			m, err = t.stream(ctx)
		}
	}
	msg := m.message()
	if t.last {
		msg.ToolCalls = nil
	}
	msg.Content, msg.ReasoningContent = t.redact(msg.Content), t.redact(msg.ReasoningContent)
	if err == nil && len(msg.ToolCalls) == 0 {
		msg.Content = cmp.Or(msg.Content, t.redact(t.replied()))
	}
	t.answer = msg.Content
	if err == nil {
		err = broken("response", m.finish)
	}
	if err == nil && msg.Content == "" && len(msg.ToolCalls) == 0 {
		return msg, errEmpty
	}
	if err != nil {
		msg.ToolCalls = nil
		if ctx.Err() == nil || t.requestID != "" && context.Cause(ctx) == context.Canceled {
			t.streaming.end(true)
			t.Session.Streamed = msg.Content
			if m.usage != nil {
				t.count(m.usage)
			}
			return msg, err
		}
	}
	t.streaming.end(false)
	if err != nil && msg.Content == "" {
		return msg, err
	}
	if kept := t.append(msg); kept != nil {
		return msg, errors.Join(err, kept)
	}
	t.count(m.usage)
	return msg, err
}

// broken returns an error if the finish reason means that the model's answer or
// summary is incomplete. Unknown finish reasons count as success.
func broken(what, finish string) error {
	switch model.EndOf(finish) {
	case model.EndLength:
		return fmt.Errorf("the %s is incomplete: it reached the model's output token limit", what)
	case model.EndFiltered:
		return fmt.Errorf("the provider's content filter cut off the %s", what)
	case model.EndFailed:
		return fmt.Errorf("the provider stopped the %s: %s", what, clean(finish))
	}
	return nil
}

// stream sends the request to the model, and sends the response as events.
func (t *turn) stream(ctx context.Context) (*merger, error) {
	m := &merger{}
	early := false
	t.streaming.end(false)
	t.streaming = newStreaming(t.Session.Log)
	pieces := &pieces{t, t.redaction(), t.redaction()}
	begun := false
	defer pieces.end()
	for c, err := range t.Models.Stream(ctx, t.request()) {
		if err != nil {
			return m, err
		}
		if err := m.add(&c); err != nil {
			return m, err
		}
		if !begun && c.Model != t.standIn {
			if t.standIn = c.Model; c.Model != "" {
				t.notice(standInNote(c.Model, cmp.Or(t.Agent.Model, t.Models.Active())))
			}
		}
		begun = true
		pieces.show(pieces.text.Add(clean(c.Content)), pieces.thinking.Add(clean(c.Reasoning)))
		if len(c.Calls) > 0 && !early {
			if named := m.named(); len(named) > 0 {
				early = true
				pieces.end()
				t.emit(Event{Kind: ToolStart, Calls: named, Early: true})
			}
		}
		if ctx.Err() != nil {
			return m, ctx.Err()
		}
	}
	return m, nil
}

// standInNote reports that a model answers in place of another.
func standInNote(model, requested string) string {
	return fmt.Sprintf("model '%s' answers instead of '%s', which failed", model, requested)
}

// request returns the request for the model: the system prompt, the
// conversation with this run's messages before the user's newest, and the
// tools.
func (t *turn) request() model.Request {
	ms := make([]sessionlog.Message, 0, 1+len(t.Session.Messages)+len(t.injected))
	if t.system != "" {
		ms = append(ms, sessionlog.Message{Role: record.RoleSystem, Content: t.system})
	}
	s := *t.Session
	if t.short != nil {
		s.Messages = t.short
	}
	ms = append(ms, s.answered(t.newest)...)
	ms = append(ms, t.injected...)
	ms = append(ms, s.Messages[t.newest:]...)
	if t.nudge != "" {
		ms = append(ms, sessionlog.Message{Role: record.RoleUser, Content: t.nudge})
	}
	if t.last {
		return model.Request{Model: t.Agent.Model, Messages: ms, Thinking: t.Agent.Thinking, OnNotice: t.notice, OnProgress: t.progress}
	}
	choice := t.Agent.ToolChoice
	if choice != "none" && len(t.Session.Messages) > t.newest+1 { // the turn has calls: the model may answer
		choice = ""
	}
	return model.Request{
		Model: t.Agent.Model, Messages: ms, Tools: t.Tools.Schemas(t.Scope(), t.Agent.Offers), ToolChoice: choice, Thinking: t.Agent.Thinking,
		OnNotice: t.notice, OnProgress: t.progress,
	}
}

// notice shows what the user should know.
func (t *turn) notice(text string) { t.emit(Event{Kind: Notice, Note: text}) }

// progress shows how much of the prompt the server has read, at most once a second.
func (t *turn) progress(percent int) {
	if now := time.Now(); now.Sub(t.progressed) >= time.Second {
		t.progressed = now
		t.emit(Event{Kind: Progress, Note: fmt.Sprintf("reading the prompt, %d %%", percent)})
	}
}
