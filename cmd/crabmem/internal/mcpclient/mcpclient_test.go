package mcpclient

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var crabmem = Entry{Command: "/bin/crabmem", Args: []string{"mcp"}}

func client(t *testing.T, id string) Client {
	t.Helper()
	c, ok := find(id)
	if !ok {
		t.Fatalf("no client %s", id)
	}
	return c
}

// TestEdits adds a server to files and removes it. "same" means that the removal
// restores the file.
func TestEdits(t *testing.T) {
	const cursorEntry = "\"crabmem\": {\n      \"command\": \"/bin/crabmem\",\n      \"args\": [\"mcp\"]\n    }"
	for _, c := range []struct{ name, client, before, after, removed string }{
		{"no file", "cursor", "", "{\n  \"mcpServers\": {\n    " + cursorEntry + "\n  }\n}\n", "{\n  \"mcpServers\": {}\n}\n"},
		{"empty object", "cursor", "{}", "{\n  \"mcpServers\": {\n    " + cursorEntry + "\n  }\n}", "{\n  \"mcpServers\": {}\n}"},
		{"no servers", "cursor", "{\n  \"a\": 1\n}\n", "{\n  \"a\": 1,\n  \"mcpServers\": {\n    " + cursorEntry + "\n  }\n}\n", "{\n  \"a\": 1,\n  \"mcpServers\": {}\n}\n"},
		{"empty servers", "cursor", "{\n  \"mcpServers\": {}\n}\n", "{\n  \"mcpServers\": {\n    " + cursorEntry + "\n  }\n}\n", "same"},
		{"another server", "cursor", "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"b\"}\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"b\"},\n    " + cursorEntry + "\n  }\n}\n", "same"},
		{"tabs and CRLF", "vscode", "{\r\n\t\"servers\": {\r\n\t\t\"a\": {}\r\n\t},\r\n\t\"inputs\": []\r\n}\r\n",
			"{\r\n\t\"servers\": {\r\n\t\t\"a\": {},\r\n\t\t\"crabmem\": {\r\n\t\t\t\"type\": \"stdio\",\r\n\t\t\t\"command\": \"/bin/crabmem\",\r\n\t\t\t\"args\": [\"mcp\"]\r\n\t\t}\r\n\t},\r\n\t\"inputs\": []\r\n}\r\n", "same"},
		{"comments and trailing commas", "zed",
			"// Zed settings: \"context_servers\": {\n{\n  /* theme, */\n  \"theme\": \"a//b\", // dark\n  \"context_servers\": {\n    // mine\n    \"a\": {\"command\": \"b\",}, // keep, this\n    // last\n  },\n}\n",
			"// Zed settings: \"context_servers\": {\n{\n  /* theme, */\n  \"theme\": \"a//b\", // dark\n  \"context_servers\": {\n    // mine\n    \"a\": {\"command\": \"b\",}, // keep, this\n    " + cursorEntry + ",\n    // last\n  },\n}\n", "same"},
		{"comment after the last member", "zed", "{\n  \"context_servers\": {\n    \"a\": {} // note } {\n    /* more\n    */\n  }\n}",
			"{\n  \"context_servers\": {\n    \"a\": {}, // note } {\n    " + cursorEntry + "\n    /* more\n    */\n  }\n}", "same"},
		{"comment in empty servers", "zed", "{\n  \"context_servers\": { // none\n  }\n}", "{\n  \"context_servers\": {\n    " + cursorEntry + " // none\n  }\n}", "{\n  \"context_servers\": { // none\n  }\n}"},
		{"only comments", "zed", "// nothing yet", "// nothing yet\n{\n  \"context_servers\": {\n    " + cursorEntry + "\n  }\n}\n", "// nothing yet\n{\n  \"context_servers\": {}\n}\n"},
		{"one line", "claude-code", `{"a":1,"mcpServers":{"b":{"command":"c"}},"d":[{"e":"}"}]}`,
			`{"a":1,"mcpServers":{"b":{"command":"c"}, "crabmem": {"type": "stdio", "command": "/bin/crabmem", "args": ["mcp"]}},"d":[{"e":"}"}]}`, "same"},
		{"byte order mark", "cursor", "\xef\xbb\xbf{\n  \"mcpServers\": {}\n}\n", "\xef\xbb\xbf{\n  \"mcpServers\": {\n    " + cursorEntry + "\n  }\n}\n", "same"},
		{"null", "cursor", "// mine\nnull\n", "// mine\n{\n  \"mcpServers\": {\n    " + cursorEntry + "\n  }\n}\n", "// mine\n{\n  \"mcpServers\": {}\n}\n"},
		{"null servers", "cursor", "{\"mcpServers\": null, \"a\": null}", "{\"mcpServers\": {\n  " + strings.ReplaceAll(cursorEntry, "\n  ", "\n") + "\n}, \"a\": null}", "{\"mcpServers\": {}, \"a\": null}"},
		{"null entry", "cursor", "{\n  \"mcpServers\": {\n    \"crabmem\": null\n  }\n}", "{\n  \"mcpServers\": {\n    " + cursorEntry + "\n  }\n}", "{\n  \"mcpServers\": {}\n}"},
		{"only a byte order mark", "cursor", "\xef\xbb\xbf", "\xef\xbb\xbf{\n  \"mcpServers\": {\n    " + cursorEntry + "\n  }\n}\n", "\xef\xbb\xbf{\n  \"mcpServers\": {}\n}\n"},
		{"Gemini CLI", "gemini-cli", "{\"ui\": {\"theme\": \"x\"}, \"mcpServers\": {}}", "{\"ui\": {\"theme\": \"x\"}, \"mcpServers\": {\n  " + strings.ReplaceAll(cursorEntry, "\n  ", "\n") + "\n}}", "same"},
		{"Cline", "cline", "{\n  \"mcpServers\": {}\n}", "{\n  \"mcpServers\": {\n    " + cursorEntry + "\n  }\n}", "same"},
		{"Copilot CLI", "copilot-cli", "{\"mcpServers\": {\"a\": {}}}", `{"mcpServers": {"a": {}, "crabmem": {"type": "local", "command": "/bin/crabmem", "args": ["mcp"], "tools": ["*"]}}}`, "same"},
		{"Copilot CLI own tools", "copilot-cli", `{"mcpServers": {"a": {}, "crabmem": {"type": "local", "command": "old", "args": [], "tools": ["recall"]}}}`,
			`{"mcpServers": {"a": {}, "crabmem": {"type": "local", "command": "/bin/crabmem", "args": ["mcp"], "tools": ["recall"]}}}`, `{"mcpServers": {"a": {}}}`},
		{"opencode", "opencode", "{\"mcp\": {\"a\": {\"type\": \"local\", \"command\": [\"b\"]}}}", `{"mcp": {"a": {"type": "local", "command": ["b"]}, "crabmem": {"type": "local", "command": ["/bin/crabmem", "mcp"]}}}`, "same"},
		{"opencode 2", "opencode", "{\"mcp\": {\"servers\": {\"a\": {\"type\": \"local\", \"command\": [\"b\"]}}}}", `{"mcp": {"servers": {"a": {"type": "local", "command": ["b"]}, "crabmem": {"type": "local", "command": ["/bin/crabmem", "mcp"]}}}}`, "same"},
		{"own fields stay", "cursor", "{\n  \"mcpServers\": {\n    \"crabmem\": {\n      \"command\": \"old\", // mine\n      \"env\": {\"A\": \"b\"}\n    },\n    \"z\": {}\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    \"crabmem\": {\n      \"command\": \"/bin/crabmem\", // mine\n      \"env\": {\"A\": \"b\"},\n      \"args\": [\"mcp\"]\n    },\n    \"z\": {}\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    \"z\": {}\n  }\n}\n"},
		{"in the middle", "cursor", "{\n  \"mcpServers\": {\n    \"a\": {},\n    \"crabmem\": {\"command\": \"/bin/crabmem\", \"args\": [\"mcp\"]},\n    \"z\": {}\n  }\n}\n", "unchanged",
			"{\n  \"mcpServers\": {\n    \"a\": {},\n    \"z\": {}\n  }\n}\n"},
		{"a large number", "cursor", "{\"n\": 12345678901234567890, \"f\": 1.50}", `{"n": 12345678901234567890, "f": 1.50, "mcpServers": {"crabmem": {"command": "/bin/crabmem", "args": ["mcp"]}}}`, `{"n": 12345678901234567890, "f": 1.50, "mcpServers": {}}`},
		{"an escape", "cursor", `{"mcpServers": {"a\"}//": {}}}`, `{"mcpServers": {"a\"}//": {}, "crabmem": {"command": "/bin/crabmem", "args": ["mcp"]}}}`, "same"},

		{"no TOML", "codex", "", "[mcp_servers.crabmem]\ncommand = \"/bin/crabmem\"\nargs = [\"mcp\"]\n", "same"},
		{"TOML with comments", "codex", "# mine\nmodel = \"m\" # fast\n\n[mcp_servers.a]\ncommand = \"b\"\n# end\n", "# mine\nmodel = \"m\" # fast\n\n[mcp_servers.a]\ncommand = \"b\"\n# end\n\n[mcp_servers.crabmem]\ncommand = \"/bin/crabmem\"\nargs = [\"mcp\"]\n", "same"},
		{"TOML own fields", "codex", "[mcp_servers.crabmem] # here\ncommand = \"old\" # path\nargs = [\n  \"mcp\",\n]\nenabled = true\n\n[mcp_servers.crabmem.env]\nA = \"\"\"\n# b\n[x]\n\"\"\"\n# of z\n[z]\na = 1\n",
			"[mcp_servers.crabmem] # here\ncommand = \"/bin/crabmem\"\nargs = [\n  \"mcp\",\n]\nenabled = true\n\n[mcp_servers.crabmem.env]\nA = \"\"\"\n# b\n[x]\n\"\"\"\n# of z\n[z]\na = 1\n", "# of z\n[z]\na = 1\n"},
		{"TOML without a field", "codex", "[mcp_servers.crabmem]\ncommand = \"/bin/crabmem\"\n\n[z]\n", "[mcp_servers.crabmem]\nargs = [\"mcp\"]\ncommand = \"/bin/crabmem\"\n\n[z]\n", "\n[z]\n"},
		{"TOML byte order mark", "codex", "\xef\xbb\xbfmodel = \"x\"\n", "\xef\xbb\xbfmodel = \"x\"\n\n[mcp_servers.crabmem]\ncommand = \"/bin/crabmem\"\nargs = [\"mcp\"]\n", "same"},
		{"TOML CRLF", "codex", "a = 1\r\n", "a = 1\r\n\r\n[mcp_servers.crabmem]\r\ncommand = \"/bin/crabmem\"\r\nargs = [\"mcp\"]\r\n", "same"},
	} {
		cl := client(t, c.client)
		after, err := cl.Set([]byte(c.before), "crabmem", crabmem)
		if c.after == "unchanged" {
			c.after = c.before
		}
		if d := cmp.Diff(c.after, string(after)); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", c.name, err, d)
			continue
		}
		if again, err := cl.Set(after, "crabmem", crabmem); err != nil || string(again) != string(after) {
			t.Errorf("%s: the second edit: %v\n%s", c.name, err, cmp.Diff(string(after), string(again)))
		}
		servers, err := cl.Servers(after)
		if e := servers["crabmem"]; err != nil || e.Command != crabmem.Command || !slices.Equal(e.Args, crabmem.Args) {
			t.Errorf("%s: %v, %v", c.name, servers, err)
		}
		if c.removed == "same" {
			c.removed = c.before
		}
		removed, err := cl.Remove(after, "crabmem")
		if d := cmp.Diff(c.removed, string(removed)); err != nil || d != "" {
			t.Errorf("%s: remove: %v\n%s", c.name, err, d)
		}
		if again, err := cl.Remove(removed, "crabmem"); err != nil || string(again) != string(removed) {
			t.Errorf("%s: the second removal: %v, %q", c.name, err, again)
		}
	}
}

// TestRefusedFiles: a file that cannot be edited is refused, with the line.
func TestRefusedFiles(t *testing.T) {
	for _, c := range []struct{ client, text, want string }{
		{"cursor", "{\n  \"a\": 1\n  \"b\": 2\n}", "line 3: "},
		{"cursor", "{\n  \"a\": \"b\n}", "line 3: parsing string"},
		{"cursor", "{\n  /* a\n", "line 2: parsing comment"},
		{"cursor", "{\n  \"mcpServers\": {", "line 2: "},
		{"cursor", "[]", "line 1: the file is not a JSON object"},
		{"cursor", "{\n\"mcpServers\": []}", `line 2: "mcpServers" is not an object`},
		{"cursor", "{\n\"mcpServers\": {\"crabmem\": 1}}", `line 2: "crabmem" is not an object`},
		{"cursor", "{\"mcpServers\": {},\n\"mcpServers\": {}}", `line 2: "mcpServers" occurs twice`},
		{"cursor", strings.Repeat("[", 1e6), "line 1: "},
		{"codex", "a = 1\nb = \n", "line 2: "},
		{"codex", "a = 1\na = 2\n", "line 2: "},
		{"codex", "mcp_servers = {}\n", ErrByHand.Error()},
		{"codex", "mcp_servers = { crabmem = { command = \"a\" } }\n", ErrByHand.Error()},
		{"codex", "mcp_servers.crabmem.command = \"a\"\n", ErrByHand.Error()},
	} {
		_, err := client(t, c.client).Set([]byte(c.text), "crabmem", crabmem)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %.60q: %v, want %s", c.client, c.text, err, c.want)
		}
		if e, ok := errors.AsType[*SyntaxError](err); ok != strings.HasPrefix(c.want, "line") || ok && e.Line < 1 {
			t.Errorf("%s %.60q: %T", c.client, c.text, err)
		}
	}
}

// TestFiles compares the paths of the files of each system.
func TestFiles(t *testing.T) {
	variables := map[string]string{}
	for _, c := range []struct{ os, id, want string }{
		{"linux", "claude-code", "/h/.claude.json"}, {"linux", "claude-desktop", "/h/.config/Claude/claude_desktop_config.json"}, {"linux", "codex", "/h/.codex/config.toml"},
		{"linux", "cursor", "/h/.cursor/mcp.json"}, {"linux", "vscode", "/h/.config/Code/User/mcp.json"}, {"linux", "windsurf", "/h/.codeium/windsurf/mcp_config.json"}, {"linux", "zed", "/h/.config/zed/settings.json"},
		{"darwin", "claude-desktop", "/h/Library/Application Support/Claude/claude_desktop_config.json"}, {"darwin", "vscode", "/h/Library/Application Support/Code/User/mcp.json"}, {"darwin", "zed", "/h/.config/zed/settings.json"},
		{"linux", "cline", "/h/.cline/data/settings/cline_mcp_settings.json"}, {"linux", "copilot-cli", "/h/.copilot/mcp-config.json"}, {"darwin", "gemini-cli", "/h/.gemini/settings.json"},
		{"windows", "opencode", "/h/.config/opencode/opencode.json"},
		{"windows", "claude-desktop", "/h/AppData/Roaming/Claude/claude_desktop_config.json"}, {"windows", "vscode", "/h/AppData/Roaming/Code/User/mcp.json"}, {"windows", "zed", "/h/AppData/Roaming/Zed/settings.json"},
	} {
		m := Machine{OS: c.os, Home: filepath.FromSlash("/h"), Getenv: func(name string) string { return variables[name] }}
		if got := filepath.ToSlash(client(t, c.id).File(m)); got != c.want {
			t.Errorf("%s on %s: %s, want %s", c.id, c.os, got, c.want)
		}
	}
}

// TestDocumentedClients compares the entry and the file with testdata/clients.txt, which
// names the documentation of each client.
func TestDocumentedClients(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "clients.txt"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for block := range strings.SplitSeq(string(b), "\n\n") {
		var id, file, entry string
		for line := range strings.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch key {
			case "client":
				id = value
			case "file":
				file = value
			case "entry":
				entry = value
			}
		}
		if id == "" {
			continue // the introduction
		}
		seen++
		c := client(t, id)
		m := Machine{OS: "linux", Home: "/home/me", Getenv: func(string) string { return "" }}
		if got := filepath.ToSlash(c.File(m)); got != strings.Replace(file, "~", "/home/me", 1) {
			t.Errorf("%s: the file is %s, want %s", id, got, file)
		}
		got, err := c.Set([]byte(`{"a": 1}`), "crabmem", crabmem)
		if want := strings.Replace(entry, "{", `{"a": 1, `, 1); err != nil || string(got) != want {
			t.Errorf("%s: %s, want %s: %v", id, got, want, err)
		}
		if !strings.Contains(block, "\nsource: ") || !strings.Contains(block, "\nread: 2026-") {
			t.Errorf("%s: want a source and the day on which it was read", id)
		}
	}
	if seen != 4 {
		t.Errorf("%d clients", seen)
	}
}

// FuzzEdits edits any text: the result contains the server and everything else, or
// the edit is refused.
func FuzzEdits(f *testing.F) {
	for _, s := range []string{"{}", "{\"a\":1,}", "// a\n{\n\t\"mcpServers\": { /* b */ }\n}", "{\"mcpServers\":{\"x\":{\"command\":\"y\",},},}", "[a]\nb = [\n# c\n]\n", "[mcp_servers.crabmem]\ncommand='''\n#'''", "\xef\xbb\xbf", "{\"a\\\\\":\"\\\"\"}"} {
		f.Add(s, "cursor")
		f.Add(s, "codex")
	}
	f.Fuzz(func(t *testing.T, text, id string) {
		c, ok := find(id)
		if !ok {
			return
		}
		after, err := c.Set([]byte(text), "crabmem", crabmem)
		if err != nil {
			return
		}
		if again, err := c.Set(after, "crabmem", crabmem); err != nil || string(again) != string(after) {
			t.Fatalf("%q: %q, then %q, %v", text, after, again, err)
		}
		if _, err := c.Remove(after, "crabmem"); err != nil && !errors.Is(err, ErrByHand) {
			t.Fatalf("%q: %q: %v", text, after, err)
		}
	})
}

func find(id string) (Client, bool) {
	for _, c := range Clients() {
		if c.ID == id {
			return c, true
		}
	}
	return Client{}, false
}
