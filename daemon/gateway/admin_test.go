package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// skill writes a skill to the home.
func (r *rig) skill(name string) {
	r.t.Helper()
	dir := filepath.Join(r.home, "skills", name)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("---\nname: "+name+"\ndescription: does it\n---\nDo it.\n"), 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestCrons adds, lists, and removes cron entries. Only an admin may.
func TestCrons(t *testing.T) {
	r := newRig(t)
	r.skill("report")
	body := object{"schedule": "0 9 * * 1-5", "skill": "report", "args": "short", "timezone": "Europe/Berlin"}
	p := r.want("add", r.do("root", "POST", "/v1/crons", body), 201, "")
	if p.field("session") != "new" || p.field("next_at") == nil || p.field("args") != "short" {
		t.Errorf("add: %s", p.body)
	}
	at := fmt.Sprint("/v1/crons/", p.field("id"))
	if p := r.want("list", r.do("root", "GET", "/v1/crons", nil), 200, ""); p.field("0.skill") != "report" || p.field("1") != nil {
		t.Errorf("list: %s", p.body)
	}
	r.want("a bad schedule", r.do("root", "POST", "/v1/crons", object{"schedule": "soon", "skill": "report"}), 400, "invalid")
	if p := r.want("an unknown skill", r.do("root", "POST", "/v1/crons", object{"schedule": "0 9 * * *", "skill": "reprot"}), 404, "unknown_skill"); !strings.Contains(string(p.body), "did you mean report?") {
		t.Errorf("an unknown skill: %s", p.body)
	}
	for _, who := range []string{"ann", "eve"} {
		for what, p := range map[string]*response{"list": r.do(who, "GET", "/v1/crons", nil), "add": r.do(who, "POST", "/v1/crons", body), "remove": r.do(who, "DELETE", at, nil),
			"metrics": r.do(who, "GET", "/metrics", nil)} {
			r.want(who+": "+what, p, 403, "scope")
		}
	}
	r.want("remove", r.do("root", "DELETE", at, nil), 204, "")
	for _, id := range []string{"999", "x", "-1"} {
		r.want("remove "+id, r.do("root", "DELETE", "/v1/crons/"+id, nil), 404, "not_found")
	}
}

// TestMetrics counts responses by routes, which are not what clients sent.
func TestMetrics(t *testing.T) {
	r := newRig(t)
	path, _ := r.create("ann", "secret name", "x")
	r.do("ann", "GET", path, nil)
	r.do("ann", "GET", "/v1/memories/999", nil)
	r.do("", "GET", "/v1/memories", nil)
	p := r.want("metrics", r.do("root", "GET", "/metrics", nil), 200, "")
	for _, want := range []string{`responses_total{method="GET",path="/v1/memories/{id}",status="200"} 1`, `responses_total{method="GET",path="/v1/memories/{id}",status="404"} 1`,
		`responses_total{method="POST",path="/v1/memories",status="201"} 1`, `responses_total{method="GET",path="/v1/memories",status="401"} 1`, "crabmem_gateway_calls 1", "crabmem_gateway_streams 0"} {
		if !strings.Contains(string(p.body), want) {
			t.Errorf("no %s in\n%s", want, p.body)
		}
	}
	if strings.Contains(string(p.body), "999") || strings.Contains(string(p.body), "secret") {
		t.Errorf("texts of clients:\n%s", p.body)
	}
}
