package gateway

import (
	"context"
	"path/filepath"
	"time"

	"crabmem/daemon/mcp"
	"crabmem/daemon/op"
)

var generalRoutes = []route{
	{method: "GET", path: "/health", summary: "Report whether gateway and daemon answer", open: true, out: of[health](), status: 200, run: (*call).health},
	{method: "GET", path: "/api-docs/openapi.json", summary: "Describe this interface", open: true, out: of[map[string]any](), status: 200, run: (*call).openAPI},
	{method: "GET", path: "/v1/components", summary: "List the programs that provide tools to agents", out: of[[]Component](), status: 200, run: (*call).listComponents},
	{method: "GET", path: "/v1/status", summary: "Report figures of the daemon", out: of[status](), status: 200, run: (*call).status},
}

type health struct {
	Status  string `json:"status" jsonschema:"ok, or no_daemon"`
	Version string `json:"version" jsonschema:"of the gateway"`
	Home    string `json:"home" jsonschema:"identifies the home directory"`
}

// Component is a program that provides tools to agents.
type Component struct {
	Name  string `json:"name"`
	State string `json:"state" jsonschema:"running or stale"`
}

// listComponents reads the port files of the home.
func (c *call) listComponents() (any, error) {
	all, err := mcp.Components(c.r.Context(), c.g.o.FS, filepath.Join(c.g.o.Home, "run"), func(file string, err error) {
		c.g.o.Log.Warn("not a component", "file", file, "error", err)
	})
	list := make([]Component, len(all))
	for i, p := range all {
		list[i] = Component{p.Name, p.State}
	}
	return list, err
}

type status struct {
	Version    string      `json:"version" jsonschema:"of the daemon"`
	Gateway    string      `json:"gateway" jsonschema:"version of the gateway"`
	UptimeSecs int64       `json:"uptime_secs"`
	Agents     int         `json:"agents"`
	Sessions   int         `json:"sessions" jsonschema:"loaded"`
	Active     int         `json:"active" jsonschema:"sessions with a run"`
	Waiting    int         `json:"waiting" jsonschema:"runs that wait for another run of their session"`
	Models     []modelInfo `json:"models"`
}

type modelInfo struct {
	Name         string `json:"name"`
	Provider     string `json:"provider"`
	ContextLimit int    `json:"context_limit" jsonschema:"tokens; 0: unknown"`
	Active       bool   `json:"active"`
}

// pingTime is how long the daemon has to answer a request for the gateway's health.
const pingTime = 2 * time.Second

func (c *call) health() (any, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), pingTime)
	defer cancel()
	h := health{Status: "ok", Version: c.g.o.Version, Home: HomeID(c.g.o.FS, c.g.o.Home)}
	if c.g.pinger.Ping(ctx) != nil {
		h.Status = "no_daemon"
	}
	return h, nil
}

func (c *call) openAPI() (any, error) { return raw(c.g.document), nil }

func (c *call) status() (any, error) {
	st, err := op.ReadDaemonStats.Do(c.r.Context(), c.daemon, op.None{})
	if err != nil {
		return nil, err
	}
	out := status{Version: st.Version, Gateway: c.g.o.Version, UptimeSecs: int64(st.UptimeSecs), Agents: st.Agents, Sessions: st.LoadedSessions,
		Active: st.ActiveSessions, Waiting: st.WaitingRuns, Models: []modelInfo{}}
	models, err := op.ListModels.Do(c.r.Context(), c.daemon, op.None{})
	for _, m := range models.Models {
		out.Models = append(out.Models, modelInfo{m.Name, m.Provider, m.ContextLimit, m.Active})
	}
	return out, err
}
