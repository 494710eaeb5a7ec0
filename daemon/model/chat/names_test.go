package chat

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// TestToolNames converts the names of tools of MCP servers, and converts them back.
func TestToolNames(t *testing.T) {
	long := "srv/" + strings.Repeat("x", 100)
	for _, c := range []struct{ tools, sent string }{
		{"recall srv/get", "recall srv__get"},
		{"srv/get-a srv/get__b srv/_c", "srv__get-a srv__get__b srv___c"},
		{"srv/files.read/v2 a.b/c", "srv__files_read_v2_377fac2c a_b__c_fc7cd9c4"},
		{"srv__get srv/get", "srv__get srv__get_84186430"},
		{"a_/b a/_b", "a___b_4ba7030a a___b"},
		{"a_b/c_1 a.b/c", "a_b__c_1 a_b__c_fc7cd9c4"},
		{"a.b/c a_b/c_fc7cd9c4", "a_b__c_fc7cd9c4 a_b__c_fc7cd9c4_df1935b1"},
		{long, "srv__" + strings.Repeat("x", 50) + "_d5e0e352"},
	} {
		var tools []Tool
		for name := range strings.FieldsSeq(c.tools) {
			tools = append(tools, Tool{Name: name})
		}
		n := namesOf(tools)
		var sent []string
		for _, tool := range tools {
			name := n.name(tool.Name)
			sent = append(sent, name)
			if !regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`).MatchString(name) || n.tool(name) != tool.Name {
				t.Errorf("%s is sent as %s, which is %s", tool.Name, name, n.tool(name))
			}
		}
		if got := strings.Join(sent, " "); got != c.sent {
			t.Errorf("%s: %s, want %s", c.tools, got, c.sent)
		}
	}
	if n := namesOf(nil); n.name("srv/get") != "srv__get" || n.name("a b") != "a_b" || n.tool("srv__get") != "srv__get" {
		t.Error("names of unknown tools")
	}
}

// TestToolNamesInRequest sends the tools, the choice, and earlier calls by the same
// names.
func TestToolNamesInRequest(t *testing.T) {
	call := func(name string) sessionlog.Message {
		return sessionlog.Message{Role: record.RoleAssistant, ToolCalls: []sessionlog.ToolCall{{ID: "1", Function: sessionlog.Function{Name: name}}}}
	}
	p, err := new(Endpoint).params(Request{
		Messages: []sessionlog.Message{call("srv/get"), call("gone/x.y"), call("a b")},
		Tools:    []Tool{{Name: "recall"}, {Name: "srv/get"}}, ToolChoice: "srv/get",
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`"name":"([^"]*)"`).FindAllSubmatch(b, -1) {
		names = append(names, string(m[1]))
	}
	if got, want := strings.Join(names, " "), "srv__get gone__x_y_29bd8beb a_b srv__get recall srv__get"; got != want {
		t.Errorf("%s, want %s:\n%s", got, want, b)
	}
}
