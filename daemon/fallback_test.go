package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/model"
	"crabmem/daemon/op"
)

// modelServer answers requests in memory: a model responds with its name, unless it has a
// status.
type modelServer struct {
	status map[string]int
	calls  []string
}

func (m *modelServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var q struct{ Model string }
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	m.calls = append(m.calls, q.Model)
	res := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: r}
	body := fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":%q},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":1,\"total_tokens\":11}}\n\ndata: [DONE]\n\n", q.Model)
	if s := m.status[q.Model]; s != 0 {
		res.StatusCode, body = s, `{"error":{"message":"no"}}`
		res.Header.Set("Content-Type", "application/json")
	}
	res.Body = io.NopCloser(strings.NewReader(body))
	return res, nil
}

// TestFallbackShown: the model that answered is in the events and in the usage, for a
// model with a rate limit, one that is down, a chain of three, and after the cooldown.
func TestFallbackShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &modelServer{status: map[string]int{}}
		l := &limited{t: t, fs: faultfs.NewMem()}
		l.configure("limits.cooldown = \"90s\"\n[system.crab]\nmodel = \"a\"\n[provider.p]\nbase_url = \"http://model.test/v1\"\nmodels = [\"a\", \"b\", \"c\"]\nmax_retries = 0\nfallback = [\"c\"]\n" +
			"[fallbacks]\na = [\"b\", \"c\"]\nb = [\"a\"]\n")
		d, err := Open(Options{Home: "/home/crab", FS: l.fs, Getenv: func(string) string { return "" }, Network: model.Network{Transport: net}})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		l.Daemon = d
		turn := 0
		want := func(answered, notice string, calls string) {
			t.Helper()
			turn++
			net.calls = nil
			var used, notices []string
			_, err := l.converse(t.Context(), &op.Message{Agent: "crab", Content: fmt.Sprint("turn ", turn)}, func(e agent.Event) error {
				switch e.Kind {
				case agent.Usage:
					used = append(used, e.Model)
				case agent.Notice:
					notices = append(notices, e.Note)
				}
				return nil
			})
			if err != nil || strings.Join(used, " ") != answered || strings.Join(notices, "; ") != notice || strings.Join(net.calls, " ") != calls {
				t.Errorf("turn %d: %v, answered %q, want %s; notices %q, want %q; called %q, want %q", turn, err, used, answered, notices, notice, net.calls, calls)
			}
		}
		want("a", "", "a")
		net.status["a"] = 429
		want("b", "model 'b' answers instead of 'a', which failed", "a b")
		net.status["b"] = 503
		want("c", "model 'c' answers instead of 'a', which failed", "b c") // a cools
		delete(net.status, "a")
		if err := d.Reload(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(89 * time.Second)
		want("c", "model 'c' answers instead of 'a', which failed", "b c")
		time.Sleep(time.Second)
		want("a", "", "a")
		net.status["a"] = 503
		want("c", "model 'c' answers instead of 'a', which failed", "a b c")
		if got := fmt.Sprint(l.tokens("model")); got != "map[a:22 b:11 c:33]" {
			t.Errorf("usage by model: %s", got)
		}
		if out, err := op.ReadUsage.Do(t.Context(), op.Local{On: l.on(&request{ctx: t.Context()})}, op.UsageFilter{By: "model"}); err != nil || out.Total.Runs != 6 || out.Total.Tokens != 66 || out.Sums[0].Runs != 0 {
			t.Errorf("%+v, %v", out, err)
		}
	})
}
