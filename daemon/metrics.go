package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/wire"

	"golang.org/x/net/netutil"
)

// metrics counts events of runs for Prometheus. The Prometheus library would add
// 2.9 MB and nine modules to the program for a text of forty lines; expvar writes
// JSON and has no labels or histograms.
type metrics struct {
	mu         sync.Mutex
	runs       counter // agent, outcome
	tokens     counter // agent, kind
	tools      counter // tool, outcome
	violations counter // kind
	took       [len(tookBounds) + 1]uint64
	tookSum    time.Duration
}

// tookBounds are the seconds by which runs are counted; longer runs count in the last bucket.
var tookBounds = [...]float64{0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// A counter maps values of two labels to a count.
type counter map[[2]string]uint64

// maxSeries limits the entries of a counter, and maxLabel the bytes of a label:
// models choose the names of tools.
const (
	maxSeries = 500
	maxLabel  = 128
)

func (c *counter) add(a, b string, n uint64) {
	if *c == nil {
		*c = make(counter)
	}
	if len(a) > maxLabel {
		a = "other"
	}
	key := [2]string{a, b}
	if _, ok := (*c)[key]; !ok {
		if len(*c) >= maxSeries {
			a = "other"
		}
		key[0] = strings.Clone(a) // a may be a slice of a long string
	}
	(*c)[key] += n
}

var outcomes = map[agent.Stop]string{
	agent.Answered: "answered", agent.Exhausted: "exhausted", agent.Cancelled: "cancelled", agent.Failed: "failed",
}

// event counts an event of a run.
func (m *metrics) event(t *agent.Turn, e agent.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Kind {
	case agent.Usage:
		m.tokens.add(t.Agent.Name, "prompt", uint64(max(e.Usage.Prompt, 0)))
		m.tokens.add(t.Agent.Name, "completion", uint64(max(e.Usage.Completion, 0)))
	case agent.ToolResult:
		outcome := "done"
		if e.Result.Failed {
			outcome = "failed"
		}
		m.tools.add(e.Tool, outcome, 1)
	case agent.Refused:
		m.violations.add(e.Refused.Kind, "", 1)
	case agent.Done:
		m.runs.add(t.Agent.Name, outcomes[e.Stop], 1)
	}
}

// ran counts a run by its duration.
func (m *metrics) ran(took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, _ := slices.BinarySearch(tookBounds[:], took.Seconds())
	m.took[i]++
	m.tookSum += took
}

// exposition writes metrics in the text format of Prometheus.
type exposition struct{ bytes.Buffer }

func (x *exposition) head(name, kind, help string) {
	x.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

// sample writes a line. labels alternates names and values; sample omits a label
// with an empty name.
func (x *exposition) sample(name string, value float64, labels ...string) {
	x.WriteString(name)
	sep := "{"
	for i := 0; i+1 < len(labels); i += 2 {
		if labels[i] != "" {
			x.WriteString(sep + labels[i] + `="` + labelText.Replace(strings.ToValidUTF8(labels[i+1], "\ufffd")) + `"`)
			sep = ","
		}
	}
	if sep == "," {
		x.WriteString("}")
	}
	x.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}

var labelText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (x *exposition) gauge(name, help string, value float64) {
	x.head(name, "gauge", help)
	x.sample(name, value)
}

// counters writes a counter in the order of its labels.
func (x *exposition) counters(name, help, a, b string, c counter) {
	x.head(name, "counter", help)
	byLabels := func(p, q [2]string) int { return slices.Compare(p[:], q[:]) }
	for _, k := range slices.SortedFunc(maps.Keys(c), byLabels) {
		x.sample(name, float64(c[k]), a, k[0], b, k[1])
	}
}

// write writes the counters.
func (m *metrics) write(x *exposition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x.counters("crabmem_runs_total", "Runs of agents that have ended.", "agent", "outcome", m.runs)
	x.head("crabmem_run_seconds", "histogram", "Duration of runs, excluding the wait for the run slot.")
	n := uint64(0)
	for i, bound := range tookBounds {
		n += m.took[i]
		x.sample("crabmem_run_seconds_bucket", float64(n), "le", strconv.FormatFloat(bound, 'g', -1, 64))
	}
	n += m.took[len(tookBounds)]
	x.sample("crabmem_run_seconds_bucket", float64(n), "le", "+Inf")
	x.sample("crabmem_run_seconds_sum", m.tookSum.Seconds())
	x.sample("crabmem_run_seconds_count", float64(n))
	x.counters("crabmem_tokens_total", "Tokens that models read and wrote.", "agent", "kind", m.tokens)
	x.counters("crabmem_tool_calls_total", "Calls of tools that have ended.", "tool", "outcome", m.tools)
	x.counters("crabmem_scope_violations_total", "Calls outside the scope of their agent.", "kind", "", m.violations)
}

// metricsText returns the current values of all metrics.
func (d *Daemon) metricsText(server *wire.Server) []byte {
	var x exposition
	d.metrics.write(&x)
	st := d.store.Stats()
	x.head("crabmem_store_entries", "gauge", "Entries of the store.")
	x.sample("crabmem_store_entries", float64(st.Archives), "kind", "archive")
	x.sample("crabmem_store_entries", float64(st.Notes), "kind", "note")
	x.gauge("crabmem_store_content_bytes", "Bytes of the texts of entries.", float64(st.ContentBytes))
	x.gauge("crabmem_store_snapshot_bytes", "Bytes of the store's file.", float64(st.SnapshotBytes))
	x.gauge("crabmem_store_log_bytes", "Bytes of the store's log.", float64(st.LogBytes))
	now := d.figures()
	x.gauge("crabmem_sessions_live", "Loaded sessions.", float64(now.LoadedSessions))
	x.gauge("crabmem_sessions_active", "Sessions with an active run.", float64(now.ActiveSessions))
	x.gauge("crabmem_runs_waiting", "Runs that wait for the run slot of their session.", float64(now.WaitingRuns))
	x.gauge("crabmem_connections", "Connections of clients.", float64(server.Conns()))
	x.gauge("crabmem_subscribers", "Subscribers of all events.", float64(now.Subscribers))
	x.head("crabmem_build_info", "gauge", "Always 1.")
	x.sample("crabmem_build_info", 1, "version", d.opts.Version, "go", runtime.Version())
	x.gauge("process_start_time_seconds", "Start time of the daemon, in seconds since 1970.", float64(d.started.UnixMilli())/1000)
	x.runtime()
	return x.Bytes()
}

// runtime writes figures of Go's runtime under the names that the Prometheus
// library uses.
func (x *exposition) runtime() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var gc debug.GCStats
	debug.ReadGCStats(&gc)
	x.gauge("go_goroutines", "Goroutines.", float64(runtime.NumGoroutine()))
	x.gauge("go_memstats_heap_alloc_bytes", "Bytes of the heap in use.", float64(m.HeapAlloc))
	x.gauge("go_memstats_sys_bytes", "Bytes from the system.", float64(m.Sys))
	x.head("go_memstats_alloc_bytes_total", "counter", "Bytes allocated, in all.")
	x.sample("go_memstats_alloc_bytes_total", float64(m.TotalAlloc))
	x.head("go_gc_duration_seconds", "summary", "Pauses of the garbage collector.")
	x.sample("go_gc_duration_seconds_sum", gc.PauseTotal.Seconds())
	x.sample("go_gc_duration_seconds_count", float64(gc.NumGC))
}

// Limits of the metrics server.
const (
	metricsConns = 16
	metricsTime  = 10 * time.Second
)

// serveMetrics serves /metrics on a loopback address until ctx ends.
func (d *Daemon) serveMetrics(ctx context.Context, l net.Listener, server *wire.Server) error {
	s := &http.Server{
		Handler: d.metricsHandler(server), ReadHeaderTimeout: metricsTime, ReadTimeout: metricsTime, WriteTimeout: metricsTime, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	d.log.Info("metrics", "address", "http://"+l.Addr().String()+"/metrics")
	if err := s.Serve(netutil.LimitListener(l, metricsConns)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// metricsHandler serves programs on this machine. It refuses web pages, also those
// that resolve their own host name to a loopback address.
func (d *Daemon) metricsHandler(server *wire.Server) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if !localHost(r.Host) || r.Header.Get("Origin") != "" {
			http.Error(w, "metrics are available only to local programs: Host must be a loopback address", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Write(d.metricsText(server)) //nolint:errcheck // the client disconnected
	})
	return mux
}

// localHost reports whether a Host header names this machine by its loopback.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost"
}
