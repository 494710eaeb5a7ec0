package daemon

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/bm25/clip"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/model"
	"crabmem/daemon/op"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// offline is a built-in model without a language model: it responds with
// matches in the store and the conversation, and says so.
type offline struct{ d *Daemon }

const (
	offlineLimit   = 128_000 // tokens of the context it claims
	offlineEntries = 3
	offlineSnippet = 400 // bytes
	offlineSummary = 16 << 10
)

// Send answers a request as Stream does. A request for a summary gets the
// shortened conversation.
func (o *offline) Send(ctx context.Context, q model.Request) (*model.Response, error) {
	text := o.summary(q.Messages)
	return &model.Response{Message: sessionlog.Message{Role: record.RoleAssistant, Content: text}, Finish: "stop"}, nil
}

func (o *offline) Stream(ctx context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		text, err := o.answer(ctx, &q)
		if err != nil {
			yield(model.Chunk{}, err)
			return
		}
		for line := range strings.Lines(text) {
			if ctx.Err() != nil {
				yield(model.Chunk{}, ctx.Err())
				return
			}
			if !yield(model.Chunk{Content: line}, nil) {
				return
			}
		}
		yield(model.Chunk{Finish: "stop"}, nil)
	}
}

// newest returns the place of the newest message that the user wrote.
func newest(ms []sessionlog.Message) int {
	for i, m := range slices.Backward(ms) {
		if m.Role == record.RoleUser && !m.Injected {
			return i
		}
	}
	return -1
}

func (o *offline) answer(ctx context.Context, q *model.Request) (string, error) {
	at := newest(q.Messages)
	if at < 0 {
		return "", errNoQuestion
	}
	question := q.Messages[at].Content
	var b strings.Builder
	// Without recall, the answer uses only the conversation.
	if slices.ContainsFunc(q.Tools, func(t model.Tool) bool { return t.Name == tool.Recall }) {
		t := agent.TurnOf(ctx)
		if t == nil {
			return "", errNoRun
		}
		r, err := o.d.recallSpaces(ctx, tool.Call{Agent: t.Agent.Name, Workspace: t.Session.Workspace, Scope: t.Scope()}, op.Question{Query: question, Limit: offlineEntries})
		if err != nil {
			return "", err
		}
		for _, h := range r.Hits {
			fmt.Fprintf(&b, "- **%s** (%s): %s\n", display.OneLine(h.Name), h.Kind,
				display.OneLine(h.Cut(analysis.Standard, offlineSnippet)))
		}
	}
	for _, m := range relevantMessages(q.Messages[:at], question) {
		fmt.Fprintf(&b, "- earlier here, %s: %s\n", m.Role, display.OneLine(clip.Marked(m.Content, offlineSnippet)))
	}
	if b.Len() == 0 {
		return "No model is in use, and neither the memory nor this conversation contains a match. Run `crabmem init` to configure a model.\n", nil
	}
	return "No model is in use. The memory and this conversation contain these matches, verbatim:\n\n" + b.String(), nil
}

var errNoRun = fmt.Errorf("the memory is only available in a run")

var errNoQuestion = fmt.Errorf("no message to answer")

// relevantMessages returns up to two messages of a session that best match a
// question.
func relevantMessages(ms []sessionlog.Message, question string) []sessionlog.Message {
	x := bm25.New(analysis.Standard)
	for i, m := range ms {
		if (m.Role == record.RoleUser || m.Role == record.RoleAssistant) && !m.Injected && !strings.HasPrefix(m.Content, "No model is in use") {
			x.Add(bm25.Doc{ID: uint64(i + 1), Fields: []string{m.Content}})
		}
	}
	var found []sessionlog.Message
	for _, h := range x.Search(bm25.Query{Text: question, Limit: 2}).Hits {
		found = append(found, ms[h.ID-1])
	}
	return found
}

// summary shortens a session to the user's messages and the beginning of each
// answer.
func (o *offline) summary(ms []sessionlog.Message) string {
	var b strings.Builder
	b.WriteString("Shortened without a model:\n")
	for i, m := range ms {
		if m.Role != record.RoleUser && m.Role != record.RoleAssistant || m.Content == "" || i == len(ms)-1 {
			continue
		}
		fmt.Fprintf(&b, "- %s: %s\n", m.Role, display.OneLine(clip.Marked(m.Content, offlineSnippet)))
	}
	text := b.String()
	if len(text) > offlineSummary {
		text = text[:offlineSummary/2] + "\n...\n" + text[len(text)-offlineSummary/2:]
	}
	return strings.ToValidUTF8(text, "")
}
