package daemon

import (
	"cmp"
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"time"

	"crabmem/daemon/config"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog/record"
)

// info describes the daemon to an identity.
func (d *Daemon) info(as *op.Identity) op.DaemonInfo {
	return op.DaemonInfo{
		Protocol: pb.Version, Version: d.opts.Version, PID: os.Getpid(), Home: d.home, Store: d.store.Path(),
		SessionsDir: d.sessions.Path(), StartedAt: record.Timestamp(d.started), Model: d.setup().models.Active(),
		Trust: string(d.setup().config.Origins.Level(as.Name)),
	}
}

// mcpStatuses returns the states of the MCP servers.
func (d *Daemon) mcpStatuses() (list []op.MCPServer) {
	for _, s := range d.mcp.Statuses() {
		list = append(list, op.MCPServer(s))
	}
	return list
}

// figures returns the figures of the daemon.
func (d *Daemon) figures() op.DaemonStats {
	s := op.DaemonStats{
		Version: d.opts.Version, UptimeSecs: uint64(d.now().Sub(d.started) / time.Second), Agents: len(d.setup().agents),
		Subscribers: int(d.events.count.Load()), Goroutines: runtime.NumGoroutine(), Vectors: d.store.VectorState(),
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.MemoryBytes = m.HeapAlloc
	for _, l := range d.loaded.List() {
		s.LoadedSessions++
		s.WaitingRuns += l.Waiting()
		if l.Active() {
			s.ActiveSessions++
		}
	}
	return s
}

// stats sends the figures that RFC 0018 has.
func (d *Daemon) stats(r *request) error {
	s := d.figures()
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Stats{Stats: &pb.DaemonStats{
		UptimeSecs: s.UptimeSecs, ActiveSessions: uint32(s.ActiveSessions), RegisteredAgents: uint32(s.Agents)}}})
}

// LogLimits returns the size at which the daemon's log file is rotated, and the
// number of old files to keep.
func (d *Daemon) LogLimits() (size int64, keep int) {
	c := d.setup().config.Log
	return int64(c.MaxSize), c.Keep
}

// getConfig sends the configuration as JSON, without secrets.
func (d *Daemon) getConfig(r *request) error {
	c, err := op.ReadConfig.Do(r.ctx, op.Local{On: d.on(r)}, op.None{})
	if err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Config{Config: &pb.ConfigMsg{Config: c.Config}}})
}

func (d *Daemon) changeConfig(in *op.ConfigChange) (op.ChangedConfig, error) {
	done, err := d.change(cmp.Or(in.Wait, d.opts.LockWait), func() (*config.Change, error) {
		return in.Apply(space.Home{FS: d.fs, Path: d.home}, d.opts.Getenv)
	})
	if err != nil {
		return op.ChangedConfig{}, err
	}
	return op.ChangedConfig{Used: done.Config != nil, Problems: done.Problems}, nil
}

// change loads the configuration that set writes. No other change is made between the
// time when set reads the configuration and the time when it is in use. wait limits the
// wait for the lock of the configuration.
func (d *Daemon) change(wait time.Duration, set func() (*config.Change, error)) (done *config.Change, err error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	err = config.Locked(d.fs, d.home, wait, func() error {
		if done, err = set(); err != nil || done.Config == nil {
			return err
		}
		return d.build(done.Config)
	})
	return done, err
}

// allow adds prefixes of commands to [tools.bash] allow in config.toml.
func (d *Daemon) allow(prefixes []string) error {
	_, err := d.change(d.opts.LockWait, func() (*config.Change, error) {
		c, err := d.readConfig()
		if err != nil {
			return nil, err
		}
		list := slices.Clone(c.Bash.Allow)
		for _, p := range prefixes {
			if !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
		js, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		return config.SetKeys(d.fs, d.home, []config.Pair{{Key: "tools.bash.allow", Value: string(js)}}, d.opts.Getenv)
	})
	return err
}
