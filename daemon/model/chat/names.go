package chat

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
)

// toolNames converts names of tools to names that endpoints accept: SERVER/TOOL, the
// tool of an MCP server, becomes SERVER__TOOL.
type toolNames struct{ sent, called map[string]string }

// namesOf returns the names of the tools of a request. No two are the same.
func namesOf(tools []Tool) toolNames {
	n := toolNames{make(map[string]string), make(map[string]string)}
	var remote []string
	for _, t := range tools {
		if strings.Contains(t.Name, "/") {
			remote = append(remote, t.Name)
		} else {
			n.add(t.Name, t.Name)
		}
	}
	slices.Sort(remote)
	for _, name := range remote {
		sent := remoteName(name, "")
		for i := 0; n.called[sent] != ""; i++ {
			sent = remoteName(name, fmt.Sprint(i))
		}
		n.add(name, sent)
	}
	return n
}

func (n toolNames) add(name, sent string) { n.sent[name], n.called[sent] = sent, name }

// name returns the form of a name in a request. The tool may be unknown: it was called
// earlier.
func (n toolNames) name(name string) string {
	if sent, ok := n.sent[name]; ok {
		return sent
	}
	return remoteName(name, "")
}

// tool returns the tool that a model calls by a name, or the name.
func (n toolNames) tool(sent string) string {
	if name, ok := n.called[sent]; ok {
		return name
	}
	return sent
}

// chunks returns yield with the names of called tools.
func (n toolNames) chunks(yield func(Chunk, error) bool) func(Chunk, error) bool {
	return func(c Chunk, err error) bool {
		for i := range c.Calls {
			c.Calls[i].Name = n.tool(c.Calls[i].Name)
		}
		return yield(c, err)
	}
}

// remoteName returns SERVER__TOOL for SERVER/TOOL. If that is too long, has invalid
// characters, or may be the name of another tool, it ends in a hash. So does each name
// with a salt.
func remoteName(name, salt string) string {
	joined := strings.Replace(name, "/", "__", 1)
	valid := toolName(joined)
	if !strings.Contains(name, "/") || salt == "" && valid == joined && strings.Replace(joined, "__", "/", 1) == name {
		return valid
	}
	return fmt.Sprintf("%s_%.4x", valid[:min(len(valid), 55)], sha256.Sum256([]byte(name+salt)))
}
