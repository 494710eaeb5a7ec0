package gateway

import (
	"io"
	"net/http"
	"strconv"

	"crabmem/daemon/op"
	"crabmem/daemon/trust"
)

// adminRoutes are for keys that are admins. The daemon refuses others, except for
// /metrics, which is about the gateway.
var adminRoutes = []route{
	{method: "GET", path: "/v1/crons", summary: "List the cron entries", out: of[[]op.Cron](), status: 200, run: (*call).listCrons},
	{method: "POST", path: "/v1/crons", summary: "Add a cron entry", in: of[op.NewCron](), out: of[op.Cron](), status: 201, run: with((*call).addCron)},
	{method: "DELETE", path: "/v1/crons/{id}", summary: "Remove a cron entry", status: 204, run: (*call).removeCron},
	{method: "GET", path: "/metrics", summary: "Report counters of the gateway, for Prometheus", out: of[string](), kind: textKind, status: 200, run: (*call).readMetrics},
}

// textKind is the kind of a response for Prometheus.
const textKind = "text/plain; version=0.0.4; charset=utf-8"

func (c *call) listCrons() (any, error) {
	return op.ListCrons.Do(c.r.Context(), c.daemon, op.None{})
}

func (c *call) addCron(in *op.NewCron) (any, error) {
	return op.AddCron.Do(c.r.Context(), c.daemon, *in)
}

func (c *call) removeCron() (any, error) {
	id, err := strconv.ParseUint(c.r.PathValue("id"), 10, 53)
	if err != nil {
		return nil, problemf(http.StatusNotFound, "not_found", "no cron entry %s", printable(c.r.PathValue("id"))).fix("GET /v1/crons lists the entries")
	}
	_, err = op.RemoveCron.Do(c.r.Context(), c.daemon, op.CronID{ID: id})
	return nil, err
}

func (c *call) readMetrics() (any, error) {
	d, err := c.daemon.Hello(c.r.Context())
	if err != nil {
		return nil, err
	}
	if d.Trust != string(trust.Admin) {
		return nil, problemf(http.StatusForbidden, "scope", "only an admin may read the counters").fix("ask the owner of this machine, who sets trust in [origins] of config.toml")
	}
	c.w.Header().Set("Content-Type", textKind)
	_, _ = io.WriteString(c.w, c.g.metrics.text(c.g)) // an error: the client is gone
	return nil, errSent
}
