package daemon

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"time"

	"crabmem/daemon/config"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog/record"
)

// hello responds with the identity and version of the daemon.
func (d *Daemon) hello(r *request) error {
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Hello{Hello: &pb.HelloReply{
		Protocol: pb.Version, Version: d.opts.Version, Pid: uint32(os.Getpid()), Home: d.home, Store: d.store.Path(),
		SessionsDir: d.sessions.Path(), StartedAt: record.Timestamp(d.started), Model: d.setup().models.Active(),
		Trust: string(d.setup().config.Origins.Level(r.as.Name)),
	}}})
}

func (d *Daemon) stats(r *request) error {
	s := &pb.DaemonStats{
		UptimeSecs: uint64(d.now().Sub(d.started) / time.Second), RegisteredAgents: uint32(len(d.setup().agents)),
		Version: d.opts.Version, Subscribers: uint32(d.events.count.Load()), Goroutines: uint32(runtime.NumGoroutine()),
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.MemoryBytes = m.HeapAlloc
	for _, l := range d.loaded.List() {
		s.LiveSessions++
		s.RunsWaiting += uint32(l.Waiting())
		if l.Active() {
			s.ActiveSessions++
		}
	}
	if v := d.store.VectorState(); v != nil {
		var err error
		if s.Vectors, err = encode(v); err != nil {
			return err
		}
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Stats{Stats: s}})
}

// LogLimits returns the size at which the daemon's log file is rotated, and the
// number of old files to keep.
func (d *Daemon) LogLimits() (size int64, keep int) {
	c := d.setup().config.Log
	return int64(c.MaxSize), c.Keep
}

// getConfig answers with the configuration file as JSON, without secrets.
func (d *Daemon) getConfig(r *request) error {
	b, err := config.Get(d.fs, d.home)
	if err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Config{Config: &pb.ConfigMsg{Config: string(b)}}})
}

// setConfig validates a configuration, writes it, and uses it. An invalid one
// changes no file, so that the daemon can always start again.
func (d *Daemon) setConfig(r *request, m *pb.SetConfigMsg) error {
	err := d.change(func() (*config.Change, error) {
		if m.Key != nil {
			return config.SetKey(d.fs, d.home, m.GetKey(), []byte(m.GetValue()), d.opts.Getenv)
		}
		return config.Set(d.fs, d.home, []byte(m.GetConfig()), d.opts.Getenv)
	})
	if err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}})
}

// change loads the configuration that set writes. No other change is made between the
// time when set reads the configuration and the time when it is in use.
func (d *Daemon) change(set func() (*config.Change, error)) error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	return config.Locked(d.fs, d.home, d.opts.LockWait, func() error {
		changed, err := set()
		if err != nil {
			return err
		}
		return d.build(changed.Config)
	})
}

// allow adds prefixes of commands to [tools.bash] allow in config.toml.
func (d *Daemon) allow(prefixes []string) error {
	return d.change(func() (*config.Change, error) {
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
		return config.SetKey(d.fs, d.home, "tools.bash.allow", js, d.opts.Getenv)
	})
}
