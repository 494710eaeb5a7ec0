package history

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// SessionWriter generates the writes of one writer to one session, in order. The
// lines contain numbers from 1, which show the writer's progress after a crash.
type SessionWriter struct {
	rng    *rand.Rand
	writer int
	n      int    // number of the last part
	queue  []Part // tool results that are the next write
}

// Part is a line of a session: a message or another record.
type Part struct {
	Kind    record.Kind // KindMessage, KindMarker, or KindMetaRecord
	Message sessionlog.Message
	Text    string // summary of a marker, or title of a meta record; "" for a run time
}

// NewSessionWriter returns a writer of a session. The seed and the two numbers
// determine its writes.
func NewSessionWriter(seed uint64, session, writer int) *SessionWriter {
	return &SessionWriter{rng: rand.New(rand.NewPCG(seed, uint64(session)<<32|uint64(writer))), writer: writer}
}

// SessionMeta returns the meta line of session i of a history.
func SessionMeta(i int) sessionlog.Meta {
	return sessionlog.Meta{Agent: "Agent K", CreatedBy: fmt.Sprintf("sender %d é", i), CreatedAt: record.Timestamp(Stamp)}
}

// SessionID returns the ID of session i, if it is the first session of its sender.
func SessionID(i int) string {
	return fmt.Sprintf("agent-k_sender-%d-é_1", i)
}

// uptime returns the run time that a writer adds in one write. It identifies the
// writer.
func uptime(writer int) uint64 { return uint64(writer) + 1 }

// N returns the number of the last part.
func (w *SessionWriter) N() int { return w.n }

// Next returns the parts of the next write.
func (w *SessionWriter) Next() []Part {
	if len(w.queue) > 0 {
		op := w.queue
		w.queue = nil
		w.n += len(op)
		return op
	}
	switch k := w.rng.IntN(12); k {
	case 0:
		w.n++
		return []Part{{Kind: record.KindMetaRecord, Text: fmt.Sprintf("Title %d/%d: ü", w.writer, w.n)}}
	case 1:
		return []Part{{Kind: record.KindMarker, Text: w.text()}}
	case 2:
		w.n++
		return []Part{{Kind: record.KindMetaRecord}}
	case 3, 4, 5:
		return []Part{w.message(record.RoleUser)}
	case 6, 7:
		p := w.message(record.RoleAssistant)
		p.Message.ReasoningContent = "because"
		return []Part{p}
	default:
		op := []Part{w.message(record.RoleAssistant)}
		for i := range 1 + w.rng.IntN(3) {
			id := fmt.Sprintf("call-%d-%d-%d", w.writer, w.n, i)
			op[0].Message.ToolCalls = append(op[0].Message.ToolCalls, sessionlog.ToolCall{
				ID: id, Type: "function", Function: sessionlog.Function{Name: "look", Arguments: `{"n":1}`}})
		}
		called := w.n
		for _, c := range op[0].Message.ToolCalls {
			p := w.message(record.RoleTool)
			p.Message.ToolCallID = c.ID
			op = append(op, p)
		}
		if k < 10 {
			return op
		}
		w.queue, w.n = op[1:], called // the results are a separate write
		return op[:1]
	}
}

// text returns a random text that begins with the writer and the number of the next
// part. Some texts span several disk blocks.
func (w *SessionWriter) text() string {
	w.n++
	n := 20 + w.rng.IntN(80)
	switch w.rng.IntN(10) {
	case 0:
		n = 4000 + w.rng.IntN(8<<10)
	case 1:
		n = 20_000
	case 2, 3, 4:
		n = 600
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d ", w.writer, w.n)
	for b.Len() < n {
		fmt.Fprintf(&b, "%d \"é\"\n\u2028{\\", w.rng.Uint64())
	}
	return b.String()
}

func (w *SessionWriter) message(role string) Part {
	return Part{Kind: record.KindMessage, Message: sessionlog.Message{Role: role, Content: w.text()}}
}

// Durable reports whether a write is durable when sessionlog acknowledges it.
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

// Do writes op, a result of Next or Skip, to a session.
func (w *SessionWriter) Do(l *sessionlog.Log, op []Part) error {
	p := &op[0]
	switch {
	case p.Kind == record.KindMarker:
		return l.Compact(p.Text)
	case p.Kind == record.KindMetaRecord && p.Text != "":
		return l.SetTitle(p.Text)
	case p.Kind == record.KindMetaRecord:
		return l.AddUptime(uptime(w.writer))
	}
	ms := make([]sessionlog.Message, len(op))
	for i := range op {
		ms[i] = op[i].Message
	}
	return l.Append(ms...)
}

// Skip skips the parts up to n. If n is inside a write, Skip returns the remaining
// parts, which are the next write.
func (w *SessionWriter) Skip(n int) []Part {
	for w.n < n {
		op := w.Next()
		if over := w.n - n; over > 0 {
			return op[len(op)-over:]
		}
	}
	return nil
}
