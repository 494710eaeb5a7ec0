package gateway

import (
	"io"
	"net/http"
	"strconv"

	"crabmem/daemon/client"
	"crabmem/daemon/cron"
	"crabmem/daemon/trust"
)

// adminRoutes are for keys that are admins. The daemon refuses others, except for
// /metrics, which is about the gateway.
var adminRoutes = []route{
	{method: "GET", path: "/v1/crons", summary: "List the cron entries", out: of[[]Cron](), status: 200, run: (*call).listCrons},
	{method: "POST", path: "/v1/crons", summary: "Add a cron entry", in: of[newCron](), out: of[Cron](), status: 201, run: with((*call).addCron)},
	{method: "DELETE", path: "/v1/crons/{id}", summary: "Remove a cron entry", status: 204, run: (*call).removeCron},
	{method: "GET", path: "/metrics", summary: "Report counters of the gateway, for Prometheus", out: of[string](), kind: textKind, status: 200, run: (*call).readMetrics},
}

// textKind is the kind of a response for Prometheus.
const textKind = "text/plain; version=0.0.4; charset=utf-8"

// Cron is an entry of the cron table.
type Cron struct {
	ID         uint64 `json:"id"`
	Schedule   string `json:"schedule"`
	Skill      string `json:"skill"`
	Args       string `json:"args,omitempty"`
	Session    string `json:"session" jsonschema:"ID of the session, or new: each run begins one"`
	Timezone   string `json:"timezone,omitempty"`
	QuietStart string `json:"quiet_start,omitempty"`
	QuietEnd   string `json:"quiet_end,omitempty"`
	Once       bool   `json:"once"`
	NextAt     string `json:"next_at,omitempty" jsonschema:"RFC 3339; absent: never"`
	Failures   int    `json:"failures" jsonschema:"in a row"`
	Stopped    bool   `json:"stopped" jsonschema:"after too many failures"`
}

type newCron struct {
	Schedule   string `json:"schedule" jsonschema:"five fields, as in 0 9 * * 1-5"`
	Skill      string `json:"skill"`
	Args       string `json:"args,omitempty"`
	Session    string `json:"session,omitempty" jsonschema:"ID of the session; absent: each run begins one"`
	Timezone   string `json:"timezone,omitempty" jsonschema:"such as Europe/Berlin; absent: the daemon's"`
	QuietStart string `json:"quiet_start,omitempty" jsonschema:"HH:MM: no runs from then on"`
	QuietEnd   string `json:"quiet_end,omitempty" jsonschema:"HH:MM: runs again"`
	Once       bool   `json:"once,omitempty" jsonschema:"remove the entry after its first run"`
}

func cronOf(c *client.Cron) Cron {
	return Cron{ID: c.ID, Schedule: c.Schedule, Skill: c.Skill, Args: c.Args, Session: c.SessionFile, Timezone: c.Timezone, QuietStart: c.QuietStart,
		QuietEnd: c.QuietEnd, Once: c.Once, NextAt: c.NextAt, Failures: c.Failures, Stopped: c.Stopped}
}

func (c *call) listCrons() (any, error) {
	all, err := c.daemon.Crons(c.r.Context())
	list := []Cron{}
	for i := range all {
		list = append(list, cronOf(&all[i]))
	}
	return list, err
}

func (c *call) addCron(in *newCron) (any, error) {
	e := cron.Cron{Schedule: in.Schedule, Skill: in.Skill, Args: in.Args, SessionFile: in.Session, Timezone: in.Timezone, QuietStart: in.QuietStart,
		QuietEnd: in.QuietEnd, Once: in.Once}
	if e.SessionFile == "" {
		e.SessionFile = cron.NewSession
	}
	added, err := c.daemon.CreateCron(c.r.Context(), e)
	return cronOf(&added), err
}

func (c *call) removeCron() (any, error) {
	id, err := strconv.ParseUint(c.r.PathValue("id"), 10, 53)
	if err != nil {
		return nil, problemf(http.StatusNotFound, "not_found", "no cron entry %s", printable(c.r.PathValue("id"))).fix("GET /v1/crons lists the entries")
	}
	return nil, c.daemon.DeleteCron(c.r.Context(), id)
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
