package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"crabmem/daemon/agent"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/wire/pb"
	"crabmem/fuzz/race"
)

// scrape gets the metrics with a Host header, and an Origin where there is one.
func scrape(t *testing.T, method, address, host, origin string) (code int, text string) {
	t.Helper()
	q, err := http.NewRequestWithContext(context.Background(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Host = host
	if origin != "" {
		q.Header.Set("Origin", origin)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	r, err := tr.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode == http.StatusOK && r.Header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("Content-Type %q", r.Header.Get("Content-Type"))
	}
	return r.StatusCode, string(b)
}

// The lines that there may be in the text format.
var metricLine = regexp.MustCompile(`^(# HELP [a-z_]+ [^\n]+|# TYPE [a-z_]+ (counter|gauge|histogram|summary)|[a-z_]+(\{[a-z]+="([^"\\\n]|\\["\\n])*"(,[a-z]+="([^"\\\n]|\\["\\n])*")*\})? [0-9.e+-]+)$`)

// checkExposition checks every line of the text format: samples follow their
// head, and each occurs once.
func checkExposition(t *testing.T, text string) {
	t.Helper()
	seen := make(map[string]bool)
	family := ""
	for line := range strings.Lines(text) {
		line, ended := strings.CutSuffix(line, "\n")
		if !ended || !metricLine.MatchString(line) {
			t.Errorf("not a line of the format: %q", line)
			continue
		}
		key := line[:strings.LastIndexByte(line, ' ')]
		if seen[key] {
			t.Errorf("twice: %s", key)
		}
		seen[key] = true
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			family, _, _ = strings.Cut(rest, " ")
		} else if !strings.HasPrefix(strings.TrimPrefix(line, "# TYPE "), family) {
			t.Errorf("%q is in family %s", line, family)
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d lines", len(seen))
	}
}

func TestMetrics(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	m := modeltest.New(t, modeltest.Call("recall", `{"query":"ports"}`).Usage(100, 7), modeltest.Call("nosuch", `{}`).Usage(200, 3),
		modeltest.Say("6688").Usage(300, 2), modeltest.Status(400, "no"))
	s := serve(t, home(t), scripted(m)+"[metrics]\nlisten = \""+address+"\"\n")
	s.one(send(&pb.SendMsg{Content: "which port?"}))
	s.one(send(&pb.SendMsg{Content: "again?"}))
	url := "http://" + address + "/metrics"
	code, text := scrape(t, http.MethodGet, url, address, "")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	checkExposition(t, text)
	for _, line := range []string{
		`crabmem_runs_total{agent="crab",outcome="answered"} 1`,
		`crabmem_runs_total{agent="crab",outcome="failed"} 1`,
		`crabmem_run_seconds_count 2`,
		`crabmem_tokens_total{agent="crab",kind="prompt"} 600`,
		`crabmem_tokens_total{agent="crab",kind="completion"} 12`,
		`crabmem_run_seconds_bucket{le="+Inf"} 2`,
		`crabmem_tool_calls_total{tool="recall",outcome="done"} 1`,
		`crabmem_tool_calls_total{tool="nosuch",outcome="failed"} 1`,
		`crabmem_store_entries{kind="note"} 0`,
		`crabmem_sessions_live 1`,
		`crabmem_sessions_active 0`,
		`crabmem_subscribers 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	for _, test := range []struct {
		method, path, host, origin string
		want                       int
	}{
		{http.MethodGet, "", "localhost:1", "", http.StatusOK},
		{http.MethodGet, "", "[::1]:1", "", http.StatusOK},
		{http.MethodGet, "", "rebound.example:9688", "", http.StatusForbidden},
		{http.MethodGet, "", "127.0.0.1.example", "", http.StatusForbidden},
		{http.MethodGet, "", address, "http://page.example", http.StatusForbidden},
		{http.MethodPost, "", address, "", http.StatusMethodNotAllowed},
		{http.MethodGet, "/x", address, "", http.StatusNotFound},
	} {
		if code, _ := scrape(t, test.method, url+test.path, test.host, test.origin); code != test.want {
			t.Errorf("%+v: %d", test, code)
		}
	}
	second, err := Open(Options{Home: home(t), Getenv: s.opts.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	second.setup().config.Metrics.Listen = address
	if err := second.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "another program uses the port") {
		t.Errorf("a port that is taken: %v", err)
	}
	s.stop()
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("the daemon has ended, and its metrics have not")
	}
}

// TestMetricsOff has no listener without an address.
func TestMetricsOff(t *testing.T) {
	s := serve(t, home(t), "")
	if s.setup().config.Metrics.Listen != "" {
		t.Error("metrics are on by default")
	}
}

// TestMetricsBounded counts invented names of a model: their number is limited,
// and they cannot break the format.
func TestMetricsBounded(t *testing.T) {
	race.Skip(t)
	var m metrics
	turn := &agent.Turn{Agent: &agent.Agent{Name: "a\"b\\c\nd\xff"}}
	for n := range 10 * maxSeries {
		m.event(turn, agent.Event{Kind: agent.ToolResult, Tool: fmt.Sprint("made up ", n), Result: &agent.Result{}})
	}
	var long metrics
	name := strings.Repeat("x", 1<<20)
	for n := range maxSeries {
		long.event(turn, agent.Event{Kind: agent.ToolResult, Tool: fmt.Sprint(n, name), Result: &agent.Result{}})
	}
	var y exposition
	if long.write(&y); y.Len() > maxSeries*2*maxLabel {
		t.Errorf("%d names of 1 MiB are kept in %d bytes", maxSeries, y.Len())
	}
	m.event(turn, agent.Event{Kind: agent.Done, Stop: agent.Answered})
	if len(m.tools) > maxSeries+1 || m.tools[[2]string{"other", "done"}] != 9*maxSeries {
		t.Errorf("%d names, %d others", len(m.tools), m.tools[[2]string{"other", "done"}])
	}
	var x exposition
	m.write(&x)
	checkExposition(t, x.String())
	if !strings.Contains(x.String(), `crabmem_runs_total{agent="a\"b\\c\nd`+"\ufffd"+`",outcome="answered"} 1`) {
		t.Error("the name of the agent is lost")
	}
}
