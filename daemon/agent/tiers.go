package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Tiers are shares of the window at which an agent with a role compacts its session after
// a step: in the background, in the background with less text, and without a model.
type Tiers struct{ Background, Urgent, Emergency float64 }

// DefaultTiers apply to a Runner without Tiers.
var DefaultTiers = Tiers{Background: 0.80, Urgent: 0.85, Emergency: 0.95}

const (
	keptNewest  = 0.40 // share of the window that an emergency keeps
	keptSummary = 0.25 // share of the window that summaries may have
	keptLast    = 0.10 // share of the window that the last exchanges may have in a tail
	exchanges   = 2    // at most these

	maxHeadings  = 1 << 10 // bytes of the headings of two summaries
	maxEarlier   = 8 << 10 // bytes of the earlier summary after an emergency
	maxListed    = 20      // messages of the user in the text of an emergency
	maxListedOne = 200     // bytes of each
)

// tiered reports whether the run compacts in tiers.
func (t *turn) tiered() bool {
	return t.Background != nil && t.Agent.Offers != nil && t.Agent.CompactThreshold > 0
}

// window returns the tokens that count as 100 % for the tiers: those of which today's
// threshold is 80 %, or the model's window if it is smaller.
func (t *turn) window() int {
	w := t.Agent.CompactThreshold * 5 / 4
	if n := t.Models.ContextLimit(t.Agent.Model); n > 0 {
		w = min(w, n)
	}
	return w
}

// share returns a share of w tokens, in bytes.
func share(w int, of float64) int { return int(float64(w)*of) * bytesPerToken }

// compactInTiers commits a summary that is complete, and begins one if a tier is reached,
// unless fit compacts without a model before the next step. It never waits for a model.
func (t *turn) compactInTiers(ctx context.Context, ends bool) {
	t.commit()
	w, tiers := t.window(), cmp.Or(t.Tiers, DefaultTiers)
	switch n := float64(t.now()) / float64(w); {
	case n > tiers.Emergency && !ends:
	case n > tiers.Urgent:
		t.summarize(ctx, true)
	case n > tiers.Background:
		t.summarize(ctx, false)
	}
}

// summarize begins a summary in the background. An urgent one has the fallback model and
// half the length.
func (t *turn) summarize(ctx context.Context, urgent bool) {
	s := t.Session
	p := t.Background.claim(s, urgent)
	if p == nil {
		return
	}
	a := *t.Agent
	if urgent {
		a.CompactModel, a.CompactTokens = t.Models.Fallback(cmp.Or(a.CompactModel, a.Model)), a.CompactTokens/2
	}
	frozen := s.freeze(s.Scope)
	var f *Flush
	if !urgent {
		f = t.flush()
	}
	if s.Compactions > 0 {
		m := &frozen.Messages[0]
		m.Content = "The summaries of the messages before these. They stay: do not repeat them.\n\n" + m.Content
	}
	t.Background.run(ctx, p, t.Runner, &a, frozen, f)
}

// freeze returns a copy of the session for a background task, within a scope.
func (s *Session) freeze(scope tool.Scope) *Session {
	return &Session{Log: s.Log, CreatedBy: s.CreatedBy, Scope: scope, Compactions: s.Compactions, Messages: slices.Clone(s.Messages)}
}

// commit replaces the messages that a complete background summary covers. If another
// marker came first, the summary becomes an archive only.
func (t *turn) commit() {
	s := t.Session
	p := t.Background.take(s)
	if p != nil {
		t.flushed(p.stored, p.flushErr)
	}
	switch {
	case p == nil:
	case p.err != nil:
		t.notice("summarize session: " + p.err.Error())
	case !p.covers(s):
		if t.Archive == nil {
			return
		}
		if _, err := t.Archive(t.Agent, s, Summary{Number: p.number, Text: stacked(s, "", p.number, p.text, 1<<30), Late: true}); err != nil {
			t.notice("archive late summary: " + err.Error())
		}
	default:
		w := t.window()
		from := tailStart(s.Messages[:p.frozen], s.first(), share(w, keptLast))
		t.mark(p.text, s.summary(), share(w, keptSummary), from)
	}
}

// first returns the index of the first message after the summary.
func (s *Session) first() int { return min(s.Compactions, 1) }

// summary returns the text of the last marker, or "".
func (s *Session) summary() string {
	if s.Compactions == 0 || len(s.Messages) == 0 {
		return ""
	}
	return s.Messages[0].Content
}

// tailStart returns the index from which messages stay after a summary of ms: that of the
// last exchanges, if they have at most room bytes.
func tailStart(ms []sessionlog.Message, first, room int) int {
	start, n := len(ms), 0
	for i := len(ms) - 1; i >= first && n < exchanges; i-- {
		if room -= Size(ms[i : i+1]); room < 0 {
			break
		}
		if ms[i].Role == record.RoleUser {
			start, n = i, n+1
		}
	}
	return start
}

// mark replaces the messages before from by a summary with at most room bytes, on top of
// the earlier ones.
func (t *turn) mark(text, earlier string, room, from int) {
	s := t.Session
	text = stacked(s, earlier, s.Compactions+1, text, room)
	newest, n := t.newest, s.Compactions
	archive, err := t.Runner.mark(t.Agent, s, text, from)
	if s.Compactions == n {
		t.notice("compact session: " + err.Error())
		return
	}
	if t.newest = 0; newest >= from {
		t.newest = newest - from + 1
	}
	t.full, t.counted = t.estimate(), len(s.Messages)
	t.emit(Event{Kind: Compacted, Summary: text, Archive: archive})
	if err != nil {
		t.notice(err.Error())
	}
}

// emergency compacts without a model, for a window of w tokens. The newest complete steps
// stay, up to a share of the window, and at least the last step.
func (t *turn) emergency(w int) {
	s := t.Session
	first := s.first()
	from, size := len(s.Messages), 0
	for i := len(s.Messages) - 1; i >= first; i-- {
		size += Size(s.Messages[i : i+1])
		if size > share(w, keptNewest) && from < len(s.Messages) {
			break
		}
		if s.Messages[i].Role != record.RoleTool {
			from = i
		}
	}
	if Size(s.Messages[first:from]) < share(w, keptNewest)/8 {
		return // there is no text left to omit
	}
	text, earlier := t.omitted(s.Messages[first:from]), s.summary()
	if newest, ok := NewestSummary(earlier); ok {
		earlier = newest
	}
	room := share(w, keptSummary)
	t.mark(text, clip.Bytes(earlier, max(0, min(maxEarlier, room-len(text)-maxHeadings))), room, from)
}

// omitted returns the text that replaces messages without a summary: which lines they are,
// and the last messages of the user.
func (t *turn) omitted(ms []sessionlog.Message) string {
	var b strings.Builder
	b.WriteString("There is no summary of the messages before these: the context was full.")
	if t.Session.Log != nil {
		if first, last, err := t.Session.Log.Span(); err == nil {
			fmt.Fprintf(&b, " They are in lines %d to %d of the session.", first, last)
		}
	}
	var lines []string
	for i := len(ms) - 1; i >= 0 && len(lines) < maxListed; i-- {
		if m := &ms[i]; m.Role == record.RoleUser && len(m.Work) == 0 {
			lines = append(lines, "- "+cut(strings.Join(strings.Fields(m.Content), " "), maxListedOne))
		}
	}
	if len(lines) > 0 {
		b.WriteString(" The last messages of the user in them:\n")
	}
	for i := len(lines) - 1; i >= 0; i-- {
		b.WriteString("\n" + lines[i])
	}
	return b.String()
}

// compactOverflow compacts after the model refused a request as too long. The window is
// then less than what the request had.
func (t *turn) compactOverflow(ctx context.Context) {
	if !t.tiered() {
		t.compact(ctx)
		return
	}
	n := t.Session.Compactions
	t.emergency(min(t.window(), t.now()*4/5))
	t.noCompact = t.Session.Compactions == n // there is no text left to omit
}
