package op

import (
	"context"
	"net/http"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/session"
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

// SessionNumber is the number of a loaded session in the daemon.
type SessionNumber struct {
	Number uint64 `json:"number"`
}

// CancelRun ends the run of a loaded session.
var CancelRun = Add(errtable.Other, Op[Daemon, SessionNumber, None]{
	Name: "runs.cancel", Does: "End the run of a loaded session.", Effect: Manages, Need: NeedSession,
	Permit: func(d Daemon, in *SessionNumber) error { return d.OwnLoaded(in.Number) },
	Run: func(_ context.Context, d Daemon, in *SessionNumber) (None, error) {
		l, err := d.Loaded.Get(in.Number)
		if err != nil {
			return None{}, errtable.Errorf(http.StatusNotFound, "not_found", "session %d not found", in.Number)
		}
		l.Cancel(session.ErrCancelled)
		return None{}, nil
	},
})

// LoadedSession is a session that the daemon has loaded.
type LoadedSession struct {
	ID        string `json:"session"`
	Number    uint64 `json:"number"` // in the daemon
	Agent     string `json:"agent"`
	CreatedBy string `json:"created_by"`
	Active    bool   `json:"active"`  // a run is active
	Waiting   int    `json:"waiting"` // runs that wait for the run slot
	Asking    bool   `json:"asking"`  // a question awaits a reply
}

// ListLoaded waits for no run.
var ListLoaded = Add(errtable.Session, Op[Daemon, None, []LoadedSession]{
	Name: "sessions.loaded", Does: "List the loaded sessions that the caller may read.", Effect: Reads, Need: NeedOwn, Files: true,
	Run: func(_ context.Context, d Daemon, _ *None) ([]LoadedSession, error) {
		list := []LoadedSession{}
		for _, l := range d.Loaded.List() {
			if d.As.MayRead(l.CreatedBy()) {
				list = append(list, LoadedSession{ID: l.StoredID(), Number: l.ID(), Agent: l.Agent(), CreatedBy: l.CreatedBy(),
					Active: l.Active(), Waiting: l.Waiting(), Asking: d.Loaded.Asking(l.ID())})
			}
		}
		return list, nil
	},
})
