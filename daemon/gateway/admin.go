package gateway

import (
	"io"
	"net/http"

	"crabmem/daemon/trust"
)

var adminRoutes = []route{
	{method: "GET", path: "/metrics", summary: "Report counters of the gateway, for Prometheus", out: of[string](), kind: textKind, status: 200, run: (*call).readMetrics},
}

// textKind is the kind of a response for Prometheus.
const textKind = "text/plain; version=0.0.4; charset=utf-8"

// readMetrics reports the counters to an admin.
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
