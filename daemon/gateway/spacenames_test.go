package gateway

import (
	"regexp"
	"strings"
	"testing"
)

// TestSpacesByKey names the spaces of keys by their identities, and reads no hash.
func TestSpacesByKey(t *testing.T) {
	r := newRig(t)
	r.create("ann", "tea", "green")
	hash := regexp.MustCompile(`[0-9a-f]{32}`)
	for _, who := range []string{"ann", "root"} {
		for _, name := range []string{"api:ann", "ann"} {
			if p := r.want(who+" "+name, r.do(who, "GET", "/v1/memories?space="+name, nil), 200, ""); p.field("items.0.name") != "tea" {
				t.Errorf("%s reads %s: %s", who, name, p.body)
			}
		}
	}
	for _, name := range []string{"api:ann", "ann", "api:nobody", "nobody"} {
		p := r.want("bob "+name, r.do("bob", "GET", "/v1/memories?space="+name, nil), 403, "scope")
		if !strings.HasSuffix(p.field("detail").(string), " may not read the space "+name) {
			t.Errorf("bob reads %s: %s", name, p.body)
		}
	}
	p := r.want("a missing space", r.do("root", "GET", "/v1/memories?space=api:none", nil), 404, "not_found")
	if hash.Match(p.body) {
		t.Errorf("a missing space: %s", p.body)
	}
	p = r.do("root", "GET", "/v1/memory_stores", nil)
	if !strings.Contains(string(p.body), `"name":"api:ann"`) {
		t.Errorf("stores: %s", p.body)
	}
	if p := r.do("ann", "GET", "/v1/memory_stores", nil); p.field("data.0.name") != "api:ann" {
		t.Errorf("stores of ann: %s", p.body)
	}
}
