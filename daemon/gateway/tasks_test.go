package gateway

import (
	"fmt"
	"testing"
)

// TestTasks creates and changes tasks. A title that exists, a status that is not the next one,
// and a secret are refused. Each identity has a board of its own, and an untrusted one has none.
func TestTasks(t *testing.T) {
	r := newRig(t)
	const secret = "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"
	p := r.want("create", r.do("root", "POST", "/v1/tasks", object{"title": "ship it", "subtasks": []string{"tag"}}), 201, "")
	at := fmt.Sprint("/v1/tasks/", p.field("number"))
	r.want("the same title", r.do("root", "POST", "/v1/tasks", object{"title": "ship it"}), 409, "exists")
	r.want("a secret", r.do("root", "POST", "/v1/tasks", object{"title": "other", "description": secret}), 422, "secret")
	r.want("change", r.do("root", "PATCH", at, object{"status": "ready", "complete": 1}), 200, "")
	r.want("no step", r.do("root", "PATCH", at, object{"status": "done"}), 409, "conflict")
	r.want("a secret", r.do("root", "PATCH", at, object{"description": secret}), 422, "secret")
	if p := r.want("show", r.do("root", "GET", at, nil), 200, ""); p.field("status") != "ready" || p.field("subtasks.0.done") != true {
		t.Errorf("show: %s", p.body)
	}
	if p := r.want("list", r.do("ann", "GET", "/v1/tasks", nil), 200, ""); p.field("total") != 0.0 {
		t.Errorf("the list of ann: %s", p.body)
	}
	r.want("show of ann", r.do("ann", "GET", at, nil), 404, "not_found")
	r.want("list of eve", r.do("eve", "GET", "/v1/tasks", nil), 403, "scope")
}
