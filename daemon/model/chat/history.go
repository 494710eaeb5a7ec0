package chat

import (
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// isEmpty reports whether a message is an assistant message without content.
func isEmpty(m *sessionlog.Message) bool {
	return m.Role == record.RoleAssistant && m.Content == "" && len(m.ToolCalls) == 0
}

// withoutCalls returns messages with their tool calls and results as text. Some
// endpoints, such as Anthropic's, refuse calls in a request without tools, for
// example the request of a summary.
func withoutCalls(messages []sessionlog.Message) []sessionlog.Message {
	out := make([]sessionlog.Message, 0, len(messages))
	names := make(map[string]string) // of tools, by the ID of the call
	for _, m := range messages {
		switch {
		case m.Role == record.RoleTool:
			tool := names[m.ToolCallID]
			if tool == "" {
				tool = "unknown"
			}
			text := "[result of the tool " + tool + ", as data]\n" + m.Content
			// The results of one message are one message.
			if last := len(out) - 1; last >= 0 && out[last].Role == record.RoleTool {
				out[last].Content += "\n\n" + text
				continue
			}
			m.Content = text
		case len(m.ToolCalls) > 0:
			for _, c := range m.ToolCalls {
				names[c.ID] = c.Function.Name
				m.Content = join(m.Content, "[call of the tool "+c.Function.Name+": "+argumentsObject(c.Function.Arguments)+"]")
			}
			m.ToolCalls = nil
		}
		out = append(out, m)
	}
	for i := range out {
		if out[i].Role == record.RoleTool {
			out[i].Role, out[i].ToolCallID = record.RoleUser, ""
		}
	}
	return out
}

// alternating joins successive messages of the user, and successive messages of the
// assistant without calls. Chat templates of some models refuse them. Injected
// messages and failed runs cause them.
func alternating(messages []sessionlog.Message) []sessionlog.Message {
	out := make([]sessionlog.Message, 0, len(messages))
	for _, m := range messages {
		if isEmpty(&m) {
			continue
		}
		switch m.Role {
		case record.RoleSystem, record.RoleTool, record.RoleAssistant:
		default: // as in message
			m.Role = record.RoleUser
		}
		last := len(out) - 1
		if last < 0 || out[last].Role != m.Role || len(out[last].ToolCalls) > 0 || m.Role != record.RoleUser && m.Role != record.RoleAssistant {
			out = append(out, m)
			continue
		}
		out[last].Content = join(out[last].Content, m.Content)
		out[last].ToolCalls, out[last].ReasoningContent = m.ToolCalls, join(out[last].ReasoningContent, m.ReasoningContent)
	}
	return out
}

// join puts an empty line between two texts that are not empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}
