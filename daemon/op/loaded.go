package op

import (
	"context"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
)

// DaemonStats are figures of a daemon.
type DaemonStats struct {
	Version        string             `json:"version"`
	UptimeSecs     uint64             `json:"uptime_secs"`
	Agents         int                `json:"agents"`
	LoadedSessions int                `json:"loaded_sessions"`
	ActiveSessions int                `json:"active_sessions"` // with a run
	WaitingRuns    int                `json:"waiting_runs"`    // for the run slot of a session
	Subscribers    int                `json:"subscribers"`
	MemoryBytes    uint64             `json:"memory_bytes"`
	Goroutines     int                `json:"goroutines"`
	Vectors        *crmem.VectorState `json:"vectors,omitempty"` // of the store; nil without an embedding model
}

var ReadDaemonStats = Add(errtable.Other, Op[Daemon, None, DaemonStats]{
	Name: "daemon.stats", Does: "Read figures of the daemon.", Effect: Reads, Need: NeedNothing,
	Run: func(_ context.Context, d Daemon, _ *None) (DaemonStats, error) { return d.Stats(), nil },
})

// ListLoaded waits for no run, and reads no file.
var ListLoaded = Add(errtable.Session, Op[Daemon, None, []Session]{
	Name: "sessions.loaded", Does: "List the loaded sessions that the caller may read.", Effect: Reads, Need: NeedOwn, Files: true,
	Run: func(_ context.Context, d Daemon, _ *None) ([]Session, error) {
		list := []Session{}
		for _, l := range d.Loaded.List() {
			if d.As.MayRead(l.CreatedBy()) {
				list = append(list, Session{SessionFile: SessionFile{ID: l.StoredID(), SessionMeta: SessionMeta{Agent: l.Agent(), CreatedBy: l.CreatedBy()}},
					Number: l.ID(), Loaded: true, Active: l.Active(), Waiting: l.Waiting(), Asking: d.Loaded.Asking(l.ID())})
			}
		}
		return list, nil
	},
})
