package agent

import (
	"fmt"
	"slices"
	"strings"

	"crabmem/daemon/model"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// maxCalls bounds the calls of one answer.
const maxCalls = 128

// merger puts an answer together from its chunks. A chunk names a call by its
// index; the id, type and name that are there overwrite, arguments append.
type merger struct {
	text, thinking strings.Builder
	calls          []*call // by index
	finish         string
	usage          *model.Usage
}

type call struct {
	index          int
	id, kind, name string
	arguments      strings.Builder
}

func (m *merger) add(c *model.Chunk) error {
	m.text.WriteString(c.Content)
	m.thinking.WriteString(c.Reasoning)
	for i := range c.Calls {
		d := &c.Calls[i]
		at, ok := slices.BinarySearchFunc(m.calls, d.Index, func(c *call, index int) int { return c.index - index })
		if !ok {
			if len(m.calls) == maxCalls {
				return fmt.Errorf("the model made more than %d tool calls in one response", maxCalls)
			}
			m.calls = slices.Insert(m.calls, at, &call{index: d.Index})
		}
		c := m.calls[at]
		if d.ID != "" {
			c.id = d.ID
		}
		if d.Type != "" {
			c.kind = d.Type
		}
		if d.Name != "" {
			c.name = d.Name
		}
		c.arguments.WriteString(d.Arguments)
	}
	if c.Finish != "" {
		m.finish = c.Finish
	}
	if c.Usage != nil {
		m.usage = c.Usage
	}
	return nil
}

// began reports whether the answer has text or calls.
func (m *merger) began() bool { return m.text.Len() > 0 || len(m.calls) > 0 }

// named returns the calls with a name, without arguments.
func (m *merger) named() []Call {
	var list []Call
	for _, c := range m.calls {
		if c.name != "" {
			list = append(list, Call{Name: c.name})
		}
	}
	return list
}

// message returns the response. Every call in it has a unique ID to match its
// result: some models omit IDs or repeat them.
func (m *merger) message() sessionlog.Message {
	msg := sessionlog.Message{Role: record.RoleAssistant, Content: clean(m.text.String()), ReasoningContent: clean(m.thinking.String())}
	taken := make(map[string]bool, len(m.calls))
	for _, c := range m.calls {
		taken[c.id] = true
	}
	seen := make(map[string]bool, len(m.calls))
	for i, c := range m.calls {
		id := clean(c.id)
		for n := i; id == "" || seen[id]; n++ {
			if id = fmt.Sprintf("call_%d", n); taken[id] {
				id = ""
			}
		}
		seen[id] = true
		kind := clean(c.kind)
		if kind == "" {
			kind = "function"
		}
		msg.ToolCalls = append(msg.ToolCalls, sessionlog.ToolCall{
			ID: id, Type: kind, Function: sessionlog.Function{Name: clean(c.name), Arguments: clean(c.arguments.String())},
		})
	}
	return msg
}

// clean returns text of a model in valid UTF-8, as sessions require.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
