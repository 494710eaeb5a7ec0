package gateway

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

const (
	storesPath       = "/v1/memory_stores"
	storePath        = storesPath + "/{store}"
	storedPath       = storePath + "/memories"
	storePrefix      = "memstore_"
	memoryPrefix     = "mem_"
	maxStoredContent = 102_400
	maxStored        = 2_000

	preconditionFailed = "memory_precondition_failed_error"
	pathConflict       = "memory_path_conflict_error"
	unlistedHeader     = "X-Crabmem-Unlisted"
)

// newStore creates a memory store, and returns its path.
func (r *rig) newStore(who, name string) string {
	r.t.Helper()
	p := r.want("create a store", r.do(who, "POST", storesPath, object{"name": name}), 200, "")
	return storesPath + "/" + p.field("id").(string)
}

// TestStores creates, describes, lists, archives, and removes memory stores.
func TestStores(t *testing.T) {
	r := newRig(t)
	p := r.want("create", r.do("root", "POST", storesPath+"?beta=true", object{"name": "Team Notes 1", "description": "d", "metadata": object{"a": "1", "b": "2"}}), 200, "")
	id := p.field("id").(string)
	path := storesPath + "/" + id
	if !strings.HasPrefix(id, "memstore_team-notes-1-") || p.field("metadata.a") != "1" || p.field("archived_at") != nil || p.field("type") != "memory_store" {
		t.Errorf("store: %s", p.body)
	}
	created := p.field("created_at").(string)
	p = r.want("change", r.do("root", "POST", path, object{"metadata": object{"a": nil, "c": "3"}, "name": "Other"}), 200, "")
	if p.field("name") != "Other" || p.field("description") != "d" || fmt.Sprint(p.field("metadata")) != "map[b:2 c:3]" || p.field("created_at") != created || p.field("updated_at") == created {
		t.Errorf("changed store: %s", p.body)
	}
	r.want("main", r.do("root", "POST", storesPath+"/memstore_main", object{"description": "the space of the agents"}), 200, "")
	for _, bad := range []object{{"name": ""}, {"name": strings.Repeat("x", 256)}, {"name": "a\nb"}, {"name": "x", "description": strings.Repeat("x", 1025)}, {"name": "x", "metadata": object{"": "x"}},
		{"name": "x", "metadata": object{"k": strings.Repeat("é", 513)}}, {"name": "x", "more": 1}} {
		r.want(fmt.Sprint(bad), r.do("root", "POST", storesPath, bad), 400, "invalid_request_error")
	}
	many := object{}
	for i := range 15 {
		many[fmt.Sprint(i)] = "x"
	}
	r.want("17 pairs", r.do("root", "POST", path, object{"metadata": many}), 400, "invalid_request_error")

	second := r.newStore("root", "日本")
	var ids []string
	for page := ""; ; {
		p := r.want("list", r.do("root", "GET", storesPath+"?limit=2&page="+page, nil), 200, "")
		for _, s := range p.field("data").([]any) {
			ids = append(ids, s.(map[string]any)["id"].(string))
		}
		next, ok := p.field("next_page").(string)
		if !ok {
			break
		}
		page = next
	}
	if want := []string{"memstore_main", storePrefix + strings.TrimPrefix(second, storesPath+"/"+storePrefix), id}; fmt.Sprint(ids) != fmt.Sprint(want) || !strings.HasPrefix(want[1], "memstore_store-") {
		t.Errorf("stores %v, want %v", ids, want)
	}
	for query, want := range map[string]int{"created_at[gte]=" + url.QueryEscape(created): 2, "created_at[lte]=" + url.QueryEscape(created): 2, "created_at[gte]=2999-01-01T00:00:00Z": 0} {
		if p := r.want(query, r.do("root", "GET", storesPath+"?"+query, nil), 200, ""); len(p.field("data").([]any)) != want {
			t.Errorf("%s: %s", query, p.body)
		}
	}
	r.want("no time", r.do("root", "GET", storesPath+"?created_at[gte]=x", nil), 400, "invalid_request_error")

	r.want("memory", r.do("root", "POST", path+"/memories", object{"path": "/a", "content": "x"}), 200, "")
	if p := r.want("archive", r.do("root", "POST", path+"/archive", nil), 200, ""); p.field("archived_at") == nil {
		t.Errorf("archived store: %s", p.body)
	}
	archived := r.want("archive again", r.do("root", "POST", path+"/archive", nil), 200, "").field("archived_at")
	if p := r.want("read", r.do("root", "GET", path, nil), 200, ""); p.field("archived_at") != archived {
		t.Errorf("archived store: %s", p.body)
	}
	r.want("create in an archived store", r.do("root", "POST", path+"/memories", object{"path": "/b", "content": "x"}), 400, "invalid_request_error")
	r.want("change in an archived store", r.do("root", "POST", path+"/memories/mem_1", object{"content": "y"}), 400, "invalid_request_error")
	r.want("change an archived store", r.do("root", "POST", path, object{"name": "x"}), 400, "invalid_request_error")
	if p := r.want("read in an archived store", r.do("root", "GET", path+"/memories/mem_1", nil), 200, ""); p.field("content") != "x" {
		t.Errorf("memory: %s", p.body)
	}
	for query, want := range map[string]int{"": 2, "?include_archived=true": 3} {
		if p := r.want("list", r.do("root", "GET", storesPath+query, nil), 200, ""); len(p.field("data").([]any)) != want {
			t.Errorf("%q: %s", query, p.body)
		}
	}
	r.want("remove in an archived store", r.do("root", "DELETE", path+"/memories/mem_1", nil), 200, "")
	if p := r.want("remove", r.do("root", "DELETE", path, nil), 200, ""); p.field("type") != "memory_store_deleted" || p.field("id") != id {
		t.Errorf("removed store: %s", p.body)
	}
	if _, err := os.Lstat(filepath.Join(r.home, "spaces", strings.TrimPrefix(id, storePrefix))); !os.IsNotExist(err) {
		t.Errorf("the space exists: %v", err)
	}
	r.want("main", r.do("root", "DELETE", storesPath+"/memstore_main", nil), 400, "invalid_request_error")
	for _, missing := range []string{path, storesPath + "/memstore_x", storesPath + "/x", storesPath + "/memstore_", storesPath + "/memstore_..", path + "/memories", path + "/memories/mem_1", path + "/memory_versions"} {
		r.want(missing, r.do("root", "GET", missing, nil), 404, "not_found_error")
	}
}

// TestStoreKeys: a trusted key uses its own store, which its first write creates. It does
// not see others, and changes no store. An untrusted key sees none.
func TestStoreKeys(t *testing.T) {
	r := newRig(t)
	other := r.newStore("root", "team")
	r.want("memory", r.do("root", "POST", other+"/memories", object{"path": "/secret", "content": "x"}), 200, "")
	list := func(who string) string {
		return fmt.Sprint(r.want("list", r.do(who, "GET", storesPath, nil), 200, "").field("data.0.id"), r.do(who, "GET", storesPath, nil).field("data.1"))
	}
	id, alone := strings.CutSuffix(list("ann"), "<nil>")
	own := storesPath + "/" + id
	if !alone || !strings.HasPrefix(id, "memstore_sender-") {
		t.Errorf("stores of ann: %s", id)
	}
	for range 2 {
		for _, part := range []string{"/memories", "/memory_versions"} {
			r.want("list", r.do("ann", "GET", own+part, nil), 200, "")
		}
		r.want("missing", r.do("ann", "GET", own+"/memories/mem_9", nil), 404, "not_found_error")
		r.want("missing", r.do("ann", "GET", own+"/memory_versions/memver_9_9", nil), 404, "not_found_error")
		r.do("ann", "POST", own+"/memories", object{"path": "/a", "content": "x"})
	}
	if p := r.want("read", r.do("ann", "GET", own+"/memories/mem_1", nil), 200, ""); p.field("content") != "x" {
		t.Errorf("memory: %s", p.body)
	}
	p := r.want("rename", r.do("ann", "POST", own+"/memories/mem_1", object{"path": "/b", "content": "y"}), 200, "")
	if p.field("path") != "/b" || p.field("content_sha256") != op.SHA256("y") {
		t.Errorf("memory: %s", p.body)
	}
	version := own + "/memory_versions/memver_1_1"
	if p := r.want("version", r.do("ann", "GET", version, nil), 200, ""); p.field("created_by.api_key_id") != "apikey_ann" || p.field("content") != "x" {
		t.Errorf("version: %s", p.body)
	}
	for _, q := range [][2]string{{"POST", storesPath}, {"POST", own}, {"POST", own + "/archive"}, {"DELETE", own}, {"POST", version + "/redact"}} {
		body := any(object{"name": "x"})
		if q[0] == "DELETE" || strings.Count(q[1], "/") > 3 {
			body = nil
		}
		r.want(fmt.Sprint(q), r.do("ann", q[0], q[1], body), 403, "permission_error")
	}
	for _, path := range []string{other, other + "/memories", other + "/memories/mem_1", other + "/memory_versions", other + "/memory_versions/memver_1_1", storesPath + "/memstore_main", storesPath + "/memstore_main/memories"} {
		for _, who := range []string{"ann", "eve"} {
			r.want(who, r.do(who, "GET", path, nil), 404, "not_found_error")
		}
	}
	r.want("write", r.do("ann", "POST", other+"/memories", object{"path": "/b", "content": "x"}), 404, "not_found_error")
	r.want("bob", r.do("bob", "GET", own+"/memories/mem_1", nil), 404, "not_found_error")
	if p := r.want("eve", r.do("eve", "GET", storesPath, nil), 200, ""); len(p.field("data").([]any)) != 0 {
		t.Errorf("stores of eve: %s", p.body)
	}
	r.want("no key", r.do("", "GET", storesPath, nil), 401, "authentication_error")
}

// TestMemoriesOfStores creates, lists, changes, and removes memories.
func TestMemoriesOfStores(t *testing.T) {
	r := newRig(t)
	memories := r.newStore("root", "team") + "/memories"
	p := r.want("create", r.do("root", "POST", memories, object{"path": "/projects/foo/notes.md", "content": "one"}), 200, "")
	one := memories + "/" + p.field("id").(string)
	if p.field("content") != nil || p.field("content_sha256") != op.SHA256("one") || p.field("content_size_bytes") != 3.0 || p.field("memory_version_id") != "memver_1_1" || p.field("type") != "memory" {
		t.Errorf("memory: %s", p.body)
	}
	for _, bad := range []string{"", "a", "/", "//a", "/a/", "/a//b", "/.", "/a/..", "/a\nb", "/a\u202eb", "/a\u2028b", "/e\u0301", "/" + strings.Repeat("x", 1024), strings.Repeat("/x", 21)} {
		r.want(fmt.Sprintf("path %.20q", bad), r.do("root", "POST", memories, object{"path": bad, "content": "x"}), 400, "invalid_request_error")
		if bad != "" {
			r.want(fmt.Sprintf("path %.20q", bad), r.do("root", "POST", one, object{"path": bad}), 400, "invalid_request_error")
		}
	}
	r.want("long", r.do("root", "POST", memories, object{"path": "/long", "content": strings.Repeat("x", maxStoredContent+1)}), 400, "invalid_request_error")
	r.want("long", r.do("root", "POST", one, object{"content": strings.Repeat("x", maxStoredContent+1)}), 400, "invalid_request_error")
	r.want("not too long", r.do("root", "POST", memories, object{"path": strings.Repeat("/é", 20), "content": strings.Repeat("x", maxStoredContent)}), 200, "")
	r.want("taken", r.do("root", "POST", memories, object{"path": "/projects/foo/notes.md", "content": "one"}), 409, pathConflict)
	r.want("empty", r.do("root", "POST", memories, object{"path": "/empty", "content": nil}), 200, "")

	old := object{"type": "content_sha256", "content_sha256": op.SHA256("one")}
	if p := r.want("change", r.do("root", "POST", one+"?view=full", object{"content": "two", "precondition": old}), 200, ""); p.field("content") != "two" || p.field("memory_version_id") == "memver_1_1" {
		t.Errorf("memory: %s", p.body)
	}
	r.want("changed", r.do("root", "POST", one, object{"content": "three", "precondition": old}), 409, preconditionFailed)
	before := r.want("read", r.do("root", "GET", one, nil), 200, "")
	after := r.want("as requested", r.do("root", "POST", one+"?view=full", object{"content": "two", "precondition": old}), 200, "")
	if string(before.body) != string(after.body) {
		t.Errorf("a change without effect: %s, before %s", after.body, before.body)
	}
	r.want("taken", r.do("root", "POST", one, object{"path": "/empty"}), 409, pathConflict)
	if p := r.want("rename", r.do("root", "POST", one, object{"path": "/projects/bar.md", "precondition": object{"type": "content_sha256", "content_sha256": op.SHA256("two")}}), 200, ""); p.field("path") != "/projects/bar.md" || p.field("id") != "mem_1" {
		t.Errorf("memory: %s", p.body)
	}
	for _, bad := range []object{{}, {"content": "x", "precondition": object{"type": "etag", "content_sha256": op.SHA256("two")}}, {"content": "x", "precondition": object{"type": "content_sha256"}},
		{"content": "x", "precondition": object{"type": "content_sha256", "content_sha256": strings.ToUpper(op.SHA256("two"))}}} {
		r.want(fmt.Sprint(bad), r.do("root", "POST", one, bad), 400, "invalid_request_error")
	}

	for i := range 25 {
		r.want("create", r.do("root", "POST", memories, object{"path": fmt.Sprintf("/many/d%d/n%02d", i%2, i), "content": fmt.Sprint(i)}), 200, "")
	}
	list := func(query string) (items []string) {
		for page := ""; ; {
			p := r.want(query, r.do("root", "GET", memories+"?"+query+"&page="+page, nil), 200, "")
			data := p.field("data").([]any)
			if len(data) > 20 {
				t.Errorf("%s: %d items", query, len(data))
			}
			for _, i := range data {
				m := i.(map[string]any)
				items = append(items, m["path"].(string))
				if full := strings.Contains(query, "view=full"); m["type"] == "memory" && (m["content"] != nil) != full {
					t.Errorf("%s: %v", query, m)
				}
			}
			next, ok := p.field("next_page").(string)
			if !ok {
				return items
			}
			page = next
		}
	}
	long := strings.Repeat("/é", 20)
	for query, want := range map[string]string{
		"depth=1":                                    "[/empty /many/ /projects/ /é/]",
		"depth=1&limit=1":                            "[/empty /many/ /projects/ /é/]",
		"depth=1&path_prefix=/many/":                 "[/many/d0/ /many/d1/]",
		"path_prefix=/projects/&limit=1":             "[/projects/bar.md]",
		"path_prefix=/many/d1/&view=full&limit=5":    fmt.Sprint(paths("/many/d1/n%02d", 1, 25, 2)),
		"path_prefix=/man/":                          "[]",
		"path_prefix=/&depth=1":                      "[/empty /many/ /projects/ /é/]",
		"limit=7":                                    fmt.Sprint(append(append(append([]string{"/empty"}, paths("/many/d0/n%02d", 0, 25, 2)...), paths("/many/d1/n%02d", 1, 25, 2)...), "/projects/bar.md", long)),
		"view=full&limit=100&path_prefix=/projects/": "[/projects/bar.md]",
	} {
		if got := fmt.Sprint(list(query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for query, want := range map[string]int{"": 20, "limit=100": 28, "view=full": 20, "view=full&limit=100": 20, "view=full&limit=19": 19, "limit=0": 1} {
		if p := r.want(query, r.do("root", "GET", memories+"?"+query, nil), 200, ""); len(p.field("data").([]any)) != want {
			t.Errorf("%s: a page of %d items, want %d", query, len(p.field("data").([]any)), want)
		}
	}
	for _, bad := range []string{"path_prefix=x", "path_prefix=/x", "depth=2", "page=*", "view=x"} {
		r.want(bad, r.do("root", "GET", memories+"?"+bad, nil), 400, "invalid_request_error")
	}

	r.want("other digest", r.do("root", "DELETE", one+"?expected_content_sha256="+op.SHA256("x"), nil), 409, preconditionFailed)
	r.want("no digest", r.do("root", "DELETE", one+"?expected_content_sha256=x", nil), 400, "invalid_request_error")
	if p := r.want("remove", r.do("root", "DELETE", one+"?expected_content_sha256="+op.SHA256("two"), nil), 200, ""); p.field("type") != "memory_deleted" {
		t.Errorf("removed memory: %s", p.body)
	}
	for _, missing := range []string{"mem_1", "mem_0", "mem_x", "1", "mem_", "mem_01"} {
		r.want(missing, r.do("root", "GET", memories+"/"+missing, nil), 404, "not_found_error")
		r.want(missing, r.do("root", "DELETE", memories+"/"+missing, nil), 404, "not_found_error")
	}
}

// paths returns formatted numbers.
func paths(format string, from, to, step int) (list []string) {
	for i := from; i < to; i += step {
		list = append(list, fmt.Sprintf(format, i))
	}
	return list
}

// TestNamesOfStores: notes whose names are no paths, and archives, are not memories. A
// store has at most 2,000 memories.
func TestNamesOfStores(t *testing.T) {
	r := newRig(t)
	main := storesPath + "/memstore_main"
	owner := &client.Client{Addr: r.addr}
	defer owner.Close()
	ops := []crmem.Op{crmem.Add{Name: "a//b", Content: "1"}, crmem.Add{Name: "..", Content: "2"}, crmem.Add{Name: "chat", Kind: crmem.Archive, Content: "3"}, crmem.Add{Name: "ok", Content: "4"}}
	if _, err := op.ApplyOps(t.Context(), owner, ops...); err != nil {
		t.Fatal(err)
	}
	p := r.want("list", r.do("root", "GET", main+"/memories", nil), 200, "")
	if p.Header.Get(unlistedHeader) != "2" || p.field("data.0.path") != "/ok" || p.field("data.1") != nil {
		t.Errorf("list with %s unlisted: %s", p.Header.Get(unlistedHeader), p.body)
	}
	for id := 1; id <= 3; id++ {
		r.want("hidden", r.do("root", "GET", fmt.Sprint(main, "/memories/mem_", id), nil), 404, "not_found_error")
		r.want("hidden", r.do("root", "POST", fmt.Sprint(main, "/memories/mem_", id), object{"content": "x"}), 404, "not_found_error")
		r.want("hidden", r.do("root", "GET", fmt.Sprintf("%s/memory_versions/memver_%d_%d", main, id, id), nil), 404, "not_found_error")
	}
	if p := r.want("versions", r.do("root", "GET", main+"/memory_versions", nil), 200, ""); p.field("data.0.path") != "/ok" || p.field("data.1") != nil || p.field("data.0.created_by.type") != "user_actor" {
		t.Errorf("versions: %s", p.body)
	}
	r.want("taken by an archive", r.do("root", "POST", main+"/memories", object{"path": "/chat", "content": "x"}), 409, pathConflict)
	ops = nil
	for i := range maxStored - 1 {
		ops = append(ops, crmem.Add{Name: fmt.Sprint("n", i), Content: "x"})
	}
	if _, err := op.ApplyOps(t.Context(), owner, ops...); err != nil {
		t.Fatal(err)
	}
	r.want("full", r.do("root", "POST", main+"/memories", object{"path": "/more", "content": "x"}), 400, "invalid_request_error")
}

// TestVersionsOfStores lists, filters, reads, and redacts versions.
func TestVersionsOfStores(t *testing.T) {
	r := newRig(t)
	store := r.newStore("root", "team")
	memories, versions := store+"/memories", store+"/memory_versions"
	r.want("create", r.do("root", "POST", memories, object{"path": "/a", "content": "a secret text"}), 200, "")
	r.want("create", r.do("root", "POST", memories, object{"path": "/other", "content": "x"}), 200, "")
	for i := range 5 {
		r.want("change", r.do("root", "POST", memories+"/mem_1", object{"content": fmt.Sprint("text ", i)}), 200, "")
	}
	r.want("rename", r.do("root", "POST", memories+"/mem_1", object{"path": "/b"}), 200, "")
	r.want("remove", r.do("root", "DELETE", memories+"/mem_2", nil), 200, "")
	list := func(query string) (out []string) {
		for page := ""; ; {
			p := r.want(query, r.do("root", "GET", versions+"?"+query+page, nil), 200, "")
			for _, i := range p.field("data").([]any) {
				v := i.(map[string]any)
				out = append(out, fmt.Sprint(v["operation"], v["path"], v["content"]))
				if sum := v["content_sha256"]; (sum == nil) != (v["operation"] == "deleted" || v["redacted_at"] != nil) {
					t.Errorf("version: %v", v)
				}
			}
			next, ok := p.field("next_page").(string)
			if !ok {
				return out
			}
			page = "&page=" + next
		}
	}
	all := "[modified/b<nil> modified/a<nil> modified/a<nil> modified/a<nil> modified/a<nil> modified/a<nil> created/a<nil>]"
	for query, want := range map[string]string{
		"memory_id=mem_1":             all,
		"memory_id=mem_1&limit=1":     all,
		"memory_id=mem_2":             "[deleted/other<nil> created/other<nil>]",
		"memory_id=mem_3":             "[]",
		"limit=3":                     "[deleted/other<nil> modified/b<nil> modified/a<nil> modified/a<nil> modified/a<nil> modified/a<nil> modified/a<nil> created/other<nil> created/a<nil>]",
		"operation=created&view=full": "[created/otherx created/aa secret text]",
		"memory_id=mem_1&operation=modified&view=full&limit=9": "[modified/btext 4 modified/atext 4 modified/atext 3 modified/atext 2 modified/atext 1 modified/atext 0]",
		"api_key_id=apikey_ann":                                "[]",
		"api_key_id=apikey_root&operation=deleted":             "[deleted/other<nil>]",
		"session_id=x":                                           "[]",
		"service_account_id=x":                                   "[]",
		"created_at[gte]=2999-01-01T00:00:00Z":                   "[]",
		"created_at[lte]=2999-01-01T00:00:00Z&operation=deleted": "[deleted/other<nil>]",
	} {
		if got := fmt.Sprint(list(query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for _, bad := range []string{"memory_id=x", "memory_id=mem_0"} {
		r.want(bad, r.do("root", "GET", versions+"?"+bad, nil), 404, "not_found_error")
	}
	for _, bad := range []string{"page=x", "page=0", "operation=x", "created_at[gte]=1", "created_at[lte]=1"} {
		r.want(bad, r.do("root", "GET", versions+"?"+bad, nil), 400, "invalid_request_error")
	}

	first := versions + "/memver_1_1"
	if p := r.want("read", r.do("root", "GET", first, nil), 200, ""); p.field("content") != "a secret text" || p.field("created_by.api_key_id") != "apikey_root" {
		t.Errorf("version: %s", p.body)
	}
	if p := r.want("read", r.do("root", "GET", first+"?view=basic", nil), 200, ""); p.field("content") != nil || p.field("content_sha256") != op.SHA256("a secret text") {
		t.Errorf("version: %s", p.body)
	}
	head := r.want("read", r.do("root", "GET", memories+"/mem_1", nil), 200, "").field("memory_version_id").(string)
	r.want("redact the present text", r.do("root", "POST", versions+"/"+head+"/redact", nil), 400, "invalid_request_error")
	r.want("redact a removal", r.do("root", "POST", versions+"/"+r.do("root", "GET", versions+"?operation=deleted", nil).field("data.0.id").(string)+"/redact", nil), 400, "invalid_request_error")
	for range 2 {
		p := r.want("redact", r.do("root", "POST", first+"/redact", nil), 200, "")
		if at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(p.field("redacted_at"))); err != nil || time.Since(at) > time.Hour || p.field("path") != nil || p.field("content_size_bytes") != nil || p.field("operation") != "created" {
			t.Errorf("redacted version: %s", p.body)
		}
	}
	space := strings.TrimPrefix(store, storesPath+"/"+storePrefix)
	if p := r.want("version", r.do("root", "GET", "/v1/memories/1/history/1?space="+space, nil), 200, ""); p.field("redacted") == nil || p.field("content") != nil {
		t.Errorf("redacted version: %s", p.body)
	}
	if got := list("memory_id=mem_1&operation=created&view=full"); fmt.Sprint(got) != "[created<nil> <nil>]" {
		t.Errorf("redacted: %s", got)
	}
	err := filepath.WalkDir(r.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "a secret text") {
			t.Errorf("%s contains the redacted text", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, missing := range []string{"memver_1_99", "memver_1_2", "memver_9_1", "memver_1_0", "memver_1", "memver_1_01", "memver_x_1", "x"} {
		r.want(missing, r.do("root", "GET", versions+"/"+missing, nil), 404, "not_found_error")
		r.want(missing, r.do("root", "POST", versions+"/"+missing+"/redact", nil), 404, "not_found_error")
	}
}
