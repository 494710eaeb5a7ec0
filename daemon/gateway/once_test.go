package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// keyed is a request that changes the memory. A test sends it, lets another client undo it,
// and sends it again.
type keyed struct {
	method, path string
	body, other  object // other: another body
	header       []string
	undo         func() // by another client
	effect       func() string
}

// keyedRequests returns a request for each route that changes the memory with a key, by
// the name of its operation.
func keyedRequests(r *rig) map[string]func() *keyed {
	n := 0
	name := func() string { n++; return fmt.Sprint("note-", n) }
	create := func(name string) (path, etag string) { return r.create("root", name, "before") }
	stores := r.do("root", "GET", storesPath, nil)
	memories := storesPath + "/" + stores.field("data.0.id").(string) + "/memories"
	remove := func(path string) func() {
		return func() { r.want("undo", r.do("root", "DELETE", path, nil, "If-Match", "*"), 204, "") }
	}
	byName := func(name string) func() string {
		return func() string { return string(r.do("root", "GET", "/v1/memories?view=full&name="+name, nil).body) }
	}
	put := func(path, content string) func() {
		return func() {
			r.want("undo", r.do("root", "PUT", path, object{"content": content}, "If-Match", "*"), 200, "")
		}
	}
	list := func() string { return string(r.do("root", "GET", storesPath, nil).body) }
	store := func() string {
		p := r.want("a store", r.do("root", "POST", storesPath, object{"name": name()}), 200, "")
		return storesPath + "/" + p.field("id").(string)
	}
	describe := func(path string) func() {
		return func() {
			r.want("undo", r.do("root", "POST", path, object{"description": "by another client"}), 200, "")
		}
	}
	return map[string]func() *keyed{
		"POST /v1/memories": func() *keyed {
			name := name()
			return &keyed{"POST", "/v1/memories", object{"name": name, "content": "x"}, object{"name": name + "-other", "content": "x"}, nil,
				func() { remove("/v1/memories/" + idOf(r, name))() }, byName(name)}
		},
		"PUT /v1/memories/{id}": func() *keyed {
			name := name()
			path, etag := create(name)
			return &keyed{"PUT", path, object{"content": "x", "aliases": []string{name + "-alias"}}, object{"content": "y"}, []string{"If-Match", etag}, put(path, "before"), byName(name)}
		},
		"DELETE /v1/memories/{id}": func() *keyed {
			name := name()
			path, etag := create(name)
			return &keyed{"DELETE", path, nil, nil, []string{"If-Match", etag}, func() { create(name) }, byName(name)}
		},
		"POST /v1/memories/remember": func() *keyed {
			name := name()
			path, _ := create(name)
			return &keyed{"POST", "/v1/memories/remember", object{"name": name, "content": "x"}, object{"name": name, "content": "y"}, nil, put(path, "before"), byName(name)}
		},
		"POST /v1/memories/replace": func() *keyed {
			name := name()
			path, _ := create(name)
			return &keyed{"POST", "/v1/memories/replace", object{"name": name, "content": "x", "if_sha256": op.SHA256("before")}, object{"name": name, "content": "y"}, nil, put(path, "before"), byName(name)}
		},
		"POST /v1/memories/append": func() *keyed {
			name := name()
			path, _ := create(name)
			return &keyed{"POST", "/v1/memories/append", object{"name": name, "text": "x"}, object{"name": name, "text": "y"}, nil, put(path, "before"), byName(name)}
		},
		"POST /v1/tools/edit": func() *keyed {
			name := name()
			path, _ := create(name)
			return &keyed{"POST", "/v1/tools/edit", object{"name": name, "old_text": "before", "new_text": "x"}, object{"name": name, "old_text": "before", "new_text": "y"}, nil, put(path, "before"), byName(name)}
		},
		"POST /v1/tools/forget": func() *keyed {
			name := name()
			create(name)
			return &keyed{"POST", "/v1/tools/forget", object{"name": name}, object{"name": name + "-other"}, nil, func() { create(name) }, byName(name)}
		},
		"POST /v1/tools/restore": func() *keyed {
			name := name()
			path, _ := create(name)
			remove(path)()
			return &keyed{"POST", "/v1/tools/restore", object{"name": name}, object{"name": name + "-other"}, nil, func() { remove("/v1/memories/" + idOf(r, name))() }, byName(name)}
		},
		"POST " + storesPath: func() *keyed {
			name := name()
			return &keyed{"POST", storesPath, object{"name": name}, object{"name": name, "description": "other"}, nil, nil, list}
		},
		"POST " + storePath: func() *keyed {
			path := store()
			return &keyed{"POST", path, object{"description": "x"}, object{"description": "y"}, nil, describe(path), list}
		},
		"POST " + storePath + "/archive": func() *keyed { return &keyed{"POST", store() + "/archive", nil, nil, nil, nil, list} },
		"DELETE " + storePath:            func() *keyed { return &keyed{"DELETE", store(), nil, nil, nil, nil, list} },
		"POST " + storedPath: func() *keyed {
			name := name()
			return &keyed{"POST", memories, object{"path": "/" + name, "content": "x"}, object{"path": "/" + name, "content": "y"}, nil,
				func() { remove("/v1/memories/" + idOf(r, name))() }, byName(name)}
		},
		"POST " + storedPath + "/{memory}": func() *keyed {
			name := name()
			path, _ := create(name)
			return &keyed{"POST", memories + "/" + memoryPrefix + filepath.Base(path), object{"path": "/" + name + "-moved", "content": "x"}, object{"content": "y"}, nil,
				put(path, "before"), byName(name + "-moved")}
		},
		"DELETE " + storedPath + "/{memory}": func() *keyed {
			name := name()
			path, _ := create(name)
			return &keyed{"DELETE", memories + "/" + memoryPrefix + filepath.Base(path), nil, nil, nil, func() { create(name) }, byName(name)}
		},
	}
}

// idOf returns the ID of a note, as text.
func idOf(r *rig, name string) string {
	return fmt.Sprintf("%.0f", r.do("root", "GET", "/v1/memories?name="+name, nil).field("items.0.id"))
}

// counts are the counts of reads, which a look at a note changes.
var counts = regexp.MustCompile(`"accessed_at":"[^"]*","access_count":\d+,`)

// TestKeyedRequests repeats a request of each route that changes the memory: after the
// request, after another client has undone it, and after restarts of the daemon. The
// repetition has no effect, and returns the outcome. With another body, path, or header it
// is refused.
func TestKeyedRequests(t *testing.T) {
	r := newRig(t)
	requests := keyedRequests(r)
	for _, one := range slices.Concat(rowRoutes(), storeRoutes()) {
		if one.once != (requests[one.method+" "+one.path] != nil) {
			t.Errorf("%s %s: accepts a key: %v", one.method, one.path, one.once)
		}
	}
	for what, of := range requests {
		q := of()
		send := func(body object, header ...string) *response {
			var b any
			if body != nil {
				b = body
			}
			return r.do("root", q.method, q.path, b, append(slices.Concat(q.header, header), "Idempotency-Key", what)...)
		}
		state := func() string { return counts.ReplaceAllString(q.effect(), "") }
		before := state()
		first := send(q.body)
		if first.StatusCode >= 300 {
			t.Errorf("%s: %d %s", what, first.StatusCode, first.body)
			continue
		}
		effect := state()
		if before == effect {
			t.Errorf("%s: no effect: %s", what, effect)
		}
		again := func(when string, status int) {
			t.Helper()
			p := send(q.body)
			if p.StatusCode != status || status < 300 && (string(p.body) != string(first.body) || p.Header.Get("ETag") != first.Header.Get("ETag") || p.Header.Get("Location") != first.Header.Get("Location")) {
				t.Errorf("%s again %s: %d %s, want %d %s", what, when, p.StatusCode, p.body, status, first.body)
			}
			if got := state(); got != effect {
				t.Errorf("%s again %s: %s, want %s", what, when, got, effect)
			}
		}
		again("at once", first.StatusCode)
		if q.other != nil {
			if p := send(q.other); p.StatusCode != 409 {
				t.Errorf("%s with another body: %d %s", what, p.StatusCode, p.body)
			}
		}
		if p := r.do("root", "DELETE", "/v1/memories/1", nil, "If-Match", "*", "Idempotency-Key", what); p.StatusCode != 409 {
			t.Errorf("%s, the key on another path: %d %s", what, p.StatusCode, p.body)
		}
		status := first.StatusCode
		if q.undo != nil {
			q.undo()
			if effect = state(); strings.HasPrefix(q.path, storesPath+"/"+storePrefix) && what == "POST "+storePath {
				status = 409 // the daemon keeps no earlier descriptions
			}
		}
		again("after another client", status)
		r.daemon()
		r.startDaemon()
		again("after a restart", status)
	}
	// A request that changes nothing has a key, too.
	path, _ := r.create("root", "same", "x")
	stores := r.do("root", "GET", storesPath, nil).field("data").([]any)
	at := slices.IndexFunc(stores, func(s any) bool { return s.(map[string]any)["name"] == "main" })
	same := storesPath + "/" + stores[at].(map[string]any)["id"].(string) + "/memories/" + memoryPrefix + filepath.Base(path)
	for range 2 {
		r.want("no change", r.do("root", "POST", same, object{"content": "x"}, "Idempotency-Key", "same"), 200, "")
	}
	r.want("no change, another body", r.do("root", "POST", same, object{"content": "y"}, "Idempotency-Key", "same"), 409, "conflict_error")
	// Each route refuses the key of another request.
	for what, of := range requests {
		q := of()
		var body any
		if q.body != nil {
			body = q.body
		}
		header := append(slices.Clone(q.header), "Idempotency-Key", "DELETE /v1/memories/{id}")
		if p := r.do("root", q.method, q.path, body, header...); p.StatusCode != 409 {
			t.Errorf("%s with the key of another request: %d %s", what, p.StatusCode, p.body)
		}
	}
	text, err := os.ReadFile(filepath.Join(r.home, "run", "once.jsonl"))
	if err != nil || strings.Contains(string(text), "before") || strings.Contains(string(text), "-alias") {
		t.Errorf("the file contains a text: %v %s", err, text)
	}
}

// TestKeyOfPurged: after a purge of an entry, its keys are refused, and their file contains
// no digest of it.
func TestKeyOfPurged(t *testing.T) {
	r := newRig(t)
	body := object{"name": "pin", "content": "4711"}
	p := r.want("create", r.do("root", "POST", "/v1/memories", body, "Idempotency-Key", "a"), 201, "")
	path := p.Header.Get("Location")
	r.want("change", r.do("root", "PUT", path, object{"content": "4712"}, "If-Match", "*", "Idempotency-Key", "b"), 200, "")
	r.want("another", r.do("root", "POST", "/v1/memories", object{"name": "tea", "content": "green"}, "Idempotency-Key", "c"), 201, "")
	etag := strings.Trim(p.Header.Get("ETag"), `"`)
	file := func() string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(r.home, "run", "once.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if !strings.Contains(file(), etag) {
		t.Errorf("no digest of the entry before the purge: %s", file())
	}
	owner := &client.Client{Addr: r.addr}
	defer owner.Close()
	if _, err := op.Purge.Do(t.Context(), owner, op.Removal{Name: "pin"}); err != nil {
		t.Fatal(err)
	}
	if text := file(); strings.Contains(text, etag) || strings.Count(text, `"sum"`) != 1 {
		t.Errorf("after the purge: %s", text)
	}
	for range 2 {
		r.want("create again", r.do("root", "POST", "/v1/memories", body, "Idempotency-Key", "a"), 409, "spent")
		r.want("change again", r.do("root", "PUT", path, object{"content": "4712"}, "If-Match", "*", "Idempotency-Key", "b"), 409, "spent")
		r.want("another again", r.do("root", "POST", "/v1/memories", object{"name": "tea", "content": "green"}, "Idempotency-Key", "c"), 201, "")
		r.daemon()
		r.startDaemon()
	}
	r.want("the entry", r.do("root", "GET", path, nil), http.StatusNotFound, "not_found")
	// A purge while no daemon runs.
	r.want("a third", r.do("root", "POST", "/v1/memories", object{"name": "third", "content": "3"}, "Idempotency-Key", "d"), 201, "")
	r.daemon()
	s, err := crmem.Open(filepath.Join(r.home, "memory.db"), nil)
	if err == nil {
		_, err = s.Purge("third")
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	r.startDaemon()
	r.want("a third again", r.do("root", "POST", "/v1/memories", object{"name": "third", "content": "3"}, "Idempotency-Key", "d"), 409, "spent")
	if text := file(); strings.Count(text, `"sum"`) != 1 {
		t.Errorf("after a purge without a daemon: %s", text)
	}
}

// TestKeyAfterCrash repeats requests whose records a crash left incomplete: the history has
// their changes. Without a history, the conditions of the request hold.
func TestKeyAfterCrash(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(r.home, "run", "once.jsonl")
	crash := func() {
		t.Helper()
		r.daemon()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var kept []string
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, `"done"`) {
				kept = append(kept, line)
			}
		}
		if err := os.WriteFile(file, []byte(strings.Join(kept, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		r.startDaemon()
	}
	body := object{"name": "tea", "content": "green"}
	p := r.want("create", r.do("ann", "POST", "/v1/memories", body, "Idempotency-Key", "a"), 201, "")
	path := p.Header.Get("Location")
	r.want("remove by another client", r.do("ann", "DELETE", path, nil, "If-Match", "*"), 204, "")
	crash()
	again := r.want("create again", r.do("ann", "POST", "/v1/memories", body, "Idempotency-Key", "a"), 201, "")
	if string(again.body) != string(p.body) {
		t.Errorf("again: %s, want %s", again.body, p.body)
	}
	r.want("the entry", r.do("ann", "GET", path, nil), 404, "not_found")
	r.want("remove it", r.do("ann", "DELETE", path, nil, "If-Match", "*", "Idempotency-Key", "b"), 404, "not_found")
	r.want("create it", r.do("ann", "POST", "/v1/memories", body, "Idempotency-Key", "b"), 201, "") // the key had no effect before
	store := r.want("a store", r.do("root", "POST", storesPath, object{"name": "team"}, "Idempotency-Key", "s"), 200, "")
	crash()
	if p := r.want("the store again", r.do("root", "POST", storesPath, object{"name": "team"}, "Idempotency-Key", "s"), 200, ""); string(p.body) != string(store.body) {
		t.Errorf("the store again: %s, want %s", p.body, store.body)
	}
	id := storesPath + "/" + store.field("id").(string)
	r.want("remove the store", r.do("root", "DELETE", id, nil, "Idempotency-Key", "d"), 200, "")
	crash()
	r.want("remove the store again", r.do("root", "DELETE", id, nil, "Idempotency-Key", "d"), 200, "")
	r.want("remove a missing store", r.do("root", "DELETE", id, nil, "Idempotency-Key", "e"), 404, "not_found_error")
}

// TestKeyWithoutHistory returns an outcome while the entry has it, and refuses the key
// afterward.
func TestKeyWithoutHistory(t *testing.T) {
	r := newRig(t)
	r.configure("[memory]\nhistory = \"off\"\n")
	owner := &client.Client{Addr: r.addr}
	defer owner.Close()
	create := func(status int, kind string) *response {
		t.Helper()
		if _, err := op.Checkpoint.Do(t.Context(), owner, op.None{}); err != nil { // removes the log
			t.Fatal(err)
		}
		return r.want("create", r.do("root", "POST", "/v1/memories", object{"name": "tea", "content": "green"}, "Idempotency-Key", "a"), status, kind)
	}
	p, again := create(201, ""), create(201, "")
	if string(p.body) != string(again.body) {
		t.Errorf("again: %s, want %s", again.body, p.body)
	}
	r.want("change", r.do("root", "PUT", p.Header.Get("Location"), object{"content": "black"}, "If-Match", "*"), 200, "")
	create(409, "spent")
}

// TestKeyConcurrent sends a request many times concurrently: it has one effect, and each
// response is the same.
func TestKeyConcurrent(t *testing.T) {
	r := newRig(t)
	bodies := make([]string, 16)
	var each sync.WaitGroup
	for i := range bodies {
		each.Go(func() {
			p := r.do("ann", "POST", "/v1/memories", object{"name": "tea", "content": "green"}, "Idempotency-Key", "k")
			bodies[i] = fmt.Sprint(p.StatusCode, string(p.body), p.Header.Get("Location"))
		})
	}
	each.Wait()
	slices.Sort(bodies)
	if same := slices.Compact(bodies); len(same) != 1 || !strings.HasPrefix(same[0], "201") {
		t.Errorf("responses: %q", same)
	}
	if list := r.do("ann", "GET", "/v1/memories", nil); list.field("items.1") != nil {
		t.Errorf("entries: %s", list.body)
	}
}
