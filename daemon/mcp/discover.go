package mcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"crabmem/crmem/vfs"

	"github.com/fsnotify/fsnotify"
)

const (
	debounce = 50 * time.Millisecond // changes within this time are handled together
	rescan   = time.Minute           // interval, in case a watch misses a change
	poll     = 2 * time.Second       // interval without a watch
)

// Port is a component's port file.
type Port struct {
	Name string
	Port int
	File string
	// Modified distinguishes a file from the one that it replaced.
	Modified time.Time
}

// URL is where the component serves.
func (p Port) URL() string { return fmt.Sprintf("http://127.0.0.1:%d/mcp", p.Port) }

// Ports reads the port files of a directory, by name. It passes errors of
// invalid files to warn. It ignores the daemon's own file.
func Ports(fsys vfs.FS, dir string, warn func(file string, err error)) ([]Port, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var ports []Port
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".port")
		if !ok || name == "crabtalk" || strings.HasPrefix(name, ".") {
			continue
		}
		file := filepath.Join(dir, e.Name())
		p, err := readPort(fsys, file, name)
		if errors.Is(err, fs.ErrNotExist) { // it was removed concurrently
			continue
		}
		if err == nil && len(ports) == maxServers {
			err = fmt.Errorf("limit of %d components reached", maxServers)
		}
		if err != nil {
			warn(file, err)
			continue
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// The states of a component.
const (
	Running = "running" // a program accepts connections on the port
	Stale   = "stale"   // a killed component leaves its file
)

// stateWait limits the wait for a component to accept a connection.
const stateWait = time.Second

// Component is a component with its state.
type Component struct {
	Name  string `json:"name"`
	Port  int    `json:"port"`
	State string `json:"state" op:"words=running|stale"`
	File  string `json:"file"`
}

// Components returns the components of a directory of port files, as Ports does.
func Components(ctx context.Context, fsys vfs.FS, dir string, warn func(file string, err error)) ([]Component, error) {
	ports, err := Ports(fsys, dir, warn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, stateWait)
	defer cancel()
	list := make([]Component, len(ports))
	var wg sync.WaitGroup
	for i, p := range ports {
		wg.Go(func() {
			list[i] = Component{p.Name, p.Port, Stale, p.File}
			if conn, err := new(net.Dialer).DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port))); err == nil {
				list[i].State = Running
				_ = conn.Close() // nothing was sent
			}
		})
	}
	wg.Wait()
	return list, nil
}

func readPort(fsys vfs.FS, file, name string) (Port, error) {
	if !usable(name) {
		return Port{}, fmt.Errorf("invalid name %q: want up to 64 letters, digits, '-', '.', and '_'", clipped(name, 80))
	}
	fi, err := fsys.Lstat(file)
	if err != nil {
		return Port{}, err
	}
	b, err := vfs.ReadFile(fsys, file, 32)
	if err != nil {
		return Port{}, err
	}
	text := strings.TrimSpace(string(b))
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || text[0] == '+' {
		return Port{}, fmt.Errorf("invalid port %q: want a number from 1 to 65535", clipped(text, 32))
	}
	return Port{Name: name, Port: int(n), File: file, Modified: fi.ModTime()}, nil
}

// usable reports whether a component may have this name: prompts and names of
// tools contain it.
func usable(name string) bool {
	return name != "" && len(name) <= 64 && !strings.Contains(name, "__") && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
}

// hiddenKey is the suffix of an unused component's file in the map of logged
// problems.
const hiddenKey = " hidden"

// scan makes the components those that have a port file.
func (m *Manager) scan() {
	m.scanning.Lock()
	defer m.scanning.Unlock()
	var wrong []string
	ports, err := Ports(m.o.FS, m.o.Run, func(file string, err error) {
		wrong = append(wrong, file)
		m.warn(file, fmt.Sprintf("%s: not a component: %v", file, err))
	})
	if err != nil {
		m.warn(m.o.Run, fmt.Sprintf("find components: %v", err))
		return
	}
	m.warn(m.o.Run, "")
	var hidden []Port
	m.changed(func() { hidden = m.replace(ports, wrong) })
	for _, p := range hidden {
		m.warn(p.File+hiddenKey, "ignored a component: a configured MCP server has the same name", "server", p.Name)
	}
}

// replace makes the components those of ports, and forgets logged problems that
// are fixed: wrong lists the files that still have one. It returns the ports
// that are not used because a configured server has the name.
func (m *Manager) replace(ports []Port, wrong []string) (hidden []Port) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	for key := range m.warned { // a fixed problem may occur again
		if strings.HasSuffix(key, ".port") && !slices.Contains(wrong, key) {
			delete(m.warned, key)
		}
	}
	old := m.components
	m.components = make(map[string]*server, len(ports))
	for _, p := range ports {
		if _, ok := m.configured[p.Name]; ok {
			hidden = append(hidden, p)
			continue
		}
		have := old[p.Name]
		if have == nil || have.URL != p.URL() {
			m.components[p.Name] = m.start(Server{Name: p.Name, URL: p.URL()}, true)
			m.components[p.Name].written = p.Modified
			continue
		}
		delete(old, p.Name)
		m.components[p.Name] = have
		if !have.written.Equal(p.Modified) { // it was started again, on the same port
			have.written = p.Modified
			have.retry(down, over)
		}
	}
	for _, s := range old {
		s.cancel()
	}
	for key := range m.warned {
		if file, ok := strings.CutSuffix(key, hiddenKey); ok && !slices.ContainsFunc(hidden, func(p Port) bool { return p.File == file }) {
			delete(m.warned, key)
		}
	}
	return hidden
}

// watch scans the directory at the start and whenever it changes.
func (m *Manager) watch() {
	every := rescan
	var events chan fsnotify.Event
	var errs chan error
	if _, ok := m.o.FS.(vfs.OS); !ok {
		every = poll
	} else if w, err := fsnotify.NewWatcher(); err != nil {
		every = m.unwatched(err)
	} else if err := w.Add(m.o.Run); err != nil {
		w.Close() //nolint:errcheck // it watches nothing
		every = m.unwatched(err)
	} else {
		defer w.Close()
		events, errs = w.Events, w.Errors
	}
	m.scan()
	m.rescanOn(events, errs, every)
}

// rescanOn scans the directory after events and errors, once for all in a
// debounce interval, and at every tick. It returns when the manager is closed.
func (m *Manager) rescanOn(events <-chan fsnotify.Event, errs <-chan error, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var soon <-chan time.Time
	for {
		select {
		case <-m.ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				events = nil
			} else if strings.HasSuffix(e.Name, ".port") && soon == nil {
				soon = time.After(debounce)
			}
		case _, ok := <-errs:
			if !ok {
				errs = nil
			} else if soon == nil { // events were lost
				soon = time.After(debounce)
			}
		case <-soon:
			soon = nil
			m.scan()
		case <-tick.C:
			m.scan()
		}
	}
}

func (m *Manager) unwatched(err error) time.Duration {
	m.o.Log.Warn("cannot watch the component directory; polling it every few seconds", "directory", m.o.Run, "error", err)
	return poll
}
