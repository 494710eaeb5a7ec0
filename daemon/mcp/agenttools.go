package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	"crabmem/daemon/tool"
)

// Limits of the tools of servers that are tools of an agent.
const (
	maxAgentTools   = 96
	maxAgentSchemas = 128 << 10 // bytes
)

// Listed returns the tools that a scope lists, by name, also those of servers that are
// disconnected now: a call connects. They have the name SERVER/TOOL.
func (m *Manager) Listed(scope tool.Scope) []tool.Tool {
	var list []tool.Tool
	if !scope.ListsAny() {
		return nil
	}
	for _, t := range m.tools(func(t *listed) bool { return usable(t.Name) && scope.Lists(t.Name, t.name, t.alone) }) {
		var own tool.Tool
		own.Name, own.Description, own.Parameters = t.Name+"/"+t.name, t.description, t.schema
		own.Run = func(ctx context.Context, c tool.Call) (string, error) {
			var args json.RawMessage
			if err := c.Decode(&args); err != nil {
				return "", err
			}
			return t.call(ctx, args)
		}
		list = append(list, own)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	size := 0
	for i, t := range list {
		if size += len(t.Description) + len(t.Parameters); i == maxAgentTools || size > maxAgentSchemas {
			m.warn("listed tools", fmt.Sprintf("an agent lists too many tools of MCP servers: omitted %s and all after it; at most %d tools and %d bytes", t.Name, maxAgentTools, maxAgentSchemas))
			return list[:i]
		}
	}
	return list
}

// Ready waits for the tools that a scope lists, of servers that were not connected yet.
func (m *Manager) Ready(ctx context.Context, scope tool.Scope) {
	if !scope.ListsAny() {
		return
	}
	known := make(map[string]bool)
	for _, s := range m.servers() {
		s.mu.Lock()
		known[s.Name] = s.tools != nil
		s.mu.Unlock()
	}
	m.settle(ctx, func(server string) bool {
		return !known[server] && scope.MayList(server)
	}, func() bool { return false })
}
