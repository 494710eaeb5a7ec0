package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// metrics counts responses. The labels are routes and statuses: no text of a client is
// one.
type metrics struct {
	mu        sync.Mutex
	responses map[routeStatus]uint64
	took      map[string]time.Duration // by path
}

type routeStatus struct {
	method, path string
	status       int
}

// countedWriter is a ResponseWriter that keeps the status.
type countedWriter struct {
	http.ResponseWriter
	status int
}

func (w *countedWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the writer for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// count counts a response. A status of 0 is that of a response without WriteHeader.
func (m *metrics) count(r *route, status int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.responses == nil {
		m.responses, m.took = make(map[routeStatus]uint64), make(map[string]time.Duration)
	}
	m.responses[routeStatus{r.method, r.path, max(status, http.StatusOK)}]++
	m.took[r.path] += took
}

// text returns the counters in the text format of Prometheus.
func (m *metrics) text(g *Gateway) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	b.WriteString("# HELP crabmem_gateway_responses_total Responses by route and status.\n# TYPE crabmem_gateway_responses_total counter\n")
	keys := slices.SortedFunc(maps.Keys(m.responses), func(a, b routeStatus) int {
		return strings.Compare(fmt.Sprint(a.path, a.method, a.status), fmt.Sprint(b.path, b.method, b.status))
	})
	for _, k := range keys {
		fmt.Fprintf(&b, "crabmem_gateway_responses_total{method=%q,path=%q,status=\"%d\"} %d\n", k.method, k.path, k.status, m.responses[k])
	}
	b.WriteString("# HELP crabmem_gateway_seconds_total Seconds until the responses ended, by route.\n# TYPE crabmem_gateway_seconds_total counter\n")
	for _, path := range slices.Sorted(maps.Keys(m.took)) {
		fmt.Fprintf(&b, "crabmem_gateway_seconds_total{path=%q} %g\n", path, m.took[path].Seconds())
	}
	for _, one := range []struct {
		name, help string
		n          int
	}{{"calls", "Calls that are active.", int(g.calls.occupied())}, {"streams", "Streams that are open.", len(g.streams)}} {
		fmt.Fprintf(&b, "# HELP crabmem_gateway_%s %s\n# TYPE crabmem_gateway_%s gauge\ncrabmem_gateway_%s %d\n", one.name, one.help, one.name, one.name, one.n)
	}
	return b.String()
}
