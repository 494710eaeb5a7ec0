package history

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// SessionWriter generates the writes of one writer to one session, in order. It
// numbers the lines from 1, so that the lines after a crash show the writer's
// progress.
type SessionWriter struct {
	rng    *rand.Rand
	writer int
	n      int    // of the last part
	queue  []Part // results of the last call, which are a write of their own
}

// Part is a line of a session: a message or another record.
type Part struct {
	Kind    record.Kind // KindMessage, KindMarker or KindMetaRecord
	Message sessionlog.Message
	Text    string // a marker's summary; a title; "" for run time
}

// NewSessionWriter returns a writer of a session.
func NewSessionWriter(seed uint64, session, writer int) *SessionWriter {
	return &SessionWriter{rng: rand.New(rand.NewPCG(seed, uint64(session)<<32|uint64(writer))), writer: writer}
}

// SessionMeta is how session i of a history is created.
func SessionMeta(i int) sessionlog.Meta {
	return sessionlog.Meta{Agent: "Agent K", CreatedBy: fmt.Sprintf("sender %d é", i), CreatedAt: record.Timestamp(Stamp)}
}

// SessionID is its id, when it is the first of its sender.
func SessionID(i int) string {
	return fmt.Sprintf("agent-k_sender-%d-é_1", i)
}

// uptime is the run time that a writer adds at once; it differs between
// writers.
func uptime(writer int) uint64 { return uint64(writer) + 1 }

// N is the number of the last part.
func (t *SessionWriter) N() int { return t.n }

// Next draws the parts of the next write.
func (t *SessionWriter) Next() []Part {
	if len(t.queue) > 0 {
		op := t.queue
		t.queue = nil
		t.n += len(op)
		return op
	}
	switch k := t.rng.IntN(12); k {
	case 0:
		t.n++
		return []Part{{Kind: record.KindMetaRecord, Text: fmt.Sprintf("Title %d/%d: ü", t.writer, t.n)}}
	case 1:
		return []Part{{Kind: record.KindMarker, Text: t.text()}}
	case 2:
		t.n++
		return []Part{{Kind: record.KindMetaRecord}}
	case 3, 4, 5:
		return []Part{t.message(record.RoleUser)}
	case 6, 7:
		p := t.message(record.RoleAssistant)
		p.Message.ReasoningContent = "because"
		return []Part{p}
	default:
		op := []Part{t.message(record.RoleAssistant)}
		for i := range 1 + t.rng.IntN(3) {
			id := fmt.Sprintf("call-%d-%d-%d", t.writer, t.n, i)
			op[0].Message.ToolCalls = append(op[0].Message.ToolCalls, sessionlog.ToolCall{
				ID: id, Type: "function", Function: sessionlog.Function{Name: "look", Arguments: `{"n":1}`}})
		}
		called := t.n
		for _, c := range op[0].Message.ToolCalls {
			p := t.message(record.RoleTool)
			p.Message.ToolCallID = c.ID
			op = append(op, p)
		}
		if k < 10 {
			return op
		}
		t.queue, t.n = op[1:], called // two steps
		return op[:1]
	}
}

// text draws a text that begins with the part's number. Some are longer than a
// block of the disk, or several.
func (t *SessionWriter) text() string {
	t.n++
	n := 20 + t.rng.IntN(80)
	switch t.rng.IntN(10) {
	case 0:
		n = 4000 + t.rng.IntN(8<<10)
	case 1:
		n = 20_000
	case 2, 3, 4:
		n = 600
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d ", t.writer, t.n)
	for b.Len() < n {
		fmt.Fprintf(&b, "%d \"é\"\n\u2028{\\", t.rng.Uint64())
	}
	return b.String()
}

func (t *SessionWriter) message(role string) Part {
	return Part{Kind: record.KindMessage, Message: sessionlog.Message{Role: role, Content: t.text()}}
}

// Durable reports whether a write is durable when it is acknowledged.
func Durable(op []Part) bool {
	p := &op[len(op)-1]
	switch p.Kind {
	case record.KindMarker:
		return true
	case record.KindMetaRecord:
		return p.Text != ""
	}
	return p.Message.Role == record.RoleUser || p.Message.Role == record.RoleAssistant && len(p.Message.ToolCalls) == 0
}

// Do makes the next write to the session.
func (t *SessionWriter) Do(l *sessionlog.Log, op []Part) error {
	p := &op[0]
	switch {
	case p.Kind == record.KindMarker:
		return l.Compact(p.Text)
	case p.Kind == record.KindMetaRecord && p.Text != "":
		return l.SetTitle(p.Text)
	case p.Kind == record.KindMetaRecord:
		return l.AddUptime(uptime(t.writer))
	}
	ms := make([]sessionlog.Message, len(op))
	for i := range op {
		ms[i] = op[i].Message
	}
	return l.Append(ms...)
}

// Skip counts the parts up to n as written. If a crash left part of a write,
// Skip returns the rest, which is the next write.
func (t *SessionWriter) Skip(n int) []Part {
	for t.n < n {
		op := t.Next()
		if over := t.n - n; over > 0 {
			return op[len(op)-over:]
		}
	}
	return nil
}
