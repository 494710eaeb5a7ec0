package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/daemon/model"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// compactTimeout limits the time for a summary, with its retries.
const compactTimeout = model.LocalTimeout

// resultShown is how much of a tool's result the model sees when it writes a
// summary, in bytes.
const resultShown = 1 << 10

// CompactOptions adjusts a summary. The zero value is valid.
type CompactOptions struct {
	Focus  string // subject to preserve
	Tokens int    // about how long it may be

	OnNotice func(text string) // of the request to the model; may be nil
}

// ErrNothing is returned for a session without messages.
var ErrNothing = errors.New("nothing to compact")

// Summarize returns the model's summary of the session. It does not change the
// session (RFC 0078).
func (r *Runner) Summarize(ctx context.Context, a *Agent, s *Session, o CompactOptions) (string, error) {
	if len(s.Messages) == 0 {
		return "", ErrNothing
	}
	ctx, cancel := context.WithTimeout(ctx, compactTimeout)
	defer cancel()
	if o.Tokens == 0 {
		o.Tokens = a.CompactTokens
	}
	room := r.Models.ContextLimit(cmp.Or(a.CompactModel, a.Model)) * 4 / 5 * bytesPerToken
	var resp *model.Response
	var err error
	for size := math.MaxInt; ; {
		q := r.summaryRequest(a, s, o, room)
		was := size
		size = Size(q.Messages)
		if size >= was {
			return "", err // there is no text left to omit
		}
		resp, err = r.Models.Send(ctx, q)
		if !errors.Is(err, model.ErrOverflow) {
			break
		}
		// The context is smaller than the limit, or its tokens have fewer
		// bytes.
		room = size / 2
	}
	if err != nil {
		return "", err
	}
	if resp.Model != "" && o.OnNotice != nil {
		o.OnNotice(standInNote(resp.Model, cmp.Or(a.CompactModel, a.Model, r.Models.Active())))
	}
	summary, err := textOf(resp, "summary")
	return strings.TrimSpace(r.record(summary)), err
}

// summaryRequest returns a request of at most room bytes if possible.
func (r *Runner) summaryRequest(a *Agent, s *Session, o CompactOptions, room int) model.Request {
	prompt := strings.TrimSpace(cmp.Or(a.CompactPrompt, r.Hooks.CompactPrompt, DefaultCompactPrompt))
	if o.Focus != "" {
		prompt += "\n\nKeep above all: " + o.Focus
	}
	if o.Tokens > 0 {
		prompt += fmt.Sprintf("\n\nWrite at most %d tokens.", o.Tokens)
	}
	ms := []sessionlog.Message{{Role: record.RoleSystem, Content: prompt}}
	if system := a.systemFor(a.Scope.Intersect(s.Scope)); system != "" {
		ms = append(ms, sessionlog.Message{Role: record.RoleUser, Content: "The instructions of the agent:\n\n" + system})
	}
	end := sessionlog.Message{Role: record.RoleUser, Content: "Write the summary now."}
	room -= Size(ms) + Size([]sessionlog.Message{end})
	ms = append(append(ms, shortened(s.answered(len(s.Messages)), room)...), end)
	// The model writes all of it before the first byte arrives. max_tokens does
	// not limit its length: reasoning or a longer text would cut the summary, and
	// a cut summary is discarded.
	return model.Request{Model: cmp.Or(a.CompactModel, a.Model), Messages: ms, OnNotice: o.OnNotice}
}

// shortened returns messages that fit the model. It truncates results of tools
// first; if that is not enough, it truncates all messages, the later ones less.
// It omits no message, so calls and results stay together.
func shortened(ms []sessionlog.Message, room int) []sessionlog.Message {
	short := make([]sessionlog.Message, len(ms))
	for i, m := range ms {
		if m.ReasoningContent = ""; m.Role == record.RoleTool {
			m.Content = cut(m.Content, resultShown)
		}
		short[i] = m
	}
	return squeezed(short, room, 4<<10)
}

// squeezed truncates texts to at most limit bytes, and to half of them until the messages
// have room bytes. It changes short.
func squeezed(short []sessionlog.Message, room, limit int) []sessionlog.Message {
	for ; limit >= 32 && Size(short) > room; limit /= 2 {
		for i := range short {
			m := &short[i]
			// The last quarter keeps four times as much.
			n := limit
			if i >= len(short)*3/4 {
				n *= 4
			}
			m.Content, m.ReasoningContent = cut(m.Content, n), cut(m.ReasoningContent, n)
			if len(m.ToolCalls) > 0 {
				calls := make([]sessionlog.ToolCall, len(m.ToolCalls))
				for j, c := range m.ToolCalls {
					if len(c.Function.Arguments) > n {
						c.Function.Arguments = "{}" // a truncated object is invalid
					}
					calls[j] = c
				}
				m.ToolCalls = calls
			}
		}
	}
	return short
}

const cutNote = "... [truncated]"

// cut returns a text, or its first n bytes and a note.
func cut(s string, n int) string {
	if len(s) <= n+len(cutNote) {
		return s
	}
	return clip.Bytes(s, n) + cutNote
}

// bytesPerToken is the estimate without a count of the model.
const bytesPerToken = 4

// Estimate returns an estimate of the tokens of messages.
func Estimate(ms []sessionlog.Message) int { return Size(ms) / bytesPerToken }

// Size returns the number of bytes of text in messages.
func Size(ms []sessionlog.Message) int {
	n := 0
	for i := range ms {
		m := &ms[i]
		n += len(m.Content) + len(m.ReasoningContent)
		for _, c := range m.ToolCalls {
			n += len(c.Function.Name) + len(c.Function.Arguments)
		}
	}
	return n
}

// Compact replaces the session's messages by a summary. It writes the marker to
// the log, syncs it, then writes the entry to the store. An error before the
// marker changes nothing. Compact reports an error after the marker, and the next
// run writes the entry first.
func (r *Runner) Compact(ctx context.Context, a *Agent, s *Session, o CompactOptions) (summary, archive string, err error) {
	if summary, err = r.Summarize(ctx, a, s, o); err != nil {
		return "", "", err
	}
	n := s.Compactions
	archive, err = r.mark(a, s, summary, len(s.Messages))
	if s.Compactions == n {
		return "", "", err
	}
	return summary, archive, err
}

// mark replaces the messages before from by a summary, as Compact does.
func (r *Runner) mark(a *Agent, s *Session, summary string, from int) (archive string, err error) {
	tail := slices.Clone(s.Messages[from:])
	if s.Log != nil {
		if r.BeforeSummary != nil {
			if err := r.BeforeSummary(s); err != nil {
				return "", fmt.Errorf("record pending archive: %w", err)
			}
		}
		if err := s.Log.Compact(summary, tail...); err != nil { // ◄ the commit point of the compaction
			return "", fmt.Errorf("write session: %w", err)
		}
	}
	s.Compactions++
	s.Messages = append([]sessionlog.Message{{Role: record.RoleUser, Content: summary}}, tail...)
	s.Streamed, s.Failed = "", false
	s.Unarchived = append(s.Unarchived, Summary{Number: s.Compactions, Text: summary})
	return r.ArchivePending(a, s)
}

// ArchivePending writes the summaries that are in the log and not in the store,
// and returns the name of the last.
func (r *Runner) ArchivePending(a *Agent, s *Session) (name string, err error) {
	for r.Archive != nil && len(s.Unarchived) > 0 {
		if name, err = r.Archive(a, s, s.Unarchived[0]); err != nil {
			return "", fmt.Errorf("the session has the summary, but the store does not: %w", err)
		}
		s.Unarchived = s.Unarchived[1:]
	}
	return name, nil
}

// archive writes summaries that an earlier run could not archive.
func (t *turn) archive() {
	if _, err := t.ArchivePending(t.Agent, t.Session); err != nil {
		t.emit(Event{Kind: Notice, Note: err.Error()})
	}
}

// count records the size of the context and sends it as an event.
func (t *turn) count(u *model.Usage) {
	e := TokenUsage{Limit: t.Models.ContextLimit(t.Agent.Model)}
	if u != nil && u.Prompt > 0 && t.short == nil { // else a later request has more text
		e.Prompt, e.Completion = u.Prompt, u.Completion
	} else {
		last := t.Session.Messages[len(t.Session.Messages)-1:]
		e.Completion = Size(last) / bytesPerToken
		e.Prompt = t.estimate() - e.Completion
		e.Estimated = true
	}
	t.full, t.counted = e.Prompt+e.Completion, len(t.Session.Messages)
	t.emit(Event{Kind: Usage, Model: cmp.Or(t.standIn, t.Agent.Model, t.Models.Active()), Usage: &e})
}

// estimate returns the tokens in the context if the model did not count them: of the system
// prompt, the schemas and the messages of this run.
func (t *turn) estimate() int {
	n := len(t.system) + Size(t.injected) + Size(t.Session.Messages)
	for _, s := range t.Tools.Schemas(t.Scope(), t.Agent.Offers) {
		n += len(s.Name) + len(s.Description) + len(s.Parameters)
	}
	return n / bytesPerToken
}

// limit returns how many tokens the context may have before a compaction: the
// threshold, or 80 % of the model's window if that is less. 0 means no limit.
func (t *turn) limit() int {
	if t.Agent.CompactThreshold <= 0 {
		return 0
	}
	if n := t.Models.ContextLimit(t.Agent.Model); n > 0 {
		return min(t.Agent.CompactThreshold, n*4/5)
	}
	return t.Agent.CompactThreshold
}

// now returns the context's tokens, as counted last and estimated since.
func (t *turn) now() int {
	return t.full + Size(t.Session.Messages[min(t.counted, len(t.Session.Messages)):])/bytesPerToken
}

// compactIfFull compacts after a step that filled the context. ends is set after the last
// step of a run.
func (t *turn) compactIfFull(ctx context.Context, ends bool) {
	if t.tiered() {
		t.compactInTiers(ctx, ends)
		return
	}
	limit := t.limit()
	if limit == 0 || t.noCompact || t.now() <= limit {
		return
	}
	t.flushNow(ctx)
	t.compact(ctx)
}

// compact compacts in the middle of a run. When it fails, or does not help, it
// is not done again in this run.
func (t *turn) compact(ctx context.Context) {
	summary, archive, err := t.Compact(ctx, t.Agent, t.Session, CompactOptions{OnNotice: t.notice})
	if summary == "" {
		t.noCompact = true
		t.emit(Event{Kind: Notice, Note: "compact session: " + err.Error()})
		return
	}
	t.newest = 0
	t.full, t.counted = t.estimate(), len(t.Session.Messages)
	if limit := t.limit(); limit > 0 && t.full > limit {
		t.noCompact = true // only the prompt and the tools remain
	}
	t.emit(Event{Kind: Compacted, Summary: summary, Archive: archive})
	if err != nil {
		t.emit(Event{Kind: Notice, Note: err.Error()})
	}
}
