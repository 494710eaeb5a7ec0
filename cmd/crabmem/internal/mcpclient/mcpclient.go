// Package mcpclient edits the configuration files of MCP clients. An edit changes
// only the entry of one server. It keeps all other bytes, including comments.
package mcpclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
)

// Entry is the configuration of a server that a client starts.
type Entry struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"` // not written
}

// Client is an MCP client with a configuration file for each user.
type Client struct {
	ID    string // of the command line
	Title string
	After string // what makes the client read the file

	format format
	key    string // of the object with the servers
	typed  bool   // an entry needs a type
	file   func(Machine) string
	marker func(Machine) string // exists if the client is installed; nil: the file's directory
}

// Machine describes the machine on which the clients are installed.
type Machine struct {
	OS     string // as runtime.GOOS
	Home   string // of the user
	Getenv func(string) string
}

// Clients returns the clients in the order of their IDs.
func Clients() []Client {
	home := func(path ...string) func(Machine) string {
		return func(m Machine) string { return filepath.Join(append([]string{m.Home}, path...)...) }
	}
	return []Client{
		{ID: "claude-code", Title: "Claude Code", After: "start a new session", key: "mcpServers", typed: true,
			file: func(m Machine) string { return filepath.Join(m.variable("CLAUDE_CONFIG_DIR", m.Home), ".claude.json") },
			marker: func(m Machine) string {
				return m.variable("CLAUDE_CONFIG_DIR", filepath.Join(m.Home, ".claude"))
			}},
		{ID: "claude-desktop", Title: "Claude Desktop", After: "quit and restart the application", key: "mcpServers",
			file: func(m Machine) string { return filepath.Join(m.config(), "Claude", "claude_desktop_config.json") }},
		{ID: "codex", Title: "Codex", After: "start a new session", key: "mcp_servers", format: toml{},
			file: func(m Machine) string {
				return filepath.Join(m.variable("CODEX_HOME", filepath.Join(m.Home, ".codex")), "config.toml")
			}},
		{ID: "cursor", Title: "Cursor", After: "enable the server in the settings, under MCP", key: "mcpServers", file: home(".cursor", "mcp.json")},
		{ID: "vscode", Title: "VS Code", After: "run the command MCP: List Servers and start the server", key: "servers", typed: true,
			file: func(m Machine) string { return filepath.Join(m.config(), "Code", "User", "mcp.json") }},
		{ID: "windsurf", Title: "Windsurf", After: "refresh the MCP servers in Cascade", key: "mcpServers", file: home(".codeium", "windsurf", "mcp_config.json")},
		{ID: "zed", Title: "Zed", After: "start a new thread", key: "context_servers", file: func(m Machine) string {
			if m.OS == "windows" {
				return filepath.Join(m.config(), "Zed", "settings.json")
			}
			return filepath.Join(m.variable("XDG_CONFIG_HOME", filepath.Join(m.Home, ".config")), "zed", "settings.json")
		}},
	}
}

// Find returns the client with an ID.
func Find(id string) (Client, bool) {
	all := Clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.ID == id })
	if i < 0 {
		return Client{}, false
	}
	return all[i], true
}

// IDs returns the IDs of all clients.
func IDs() (ids []string) {
	for _, c := range Clients() {
		ids = append(ids, c.ID)
	}
	return ids
}

func (m Machine) variable(name, otherwise string) string {
	if v := m.Getenv(name); filepath.IsAbs(v) {
		return v
	}
	return otherwise
}

// config returns the directory in which applications keep their settings.
func (m Machine) config() string {
	switch m.OS {
	case "windows":
		return m.variable("APPDATA", filepath.Join(m.Home, "AppData", "Roaming"))
	case "darwin":
		return filepath.Join(m.Home, "Library", "Application Support")
	}
	return m.variable("XDG_CONFIG_HOME", filepath.Join(m.Home, ".config"))
}

// File returns the path of the configuration.
func (c Client) File(m Machine) string { return c.file(m) }

// Marker returns a path that exists if the client is installed.
func (c Client) Marker(m Machine) string {
	if c.marker != nil {
		return c.marker(m)
	}
	return filepath.Dir(c.file(m))
}

// MaxBytes limits a configuration file.
const MaxBytes = 64 << 20

// format is the syntax of a file.
type format interface {
	// decode returns the contents of a file. Its error is a *SyntaxError.
	decode(text []byte) (map[string]any, error)
	// set sets the fields of an entry. It keeps its other fields.
	set(text []byte, key, name string, fields []field) ([]byte, error)
	// remove removes an entry.
	remove(text []byte, key, name string) ([]byte, error)
}

// field is a member of an entry: a string or a list of strings, as decode returns them.
type field struct {
	name  string
	value any
}

// changed returns the fields that differ in an entry.
func changed(entry map[string]any, fields []field) (list []field) {
	for _, f := range fields {
		if !reflect.DeepEqual(entry[f.name], f.value) {
			list = append(list, f)
		}
	}
	return list
}

// SyntaxError is an error at a line of a file.
type SyntaxError struct {
	Line int
	Err  error
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *SyntaxError) Unwrap() error { return e.Err }

// ErrByHand is returned for a valid file in a form that Set or Remove cannot edit.
var ErrByHand = errors.New("the file has a form that crabmem cannot edit")

func (c Client) syntax() format {
	if c.format != nil {
		return c.format
	}
	return jsonc{}
}

// Servers returns the servers in a file, by name.
func (c Client) Servers(text []byte) (map[string]Entry, error) {
	file, err := c.syntax().decode(text)
	list, _ := file[c.key].(map[string]any)
	servers := make(map[string]Entry)
	for name, v := range list {
		var e Entry
		b, err := json.Marshal(v)
		if err == nil && json.Unmarshal(b, &e) == nil && e.Command != "" {
			servers[name] = e
		}
	}
	return servers, err
}

// Set returns the file with the server e under a name. An existing entry with this
// name keeps its other fields. If the file already contains e, Set returns text.
func (c Client) Set(text []byte, name string, e Entry) ([]byte, error) {
	var fields []field
	if c.typed {
		fields = append(fields, field{"type", "stdio"})
	}
	args := make([]any, len(e.Args))
	for i, a := range e.Args {
		args[i] = a
	}
	fields = append(fields, field{"command", e.Command}, field{"args", args})
	after, err := c.syntax().set(text, c.key, name, fields)
	if err != nil {
		return nil, err
	}
	return after, c.check(text, after, name, fields)
}

// Remove returns the file without a server. If there is no such server, Remove
// returns text.
func (c Client) Remove(text []byte, name string) ([]byte, error) {
	after, err := c.syntax().remove(text, c.key, name)
	if err != nil {
		return nil, err
	}
	return after, c.check(text, after, name, nil)
}

// check returns an error if an edit changed more than the entry name, or if the
// entry does not have the fields.
func (c Client) check(before, after []byte, name string, fields []field) error {
	old, err := c.syntax().decode(before)
	if err != nil {
		return err
	}
	now, err := c.syntax().decode(after)
	if err != nil {
		return ErrByHand
	}
	entry := cut(now, c.key, name)
	was := cut(old, c.key, name)
	if !reflect.DeepEqual(old, now) || (entry != nil) != (fields != nil) {
		return ErrByHand
	}
	if len(changed(entry, fields)) > 0 {
		return ErrByHand
	}
	for _, f := range fields {
		delete(entry, f.name)
		delete(was, f.name)
	}
	if len(entry) > 0 && !reflect.DeepEqual(entry, was) {
		return ErrByHand
	}
	return nil
}

// cut removes an entry from the contents of a file and returns it. It also removes
// the object of the servers if that is empty.
func cut(file map[string]any, key, name string) map[string]any {
	servers, ok := file[key].(map[string]any)
	if !ok {
		return nil
	}
	entry, _ := servers[name].(map[string]any)
	delete(servers, name)
	if len(servers) == 0 {
		delete(file, key)
	}
	return entry
}
