// Package mcpclient edits the configuration files of MCP clients. An edit changes
// only the entry of one server. It keeps all other bytes, including comments.
package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
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
	key    string              // of the object with the servers
	fields func(Entry) []field // of an entry; nil: command and args
	file   func(Machine) string
	marker func(Machine) string // exists if the client is installed; nil: the file's directory
	hooks  *hooks               // of HookClients
}

// Machine describes the machine on which the clients are installed.
type Machine struct {
	OS     string // as runtime.GOOS
	Home   string // of the user
	Getenv func(string) string
}

// Expand returns a path with ~/ at its beginning replaced by the user's home.
func (m Machine) Expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(m.Home, rest)
	}
	return path
}

// Clients returns the clients in the order of their IDs.
func Clients() []Client {
	home := func(path ...string) func(Machine) string {
		return func(m Machine) string { return filepath.Join(append([]string{m.Home}, path...)...) }
	}
	return []Client{
		{ID: "claude-code", Title: "Claude Code", After: "start a new session", key: "mcpServers", fields: typed("stdio"),
			file: func(m Machine) string { return filepath.Join(m.variable("CLAUDE_CONFIG_DIR", m.Home), ".claude.json") },
			marker: func(m Machine) string {
				return m.variable("CLAUDE_CONFIG_DIR", filepath.Join(m.Home, ".claude"))
			}},
		{ID: "claude-desktop", Title: "Claude Desktop", After: "quit and restart the application", key: "mcpServers",
			file: func(m Machine) string { return filepath.Join(m.config(), "Claude", "claude_desktop_config.json") }},
		{ID: "cline", Title: "Cline", After: "restart Cline", key: "mcpServers", marker: home(".cline"), file: func(m Machine) string {
			data := m.variable("CLINE_DATA_DIR", filepath.Join(m.Home, ".cline", "data"))
			return m.variable("CLINE_MCP_SETTINGS_PATH", filepath.Join(data, "settings", "cline_mcp_settings.json"))
		}},
		{ID: "codex", Title: "Codex", After: "start a new session", key: "mcp_servers", format: toml{},
			file: func(m Machine) string {
				return filepath.Join(m.variable("CODEX_HOME", filepath.Join(m.Home, ".codex")), "config.toml")
			}},
		{ID: "copilot-cli", Title: "Copilot CLI", After: "start a new session", key: "mcpServers",
			fields: typed("local", field{name: "tools", value: anyList("*"), keep: true}),
			file: func(m Machine) string {
				return filepath.Join(m.variable("COPILOT_HOME", filepath.Join(m.Home, ".copilot")), "mcp-config.json")
			}},
		{ID: "cursor", Title: "Cursor", After: "enable the server in the settings, under MCP", key: "mcpServers", file: home(".cursor", "mcp.json")},
		{ID: "gemini-cli", Title: "Gemini CLI", After: "start a new session", key: "mcpServers", file: home(".gemini", "settings.json")},
		{ID: "opencode", Title: "opencode", After: "start a new session", key: "mcp",
			fields: func(e Entry) []field {
				return []field{{name: "type", value: "local"}, {name: "command", value: anyList(append([]string{e.Command}, e.Args...)...)}}
			},
			file: func(m Machine) string { return filepath.Join(m.xdgConfig(), "opencode", "opencode.json") }},
		{ID: "vscode", Title: "VS Code", After: "run the command MCP: List Servers and start the server", key: "servers", fields: typed("stdio"),
			file: func(m Machine) string { return filepath.Join(m.config(), "Code", "User", "mcp.json") }},
		{ID: "windsurf", Title: "Windsurf", After: "refresh the MCP servers in Cascade", key: "mcpServers", file: home(".codeium", "windsurf", "mcp_config.json")},
		{ID: "zed", Title: "Zed", After: "start a new thread", key: "context_servers", file: func(m Machine) string {
			if m.OS == "windows" {
				return filepath.Join(m.config(), "Zed", "settings.json")
			}
			return filepath.Join(m.xdgConfig(), "zed", "settings.json")
		}},
	}
}

// IDs returns the IDs of clients.
func IDs(list []Client) (ids []string) {
	for _, c := range list {
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
	return m.xdgConfig()
}

func (m Machine) xdgConfig() string {
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
	// set sets the fields of an entry. It keeps its other fields. path is the object with
	// the servers.
	set(text []byte, path []string, name string, fields []field) ([]byte, error)
	// remove removes an entry.
	remove(text []byte, path []string, name string) ([]byte, error)
}

// field is a member of an entry: a string or a list of strings, as decode returns them.
type field struct {
	name  string
	value any
	keep  bool // an existing value stays
}

// plain returns the fields of an entry for most clients.
func plain(e Entry) []field {
	return []field{{name: "command", value: e.Command}, {name: "args", value: anyList(e.Args...)}}
}

// typed returns the fields of an entry with a type.
func typed(name string, more ...field) func(Entry) []field {
	return func(e Entry) []field {
		return slices.Concat([]field{{name: "type", value: name}}, plain(e), more)
	}
}

func anyList(texts ...string) []any {
	list := make([]any, len(texts))
	for i, s := range texts {
		list[i] = s
	}
	return list
}

// changed returns the fields that differ in an entry.
func changed(entry map[string]any, fields []field) (list []field) {
	for _, f := range fields {
		if old, ok := entry[f.name]; !reflect.DeepEqual(old, f.value) && !(ok && f.keep) {
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

const byteOrderMark = "\xef\xbb\xbf"

// cutMark divides a text after its byte order mark.
func cutMark(text []byte) (mark, rest []byte) {
	if rest, ok := bytes.CutPrefix(text, []byte(byteOrderMark)); ok {
		return text[:len(byteOrderMark)], rest
	}
	return nil, text
}

// path returns the keys of the object with the servers. A file of opencode 2 has another
// object in that of opencode 1, and opencode 2 reads both.
func (c Client) path(file map[string]any) []string {
	if outer, _ := file[c.key].(map[string]any); c.ID == "opencode" {
		if servers, ok := outer["servers"].(map[string]any); ok && servers["command"] == nil {
			return []string{c.key, "servers"}
		}
	}
	return []string{c.key}
}

// Servers returns the servers in a file, by name.
func (c Client) Servers(text []byte) (map[string]Entry, error) {
	_, text = cutMark(text)
	file, err := c.syntax().decode(text)
	list := file
	for _, key := range c.path(file) {
		list, _ = list[key].(map[string]any)
	}
	servers := make(map[string]Entry)
	for name, v := range list {
		var e Entry
		var one struct {
			Command []string          `json:"command"`
			Env     map[string]string `json:"environment"`
		}
		b, err := json.Marshal(v)
		if err == nil && json.Unmarshal(b, &one) == nil && len(one.Command) > 0 {
			servers[name] = Entry{one.Command[0], one.Command[1:], one.Env}
		} else if err == nil && json.Unmarshal(b, &e) == nil && e.Command != "" {
			servers[name] = e
		}
	}
	return servers, err
}

// Own names the servers that start crabmem.
func Own(servers map[string]Entry) (names []string) {
	for name, e := range servers {
		base := e.Command[strings.LastIndexAny(e.Command, `/\`)+1:]
		if strings.TrimSuffix(strings.ToLower(base), ".exe") == "crabmem" || name == "crabmem" && slices.Contains(e.Args, "mcp") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Set returns the file with the server e under a name. An existing entry with this
// name keeps its other fields. If the file already contains e, Set returns text.
func (c Client) Set(text []byte, name string, e Entry) ([]byte, error) {
	fields := plain(e)
	if c.fields != nil {
		fields = c.fields(e)
	}
	return c.edit(text, name, fields)
}

// Remove returns the file without a server. If there is no such server, Remove
// returns text.
func (c Client) Remove(text []byte, name string) ([]byte, error) { return c.edit(text, name, nil) }

// edit sets the fields of an entry. Without fields, it removes the entry.
func (c Client) edit(text []byte, name string, fields []field) (after []byte, err error) {
	mark, text := cutMark(text)
	file, err := c.syntax().decode(text)
	if err != nil {
		return nil, err
	}
	path := c.path(file)
	if fields == nil {
		after, err = c.syntax().remove(text, path, name)
	} else {
		after, err = c.syntax().set(text, path, name, fields)
	}
	if err != nil {
		return nil, err
	}
	return slices.Concat(mark, after), c.check(text, after, append(path, name), fields)
}

// check returns an error if an edit changed more than the entry at a path, or if the
// entry does not have the fields.
func (c Client) check(before, after []byte, path []string, fields []field) error {
	old, err := c.syntax().decode(before)
	if err != nil {
		return err
	}
	now, err := c.syntax().decode(after)
	if err != nil {
		return ErrByHand
	}
	entry := cut(now, path...)
	was := cut(old, path...)
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
// the objects around it that are empty or null.
func cut(file map[string]any, path ...string) (entry map[string]any) {
	inner, isObject := file[path[0]].(map[string]any)
	if len(path) == 1 {
		delete(file, path[0])
		return inner
	}
	entry = cut(inner, path[1:]...)
	if isObject && len(inner) == 0 || file[path[0]] == nil {
		delete(file, path[0])
	}
	return entry
}
