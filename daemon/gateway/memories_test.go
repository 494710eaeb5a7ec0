package gateway

import (
	"fmt"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"
)

// create creates a note and returns its path and its etag.
func (r *rig) create(who, name, content string) (path, etag string) {
	r.t.Helper()
	p := r.want("create "+name, r.do(who, "POST", "/v1/memories", object{"name": name, "content": content}), 201, "")
	return p.Header.Get("Location"), p.Header.Get("ETag")
}

// TestMemories creates, reads, lists, changes, and removes entries, with names that no
// path could contain.
func TestMemories(t *testing.T) {
	r := newRig(t)
	names := []string{"deploy", "a//b", "..", "a b?c#d%2F", "x/../y", "日本", "\u202eevil", strings.Repeat("n", 500)}
	paths := make(map[string]string)
	for _, name := range names {
		path, etag := r.create("ann", name, "about "+name)
		paths[name] = path
		p := r.want("read "+name, r.do("ann", "GET", path, nil), 200, "")
		if p.field("name") != name || p.field("content") != "about "+name || p.field("etag") != etag || p.Header.Get("ETag") != etag || p.field("kind") != "note" {
			t.Errorf("%q: %s", name, p.body)
		}
	}
	var listed []string
	for after := "0"; ; {
		p := r.want("list", r.do("ann", "GET", "/v1/memories?limit=3&after="+after, nil), 200, "")
		items, _ := p.field("items").([]any)
		if len(items) > 3 {
			t.Fatalf("%d items", len(items))
		}
		for _, i := range items {
			listed = append(listed, i.(map[string]any)["name"].(string))
		}
		next, more := p.field("next").(string)
		if !more {
			break
		}
		after = next
	}
	if got, want := fmt.Sprintf("%q", listed), fmt.Sprintf("%q", names); got != want {
		t.Errorf("listed %s, want %s", got, want)
	}
	p := r.do("ann", "GET", "/v1/memories?name=a%2F%2Fb&view=full", nil)
	if p.field("items.0.content") != "about a//b" || p.field("items.1") != nil {
		t.Errorf("by name: %s", p.body)
	}
	if p := r.do("ann", "GET", "/v1/memories?name=nobody", nil); string(p.body) != `{"items":[]}`+"\n" {
		t.Errorf("by another name: %s", p.body)
	}
	for query, want := range map[string]int{"kind=note": len(names), "kind=archive": 0, "kind=note&name=deploy": 1, "kind=archive&name=deploy": 0} {
		if p := r.want(query, r.do("ann", "GET", "/v1/memories?"+query, nil), 200, ""); len(p.field("items").([]any)) != want {
			t.Errorf("%s: %s", query, p.body)
		}
	}
	for _, id := range []string{"0", "007", "99", "x", "-1", "18446744073709551615", "1e3", "+1"} {
		r.want("entry "+id, r.do("ann", "GET", "/v1/memories/"+id, nil), 404, "not_found")
	}
	r.want("a taken name", r.do("ann", "POST", "/v1/memories", object{"name": "deploy", "content": "other"}), 409, "exists")
	r.want("an empty name", r.do("ann", "POST", "/v1/memories", object{"name": "", "content": "x"}), 400, "invalid")
	r.want("a long name", r.do("ann", "POST", "/v1/memories", object{"name": strings.Repeat("n", 70000), "content": "x"}), 400, "invalid")
}

// TestLargePages lists entries that exceed a page together.
func TestLargePages(t *testing.T) {
	race.Skip(t)
	r := newRig(t)
	big := strings.Repeat("x", 5<<20)
	for _, name := range []string{"big 1", "big 2"} {
		r.create("bob", name, big)
	}
	p := r.do("bob", "GET", "/v1/memories?view=full", nil)
	if items := p.field("items").([]any); len(items) != 1 || p.field("next") != "1" {
		t.Errorf("a page of %d entries of 5 MiB", len(items))
	}
	if p = r.do("bob", "GET", "/v1/memories", nil); p.field("items.1.bytes") != float64(len(big)) {
		t.Errorf("without contents: %.200s", p.body)
	}
}

// TestPins pins a note, and no archive.
func TestPins(t *testing.T) {
	r := newRig(t)
	owner := &client.Client{Addr: r.addr}
	defer owner.Close()
	if _, err := op.ApplyOps(t.Context(), owner, crmem.Add{Name: "chat", Kind: crmem.Archive, Content: "a"}, crmem.Add{Name: "note", Content: "b"}); err != nil {
		t.Fatal(err)
	}
	r.want("an archive", r.do("root", "POST", "/v1/memories/pin", object{"names": []string{"note", "chat"}}), 409, "kind")
	r.want("tags of an archive", r.do("root", "POST", "/v1/memories/tag", object{"name": "chat", "add": []string{"x"}}), 409, "kind")
	p := r.want("a note", r.do("root", "POST", "/v1/memories/pin", object{"names": []string{"note"}}), 200, "")
	if p.field("changed.0") != "note" {
		t.Errorf("pinned: %s", p.body)
	}
}

// TestPreconditions changes and removes entries with etags.
func TestPreconditions(t *testing.T) {
	r := newRig(t)
	path, first := r.create("ann", "deploy", "by hand")
	put := func(content, etag string) *response {
		return r.do("ann", "PUT", path, object{"content": content, "aliases": []string{"ship"}}, "If-Match", etag)
	}
	r.want("without an etag", r.do("ann", "PUT", path, object{"content": "x"}), 428, "no_precondition")
	r.want("two headers", r.do("ann", "PUT", path, object{"content": "x"}, "If-Match", first, "If-Match", first), 428, "no_precondition")
	p := r.want("put", put("by a script", first), 200, "")
	second := p.Header.Get("ETag")
	if p.field("content") != "by a script" || p.field("aliases.0") != "ship" || second == first || p.field("etag") != second {
		t.Errorf("put: %s", p.body)
	}
	p = r.want("an old etag", put("lost", first), 412, "changed")
	if p.field("current.content") != "by a script" || p.field("current.etag") != second {
		t.Errorf("current: %s", p.body)
	}
	r.want("a weak etag", put("lost", "W/"+second), 412, "changed")
	r.want("one of two etags", put("again", first+", "+second), 200, "")
	p = r.want("any etag", put("and again", "*"), 200, "")
	if p = r.do("ann", "PUT", path, object{"content": "kept aliases"}, "If-Match", p.Header.Get("ETag")); p.field("aliases.0") != "ship" {
		t.Errorf("absent aliases: %s", p.body)
	}
	r.want("a bad alias", r.do("ann", "PUT", path, object{"content": "x", "aliases": []string{""}}, "If-Match", "*"), 400, "invalid")
	r.want("delete with an old etag", r.do("ann", "DELETE", path, nil, "If-Match", first), 412, "changed")
	r.want("delete without an etag", r.do("ann", "DELETE", path, nil), 428, "no_precondition")
	r.want("delete", r.do("ann", "DELETE", path, nil, "If-Match", p.Header.Get("ETag")), 204, "")
	r.want("read it", r.do("ann", "GET", path, nil), 404, "not_found")
	r.want("delete it again", r.do("ann", "DELETE", path, nil, "If-Match", "*"), 404, "not_found")
}

// TestMemoryRequestsTwice repeats requests with an Idempotency-Key: each has one effect.
func TestMemoryRequestsTwice(t *testing.T) {
	r := newRig(t)
	twice := func(what, method, path string, body any, status int, header ...string) (p *response) {
		t.Helper()
		header = append(header, "Idempotency-Key", what)
		first := r.want(what, r.do("ann", method, path, body, header...), status, "")
		again := r.want(what+" again", r.do("ann", method, path, body, header...), status, "")
		if string(first.body) != string(again.body) || first.Header.Get("ETag") != again.Header.Get("ETag") || first.Header.Get("Location") != again.Header.Get("Location") {
			t.Errorf("%s: %s\nthen %s", what, first.body, again.body)
		}
		return first
	}
	created := twice("create", "POST", "/v1/memories", object{"name": "deploy", "content": "by hand", "aliases": []string{"ship"}}, 201)
	path := created.Header.Get("Location")
	r.want("the key with another note", r.do("ann", "POST", "/v1/memories", object{"name": "deploy", "content": "other"}, "Idempotency-Key", "create"), 409, "request")
	changed := twice("change", "PUT", path, object{"content": "by a script"}, 200, "If-Match", created.Header.Get("ETag"))
	r.want("the key with another content", r.do("ann", "PUT", path, object{"content": "other"}, "If-Match", created.Header.Get("ETag"), "Idempotency-Key", "change"), 409, "request")
	if p := r.do("ann", "GET", "/v1/memories", nil); p.field("items.1") != nil {
		t.Errorf("entries: %s", p.body)
	}
	twice("remove", "DELETE", path, nil, 204, "If-Match", changed.Header.Get("ETag"))
	for _, key := range []string{"", strings.Repeat("k", 256)} {
		r.want("a bad key", r.do("ann", "POST", "/v1/memories", object{"name": "x", "content": "y"}, "Idempotency-Key", key), 400, "invalid")
	}
}

// TestSpaces: each key has its own space, an admin has all, and eve has none.
func TestSpaces(t *testing.T) {
	r := newRig(t)
	path, etag := r.create("ann", "secret of ann", "the walrus")
	r.create("root", "secret of root", "the walrus")
	for _, who := range []string{"bob", "eve", "ann", "root"} {
		p := r.do(who, "GET", "/v1/memories?view=full", nil)
		q := r.do(who, "POST", "/v1/recall", object{"query": "walrus"})
		one := r.do(who, "GET", path, nil)
		put := r.do(who, "PUT", path, object{"content": "x"}, "If-Match", `"y"`)
		del := r.do(who, "DELETE", path, nil, "If-Match", `"y"`)
		switch who {
		case "eve":
			for what, p := range map[string]*response{"list": p, "recall": q, "read": one, "put": put, "delete": del, "create": r.do(who, "POST", "/v1/memories", object{"name": "n", "content": "c"})} {
				r.want("eve: "+what, p, 403, "scope")
			}
		case "bob":
			if p.field("items.0") != nil || q.field("hits.0") != nil {
				t.Errorf("bob sees %s and %s", p.body, q.body)
			}
			for what, p := range map[string]*response{"read": one, "put": put, "delete": del} {
				r.want("bob: "+what, p, 404, "not_found")
			}
			for _, space := range []string{"main", "api-ann", "..", "x"} {
				r.want("bob in "+space, r.do(who, "GET", "/v1/memories?space="+space, nil), 403, "scope")
			}
		default:
			if got := p.field("items.0.name"); got != "secret of "+who || p.field("items.1") != nil || q.field("hits.0.entry.name") != got {
				t.Errorf("%s sees %s and %s", who, p.body, q.body)
			}
		}
	}
	p := r.want("ann's entry", r.do("ann", "GET", path, nil), 200, "")
	if p.Header.Get("ETag") != etag {
		t.Error("another key changed the entry of ann")
	}
}

// TestRecall searches with all options.
func TestRecall(t *testing.T) {
	r := newRig(t)
	r.create("ann", "deploy", "We deploy with a script. "+strings.Repeat("Nothing else matters here. ", 100)+"The canary goes first.")
	r.create("ann", "tea", "Green tea is a drink.")
	ask := func(body object) *response {
		t.Helper()
		return r.want(fmt.Sprint(body), r.do("ann", "POST", "/v1/recall", body), 200, "")
	}
	p := ask(object{"query": "canary"})
	snippet, _ := p.field("hits.0.snippet").(string)
	if p.field("hits.0.entry.name") != "deploy" || p.field("total") != 1.0 || !strings.Contains(snippet, "canary") || len(snippet) > op.MaxSnippet || p.field("hits.0.entry.content") != nil {
		t.Errorf("recall: %s", p.body)
	}
	if p := ask(object{"query": "canary", "full": true, "explain": true}); p.field("hits.0.entry.content") == nil || p.field("hits.0.explain") == nil {
		t.Errorf("full and explain: %s", p.body)
	}
	if p := ask(object{"query": "canary", "why_not": "tea"}); p.field("why_not") == nil {
		t.Errorf("why not: %s", p.body)
	}
	if p := ask(object{"query": "canary deploy", "budget": 60}); p.field("budget.tokens") == nil || p.field("hits.0.snippet") == "" {
		t.Errorf("budget: %s", p.body)
	}
	if p := ask(object{"query": "cannary"}); p.field("corrections.0.word") != "cannary" {
		t.Errorf("correction: %s", p.body)
	}
	if p := ask(object{"query": "deploy tea", "limit": 1, "kind": "note", "after": "2020", "semantic": true}); p.field("hits.1") != nil || p.field("total") != 2.0 || p.field("meaning") == nil {
		t.Errorf("filters: %s", p.body)
	}
	if p := r.do("bob", "POST", "/v1/recall", object{"query": "canary"}); string(p.body) != `{"hits":[],"total":0,"searched":0}`+"\n" {
		t.Errorf("an empty space: %s", p.body)
	}
	for _, body := range []object{{"query": ""}, {"query": "x", "limit": 0}, {"query": "x", "limit": 201}, {"query": "x", "kind": "other"}, {"query": "x", "budget": -1},
		{"query": "x", "after": "soon"}, {"query": strings.Repeat("x", op.MaxSearchQuery+1)}, {"query": "after:soon", "syntax": true}} {
		r.want(fmt.Sprint(body)[:min(40, len(fmt.Sprint(body)))], r.do("ann", "POST", "/v1/recall", body), 400, "invalid")
	}
	if p := ask(object{"query": "x", "why_not": "nothing"}); p.field("why_not.reason") != "no_entry" {
		t.Errorf("why not without an entry: %s", p.body)
	}
}

// TestSecretsInTexts: the daemon refuses a secret on each route that writes a text, and
// the store keeps its texts.
func TestSecretsInTexts(t *testing.T) {
	const secret = "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"
	r := newRig(t)
	path, etag := r.create("root", "deploy", "by hand")
	at := "/v1/memory_stores/memstore_main/memories"
	p := r.do("root", "GET", at, nil)
	stored := at + "/" + p.field("data.0.id").(string)
	for what, send := range map[string]func() *response{
		"create": func() *response {
			return r.do("root", "POST", "/v1/memories", object{"name": "leak", "content": secret})
		},
		"create alias": func() *response {
			return r.do("root", "POST", "/v1/memories", object{"name": "leak", "content": "x", "aliases": []string{secret}})
		},
		"put":         func() *response { return r.do("root", "PUT", path, object{"content": secret}, "If-Match", etag) },
		"stored":      func() *response { return r.do("root", "POST", at, object{"path": "/leak", "content": secret}) },
		"stored path": func() *response { return r.do("root", "POST", at, object{"path": "/" + secret, "content": "x"}) },
		"change":      func() *response { return r.do("root", "POST", stored, object{"content": secret}) },
		"move":        func() *response { return r.do("root", "POST", stored, object{"path": "/" + secret}) },
	} {
		p := send()
		if p.StatusCode != 422 || strings.Contains(string(p.body), secret) {
			t.Errorf("%s: %d %s", what, p.StatusCode, p.body)
		}
	}
	p = r.do("root", "GET", "/v1/memories?view=full", nil)
	if p.field("items.0.content") != "by hand" || p.field("items.1") != nil {
		t.Errorf("entries: %s", p.body)
	}
	for what, body := range map[string]object{"empty": {"content": ""}, "blank": {"content": " \n\t"}} {
		r.want(what, r.do("root", "PUT", path, body, "If-Match", etag), 400, "invalid")
		body["name"] = "new"
		r.want(what+", new", r.do("root", "POST", "/v1/memories", body), 400, "invalid")
	}
	r.want("an empty memory of a store", r.do("root", "POST", at, object{"path": "/empty", "content": nil}), 200, "")
}
