package agent

import (
	"cmp"
	"context"
	"sync"

	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

// Hooks are functions of a program that a run calls (RFC 0075). Each may be
// nil.
type Hooks struct {
	// BuildAgent changes an agent before it is used for the first time: its
	// prompt, its scope, its resources.
	BuildAgent func(a *Agent)
	// RegisterTools adds the tools that there are.
	RegisterTools func(s *tool.Set)
	// Preprocess converts a user's input to the message for the model, before
	// it is written to the session.
	Preprocess func(t *Turn) string
	// BeforeRun returns messages for this run only. They precede the user's
	// newest message and are never written. ctx permits Emit.
	BeforeRun func(ctx context.Context, t *Turn) []sessionlog.Message
	// Between is called after each step with calls. It returns messages that it has
	// written to the session's log, for the next step.
	Between func(ctx context.Context, t *Turn) ([]sessionlog.Message, error)
	// Again is called for an answer. If it returns a text, the run continues: the text is
	// the last message of the next request, and is never written.
	Again func(t *Turn, answer string) string
	// Event receives every event of every run, before the run's caller, except of a
	// run that returns the answer of an earlier one.
	Event func(t *Turn, e Event)
	// CompactPrompt asks for the summary of an agent without a prompt of its own. "" is
	// DefaultCompactPrompt.
	CompactPrompt string
	// FlushPrompt, such as DefaultFlushPrompt, asks a model to store what it must not
	// forget, with the tool remember, before a full context is compacted, for an agent
	// without a prompt of its own. "": it is not asked.
	FlushPrompt string
}

// Turn is one run of an agent, as hooks see it. Hooks change it only through
// Narrow, Conclude, Replied, and Skip.
type Turn struct {
	Agent   *Agent
	Session *Session
	Sender  string
	Tag     string // of the request
	Request string // the client's request ID, or ""
	Content string // the user's input; after Preprocess, its result
	Depth   int    // number of delegations that led here
	Literal bool   // Content names no skill

	// Continued are the calls and results of the turn that the run continues. It is
	// set when BeforeRun is called.
	Continued []sessionlog.Message

	mu       sync.Mutex
	scope    tool.Scope
	bound    tool.Scope // the intersection of the scopes passed to Narrow
	conclude bool
	reply    string
	skip     bool
}

// Scope returns the permissions of the run: the intersection of agent and
// session, and of the scopes passed to Narrow.
func (t *Turn) Scope() tool.Scope {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.scope
}

type turnKey struct{}

// TurnOf returns the run in whose context a model or a tool is called, or nil.
func TurnOf(ctx context.Context) *Turn {
	t, _ := ctx.Value(turnKey{}).(*Turn)
	return t
}

// Narrow restricts the run, until its end, to permissions that s also has. It
// cannot be undone.
func (t *Turn) Narrow(s tool.Scope) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scope, t.bound = t.scope.Intersect(s), t.bound.Intersect(s)
}

// Bound returns the intersection of the scopes passed to Narrow.
func (t *Turn) Bound() tool.Scope {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bound
}

// Conclude makes the next step the last one. It has no tools.
func (t *Turn) Conclude() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conclude = true
}

// Replied notes a text that the user has received before the end of the run. It is the
// answer if the last response has no text.
func (t *Turn) Replied(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reply = text
}

// Skip ends the run after this step. The answer is the text passed to Replied, or empty.
func (t *Turn) Skip() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.skip = true
}

func (t *Turn) skipped() (skip bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	skip, t.skip = t.skip, false
	return skip
}

func (t *Turn) replied() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reply
}

func (t *Turn) concluded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conclude
}

// Then returns hooks that call h, then next. next preprocesses the result of h,
// its messages follow those of h, and its prompts replace those of h.
func (h Hooks) Then(next Hooks) Hooks {
	return Hooks{
		BuildAgent:    both(h.BuildAgent, next.BuildAgent),
		RegisterTools: both(h.RegisterTools, next.RegisterTools),
		Preprocess: func(t *Turn) string {
			t.Content = h.preprocess(t)
			return next.preprocess(t)
		},
		BeforeRun: func(ctx context.Context, t *Turn) []sessionlog.Message {
			return append(h.beforeRun(ctx, t), next.beforeRun(ctx, t)...)
		},
		Between: func(ctx context.Context, t *Turn) ([]sessionlog.Message, error) {
			ms, err := h.between(ctx, t)
			if err != nil {
				return ms, err
			}
			more, err := next.between(ctx, t)
			return append(ms, more...), err
		},
		Again: func(t *Turn, answer string) string { return cmp.Or(h.again(t, answer), next.again(t, answer)) },
		Event: func(t *Turn, e Event) {
			h.event(t, e)
			next.event(t, e)
		},
		CompactPrompt: cmp.Or(next.CompactPrompt, h.CompactPrompt),
		FlushPrompt:   cmp.Or(next.FlushPrompt, h.FlushPrompt),
	}
}

func both[T any](f, g func(T)) func(T) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(v T) {
		f(v)
		g(v)
	}
}

func (h *Hooks) preprocess(t *Turn) string {
	if h.Preprocess == nil {
		return t.Content
	}
	return h.Preprocess(t)
}

func (h *Hooks) beforeRun(ctx context.Context, t *Turn) []sessionlog.Message {
	if h.BeforeRun == nil {
		return nil
	}
	ms := h.BeforeRun(ctx, t)
	for i := range ms {
		ms[i].Injected = true
	}
	return ms
}

func (h *Hooks) between(ctx context.Context, t *Turn) ([]sessionlog.Message, error) {
	if h.Between == nil {
		return nil, nil
	}
	return h.Between(ctx, t)
}

func (h *Hooks) again(t *Turn, answer string) string {
	if h.Again == nil {
		return ""
	}
	return h.Again(t, answer)
}

func (h *Hooks) event(t *Turn, e Event) {
	if h.Event != nil {
		h.Event(t, e)
	}
}
