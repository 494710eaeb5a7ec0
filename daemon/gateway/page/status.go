package page

import (
	"net/http"
	"path/filepath"
	"time"

	"crabmem/daemon/mcp"
	"crabmem/daemon/op"
)

type statusView struct {
	Gateway string
	Daemon  op.DaemonStats
	Uptime  time.Duration
	Store   op.StoreStats
	Agents  []op.Agent
	Models  []op.Model
	Crons   []op.Cron
	Parts   []mcp.Component
}

func (v *visit) status() error {
	ctx, d := v.r.Context(), v.store()
	out := statusView{Gateway: v.p.o.Version}
	var err error
	if out.Daemon, err = op.ReadDaemonStats.Do(ctx, d, op.None{}); err != nil {
		return err
	}
	out.Uptime = time.Duration(out.Daemon.UptimeSecs) * time.Second
	if out.Store, err = op.ReadStats.Do(ctx, d, op.StatsFilter{}); err != nil {
		return err
	}
	if out.Agents, err = op.ListAgents.Do(ctx, d, op.AgentNames{}); err != nil {
		return err
	}
	models, err := op.ListModels.Do(ctx, d, op.None{})
	if err != nil {
		return err
	}
	out.Models = models.Models
	if out.Crons, err = op.ListCrons.Do(ctx, d, op.None{}); err != nil {
		return err
	}
	if out.Parts, err = mcp.Components(ctx, v.p.o.FS, filepath.Join(v.p.o.Home, "run"), func(file string, err error) {
		v.p.o.Log.Warn("not a component", "file", file, "error", err)
	}); err != nil {
		return err
	}
	return v.show("status.html", http.StatusOK, view{Title: "Status", Nav: "status", Data: out})
}
