// Package mcp lets agents use the tools of other programs, by the Model Context
// Protocol.
//
// There are two kinds of servers. Configured servers are children of the
// daemon, on their standard input and output, or have an address. Components
// (RFC 0043) run independently: each writes its port to a file NAME.port,
// through which the daemon finds it. A component is never a child.
//
// A [Manager] connects to all servers in the background, and reconnects when a
// connection ends: only calls wait for a server.
//
// Models reach all tools through one tool, mcp ([Manager.Tool]). A tool is
// called by its name. If two servers have a tool of that name, or the daemon
// has one, it is called by SERVER__NAME, which always works. The same applies
// to a name that contains __, which may look like the tool of a server that is
// not connected. The [tool.Scope] of an agent lists its servers. An agent
// cannot detect other servers, not even by a name that is in use.
//
// Input from servers is not trusted: lists and results are limited, and
// descriptions become one line of data without tags.
package mcp

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/tool"
)

// Server is a server that was configured by hand: a command, or a URL.
type Server struct {
	Name string

	Command string
	Args    []string
	Env     []string // NAME=VALUE, in addition to the few that every server gets
	Dir     string   // where the command runs; "" is the daemon's

	URL   string
	Token string // sent only to the URL; "" = none

	Secrets bool          // calls may contain secrets
	Timeout time.Duration // of a call; 0 is two minutes
	// If Once is set, a server that disconnects stays disconnected until it is
	// configured again.
	Once bool
}

// Options are how a Manager works. The zero value has no components.
type Options struct {
	FS  vfs.FS // nil is the machine's
	Run string // the directory of the components' port files; "" = none
	Log *slog.Logger
	// Version is the program's version as sent to servers.
	Version string
	// Reserved reports whether a name is that of one of the daemon's own tools.
	// A server's tool of such a name is only called by SERVER__NAME.
	Reserved func(name string) bool
	// Leaves returns an error for arguments that must not be sent to a server, unless the
	// server may receive secrets. It may be nil.
	Leaves func(arguments string) error
	// Over has servers that the Manager's own add to, and hide by name. It may be nil.
	Over *Manager
	// Changed is called when Resources changes. It may be called at any time,
	// from a separate goroutine.
	Changed func()
}

// Time limits.
const (
	startTimeout   = 60 * time.Second // for a command's first answer: some are downloaded first
	connectTimeout = 10 * time.Second // for an address's
	listTimeout    = 30 * time.Second // for a list of tools
	callTimeout    = 2 * time.Minute
	settle         = 5 * time.Second  // that a call waits for servers that are connecting
	keepAlive      = 30 * time.Second // between questions whether it is there; longer where calls may be
	firstRetry     = time.Second
	lastRetry      = time.Minute
)

// maxServers bounds the components.
const maxServers = 64

// Manager has the connections to all servers. It is safe for concurrent use.
type Manager struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // of servers, the watch and calls of Changed

	dial       dialer
	checkOwner func(netip.AddrPort) error

	scanning sync.Mutex    // one scan at a time
	changing chan struct{} // has one while a change is made; synctest can wait for it

	mu         sync.Mutex
	closed     bool
	configured map[string]*server
	components map[string]*server
	change     chan struct{} // closed and replaced when the state of a server changes
	warned     map[string]string
	resources  string // Resources at the last call of Changed
}

// New returns a manager without configured servers, which looks for components.
func New(o Options) *Manager {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Manager{
		o: o, configured: make(map[string]*server), components: make(map[string]*server),
		change: make(chan struct{}), changing: make(chan struct{}, 1), warned: make(map[string]string),
		dial: new(net.Dialer).DialContext, checkOwner: checkOwner,
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if o.Run != "" {
		m.wg.Go(m.watch)
	}
	return m
}

// Set replaces the configured servers, and looks for components. Unchanged
// servers stay connected. A server that was given up is tried again.
func (m *Manager) Set(servers []Server) {
	m.changed(func() { m.configure(servers) })
	if m.o.Run != "" {
		m.scan()
	}
}

// configure is Set without components.
func (m *Manager) configure(servers []Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	old := m.configured
	m.configured = make(map[string]*server, len(servers))
	for _, s := range servers {
		have := old[s.Name]
		if have != nil && reflect.DeepEqual(have.Server, s) {
			m.configured[s.Name] = have
			delete(old, s.Name)
			have.retry(down, over)
			continue
		}
		m.configured[s.Name] = m.start(s, false)
	}
	for _, s := range old {
		s.cancel()
	}
}

// Close disconnects from all servers and kills the process groups of the
// children. It returns when they have exited.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	m.wg.Wait()
}

// start begins to connect to a server. mu is held.
func (m *Manager) start(c Server, component bool) *server {
	ctx, cancel := context.WithCancel(m.ctx)
	s := &server{Server: c, component: component, m: m, ctx: ctx, cancel: cancel, kick: make(chan struct{}, 1), state: connecting}
	s.log = m.o.Log.With("server", c.Name)
	m.wg.Go(func() {
		s.run()
		m.forget(s.Name)
	})
	return s
}

// forget removes the logged problems of a removed server.
func (m *Manager) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.configured[name] == nil && m.components[name] == nil {
		delete(m.warned, "server "+name)
		delete(m.warned, "tools of "+name)
		delete(m.warned, "odd message of "+name)
	}
}

// servers returns all servers, the configured ones first, by name.
func (m *Manager) servers() []*server {
	m.mu.Lock()
	defer m.mu.Unlock()
	byName := func(a, b *server) int { return cmp.Compare(a.Name, b.Name) }
	list := slices.SortedFunc(maps.Values(m.configured), byName)
	list = append(list, slices.SortedFunc(maps.Values(m.components), byName)...)
	if m.o.Over != nil {
		for _, s := range m.o.Over.servers() {
			if m.configured[s.Name] == nil {
				list = append(list, s)
			}
		}
	}
	return list
}

// changed makes a change, wakes waiting calls, and notifies the daemon if the
// list of servers changed. One change is made at a time, so that a server that
// connects quickly cannot hide that it was replaced.
func (m *Manager) changed(change func()) {
	m.changing <- struct{}{}
	defer func() { <-m.changing }()
	change()
	resources := m.Resources(tool.Unbounded())
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.change)
	m.change = make(chan struct{})
	if resources == m.resources || m.closed {
		return
	}
	m.resources = resources
	if m.o.Changed != nil {
		m.wg.Go(m.o.Changed)
	}
}

// changes returns a channel that is closed at the next change. Without a Manager, it is nil.
func (m *Manager) changes() <-chan struct{} {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.change
}

// warn logs a problem once until its text changes. "" clears the problem.
func (m *Manager) warn(key, text string, args ...any) {
	m.mu.Lock()
	again := m.warned[key] == text
	if text == "" {
		delete(m.warned, key)
	} else {
		m.warned[key] = text
	}
	m.mu.Unlock()
	if !again && text != "" {
		m.o.Log.Warn(text, args...)
	}
}
