package gateway

import (
	"strings"
	"testing"
)

// TestNamedMemories reads and writes notes by their names, as the commands do.
func TestNamedMemories(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"tea", "coffee"} {
		r.want(name, r.do("ann", "POST", "/v1/memories/remember", object{"name": name, "content": "hot", "aliases": []string{"drink"}}), 200, "")
	}
	r.want("an alias of two", r.do("ann", "GET", "/v1/memories/named?name=drink", nil), 409, "ambiguous")
	r.want("a similar name", r.do("ann", "GET", "/v1/memories/named?name=coffe", nil), 404, "not_found")
	r.want("an alias to remove", r.do("ann", "GET", "/v1/memories/named?name=drink&remove=note", nil), 409, "ambiguous")
	if p := r.want("named", r.do("ann", "GET", "/v1/memories/named?name=tea&use=true", nil), 200, ""); p.field("name") != "tea" || p.field("content") != "hot" {
		t.Errorf("named: %s", p.body)
	}
	secret := "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"
	for path, body := range map[string]object{
		"remember": {"name": "tea", "content": secret}, "replace": {"name": "tea", "content": secret, "if_version": 1}, "append": {"name": "tea", "text": secret},
	} {
		r.want(path+" a secret", r.do("ann", "POST", "/v1/memories/"+path, body), 422, "secret")
		r.want(path+" of eve", r.do("eve", "POST", "/v1/memories/"+path, body), 403, "scope")
	}
	r.want("replace", r.do("ann", "POST", "/v1/memories/replace", object{"name": "tea", "content": "cold", "if_version": 2}), 409, "changed")
	r.want("append", r.do("ann", "POST", "/v1/memories/append", object{"name": "tea", "text": "green"}), 200, "")
	p := r.want("log", r.do("ann", "GET", "/v1/changes?limit=2", nil), 200, "")
	if p.field("changes.0.name") != "tea" || p.field("changes.0.change") != 3.0 || p.field("more") != 1.0 {
		t.Errorf("log: %s", p.body)
	}
	if p := r.want("log of a name", r.do("ann", "GET", "/v1/changes?name=coffee&limit=0", nil), 200, ""); p.field("more") != 0.0 || strings.Contains(string(p.body), "tea") {
		t.Errorf("log: %s", p.body)
	}
	r.want("log of no name", r.do("ann", "GET", "/v1/changes?name=cake", nil), 404, "not_found")
	r.want("recall", r.do("ann", "POST", "/v1/memories/recall", object{"query": "green"}), 200, "")
	r.want("a large query", r.do("ann", "POST", "/v1/memories/recall", object{"query": strings.Repeat("x ", 40<<10)}), 400, "invalid")
	r.want("a large budget", r.do("ann", "POST", "/v1/memories/recall", object{"query": "x", "budget": 2 << 20}), 400, "invalid")
	r.want("recall of bob", r.do("bob", "GET", "/v1/memories/named?name=tea", nil), 404, "not_found")
}

// TestTools calls the operations that only tools of MCP have.
func TestTools(t *testing.T) {
	r := newRig(t)
	r.create("ann", "tea", "green")
	tool := func(name string, body object, status int, kind string) *response {
		t.Helper()
		return r.want(name, r.do("ann", "POST", "/v1/tools/"+name, body), status, kind)
	}
	secret := "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"
	for _, name := range []string{"mate", "milk"} {
		tool("remember", object{"name": name, "content": "hot", "aliases": []string{"drink"}}, 200, "")
	}
	tool("get_memory", object{"name": "drink"}, 409, "ambiguous")
	tool("memory_history", object{"name": "drink"}, 409, "ambiguous")
	tool("edit", object{"name": "tea", "old_text": "green", "new_text": secret}, 422, "secret")
	tool("remember", object{"name": "tea", "content": secret}, 422, "secret")
	tool("remember", object{"name": "tea", "content": "black", "if_version": 999}, 409, "changed")
	tool("edit", object{"name": "tea", "old_text": "green", "new_text": "black"}, 200, "")
	if p := tool("get_memory", object{"name": "tea"}, 200, ""); p.field("content") != "black" {
		t.Errorf("get_memory: %s", p.body)
	}
	tool("forget", object{"name": "tea"}, 200, "")
	if p := tool("list_memories", object{}, 200, ""); p.field("total") != 2.0 {
		t.Errorf("list_memories: %s", p.body)
	}
	tool("restore", object{"name": "tea"}, 200, "")
	tool("restore", object{"name": "tea"}, 409, "exists")
	if p := tool("recall", object{"query": "black"}, 200, ""); p.field("hits.0.name") != "tea" {
		t.Errorf("recall: %s", p.body)
	}
	r.want("remember of eve", r.do("eve", "POST", "/v1/tools/remember", object{"name": "tea", "content": "x"}), 403, "scope")
}
