package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVersions lists and reads the versions of an entry, also after its removal.
func TestVersions(t *testing.T) {
	r := newRig(t)
	path, etag := r.create("ann", "deploy", "version 1")
	r.create("ann", "other", "text")
	for n := 2; n <= 7; n++ {
		p := r.want("put", r.do("ann", "PUT", path, object{"content": fmt.Sprint("version ", n)}, "If-Match", etag), 200, "")
		etag = p.Header.Get("ETag")
	}
	check := func(types ...string) {
		t.Helper()
		var got []string
		for after := "0"; after != ""; {
			p := r.want("list", r.do("ann", "GET", path+"/history?limit=3&after="+after, nil), 200, "")
			items := p.field("items").([]any)
			if len(items) > 3 {
				t.Errorf("a page has %d versions", len(items))
			}
			for _, i := range items {
				v := i.(map[string]any)
				got = append(got, v["type"].(string))
				if v["content"] != nil || v["name"] != "deploy" || fmt.Sprint(v["by"]) != "map[client:http]" || v["bytes"] != 9.0 || v["kind"] != "note" || v["time"] == nil {
					t.Errorf("version: %v", v)
				}
				one := r.want("read", r.do("ann", "GET", fmt.Sprintf("%s/history/%v", path, v["change"]), nil), 200, "")
				content, _ := one.field("content").(string)
				if want := fmt.Sprint("version ", len(types)-len(got)+1); content != want && v["type"] != "remove" || one.field("change") != v["change"] {
					t.Errorf("version %v: %s, want %s", v["change"], one.body, want)
				}
			}
			after, _ = p.field("next").(string)
		}
		if fmt.Sprint(got) != fmt.Sprint(types) {
			t.Errorf("versions %v, want %v", got, types)
		}
	}
	check("update", "update", "update", "update", "update", "update", "add")
	r.want("remove", r.do("ann", "DELETE", path, nil, "If-Match", etag), 204, "")
	check("remove", "update", "update", "update", "update", "update", "update", "add")

	for _, of := range []string{"/v1/memories/9/history", "/v1/memories/x/history", "/v1/memories/9/history/1", path + "/history/2", path + "/history/0", path + "/history/x", "/v1/memories/0/history/1"} {
		r.want(of, r.do("ann", "GET", of, nil), 404, "not_found")
	}
	for _, of := range []string{path + "/history", path + "/history/1"} {
		r.want("bob", r.do("bob", "GET", of, nil), 404, "not_found")
		r.want("bob in the space of ann", r.do("bob", "GET", of+"?space=api-ann", nil), 403, "scope")
		r.want("eve", r.do("eve", "GET", of, nil), 403, "scope")
	}
}

// TestHistoryDamaged lists versions without the damaged part of the history, and without
// the path of the home.
func TestHistoryDamaged(t *testing.T) {
	r := newRig(t)
	path, etag := r.create("root", "deploy", "1")
	r.want("put", r.do("root", "PUT", path, object{"content": "2"}, "If-Match", etag), 200, "")
	r.daemon() // its stop writes the history
	files, err := filepath.Glob(filepath.Join(r.home, "memory.db-history", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.startDaemon()
	p := r.want("list", r.do("root", "GET", path+"/history", nil), 200, "")
	if damaged, _ := p.field("damaged").(string); !strings.Contains(damaged, "HOME/memory.db-history/") || strings.Contains(damaged, r.home) {
		t.Errorf("damaged: %s", p.body)
	}
}
