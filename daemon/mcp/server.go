package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// state is where a server is.
type state int

const (
	connecting state = iota // for the first time, or after a call requested a server that was given up
	up
	down // it is tried again from time to time
	over // it is not
)

// server is one server, and the goroutine that keeps the connection to it.
type server struct {
	Server
	component bool
	written   time.Time // of a component: its port file; Manager.mu
	m         *Manager
	log       *slog.Logger
	ctx       context.Context
	cancel    context.CancelFunc
	kick      chan struct{} // wakes it to try again, or to list the tools again

	mu      sync.Mutex
	state   state
	session *sdk.ClientSession // while up
	tools   []remote           // by name, of the last connection; nil before the first one
	why     string             // the last connection ended or failed; "" while up
}

var stateNames = [...]string{connecting: "connecting", up: "connected", down: "disconnected", over: "disconnected"}

// Status is the state of a server.
type Status struct {
	Name  string
	State string // connecting, connected, or disconnected
	Tools int
	Error string // why the last connection ended or failed
}

// Statuses returns the states of all servers: the configured ones, then the components.
func (m *Manager) Statuses() (list []Status) {
	for _, s := range m.servers() {
		s.mu.Lock()
		st := Status{s.Name, stateNames[s.state], 0, s.why}
		if s.state == up {
			st.Tools = len(s.tools)
		}
		list = append(list, st)
		s.mu.Unlock()
	}
	return list
}

// usable reports whether prompts list the server.
func (s *server) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == up
}

func (s *server) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state != connecting
}

// retry wakes a server that is in one of the states.
func (s *server) retry(states ...state) {
	s.mu.Lock()
	asleep := slices.Contains(states, s.state)
	if asleep {
		s.state = connecting
	}
	s.mu.Unlock()
	if asleep {
		s.wake()
	}
}

func (s *server) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *server) set(st state, session *sdk.ClientSession, tools []remote) {
	s.m.changed(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.state, s.session = st, session; st == up {
			s.tools, s.why = tools, ""
		}
	})
}

// odd logs what was omitted of an odd message.
func (s *server) odd(text string) {
	s.m.warn("odd message of "+s.Name, "repaired a message of an MCP server: "+text, "server", s.Name)
}

// renewed returns the session that replaces an expired one, or nil if the
// server cannot be reached again. expired is nil if the server was disconnected.
func (s *server) renewed(ctx context.Context, expired *sdk.ClientSession) *sdk.ClientSession {
	for retried := false; ; {
		next := s.m.changes()
		s.mu.Lock()
		state, session := s.state, s.session
		s.mu.Unlock()
		switch {
		case state == up && session != expired:
			return session
		case (state == down || state == over) && retried, state == over && expired == nil:
			return nil
		case state == down || state == over:
			retried = true
			s.retry(down, over)
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil
		}
	}
}

// run keeps the server connected until its context ends.
func (s *server) run() {
	wait := firstRetry
	for s.ctx.Err() == nil {
		began := time.Now()
		served, err := s.serve()
		if s.ctx.Err() != nil {
			break
		}
		if served && time.Since(began) > lastRetry {
			wait = firstRetry
		}
		next := down
		if s.Once && served {
			next = over
		}
		s.ended(served, err)
		s.set(next, nil, nil)
		var again <-chan time.Time
		if next == down {
			again = time.After(wait)
		}
		select {
		case <-s.ctx.Done():
		case <-again:
			wait = min(2*wait, lastRetry)
		case <-s.kick:
			wait = firstRetry
		}
	}
	s.set(over, nil, nil)
}

// ended logs why a connection ended or could not be made.
func (s *server) ended(served bool, err error) {
	why := clipped(oneLine(err.Error()), maxDescription) // it may contain text of the server
	s.mu.Lock()
	s.why = why
	s.mu.Unlock()
	if served {
		s.m.warn("server "+s.Name, "lost the connection to an MCP server", "server", s.Name, "error", why)
	} else {
		s.m.warn("server "+s.Name, "cannot reach an MCP server: "+why, "server", s.Name)
	}
}

// serve connects, and returns when the connection has ended. served reports
// whether there was one.
func (s *server) serve() (served bool, err error) {
	if s.URL != "" {
		served, refused, err := s.serveURL(false)
		if !refused || served {
			return served, err
		}
		served, _, older := s.serveURL(true)
		if !served {
			older = fmt.Errorf("%w; over the SSE transport of MCP 2024-11-05: %w", err, older)
		}
		return served, older
	}
	life, cut := context.WithCancel(s.ctx)
	defer cut()
	child, err := s.spawn()
	if err != nil {
		return false, err
	}
	defer func() { err = child.end(err) }()
	defer context.AfterFunc(life, func() { child.Close() })() //nolint:errcheck // a pipe
	return s.talk(child, startTimeout, cut)
}

// serveURL is serve over HTTP. refused reports whether the server refused a message
// as servers of the old transport, with SSE, do.
func (s *server) serveURL(sse bool) (served, refused bool, err error) {
	life, cut := context.WithCancel(s.ctx)
	defer cut()
	dial := s.m.dial
	if s.component {
		dial = s.m.dialComponent
	}
	client := httpClient(life, s.URL, s.Token, s.timeout()+writeTimeout, dial)
	b := client.Transport.(*bearer)
	client.Transport = &repairing{b, repairer{s.odd}}
	defer client.CloseIdleConnections()
	transport := overHTTP(s.URL, client)
	if b.sse = sse; sse {
		transport = &sseTransport{sdk.SSEClientTransport{Endpoint: withoutSecrets(s.URL), HTTPClient: client, MaxEventSize: maxFrame}, life}
	}
	served, err = s.talk(transport, connectTimeout, cut)
	return served, b.refused.Load(), err
}

// talk is serve on a transport. cut makes pending sends fail, so that no
// caller waits for a server that does not read.
func (s *server) talk(transport sdk.Transport, timeout time.Duration, cut func()) (served bool, err error) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, timeout, fmt.Errorf("no response within %s", timeout))
	defer cancel()
	inTime := context.AfterFunc(ctx, cut)
	// The newest version is offered by a request that servers of old never
	// answer; they all know this one.
	session, err := s.client().Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	inTime()
	if err != nil {
		return false, because(ctx, err)
	}
	cancel() // discards the rest of the response
	ended := make(chan struct{})
	var closed error
	go func() { // ends with the session, which is closed below
		closed = session.Wait()
		close(ended)
	}()
	defer func() {
		cut()
		session.Close() //nolint:errcheck // it is of no use any more
		<-ended
	}()
	if err := agreed(session.InitializeResult()); err != nil {
		return false, err
	}
	tools, err := s.list(session)
	if err != nil {
		return false, err
	}
	s.set(up, session, tools)
	s.log.Info("an MCP server is connected", "tools", len(tools), "component", s.component)
	s.m.warn("server "+s.Name, "")
	for {
		select {
		case <-s.ctx.Done():
			return true, context.Cause(s.ctx)
		case <-ended:
			if closed == nil {
				closed = errors.New("server closed the connection")
			}
			return true, closed
		case <-s.kick:
		}
		select { // at most one request per second if the server changes constantly
		case <-s.ctx.Done():
			return true, context.Cause(s.ctx)
		case <-time.After(firstRetry):
		}
		again, err := s.list(session)
		if err != nil {
			return true, err
		}
		if !slices.EqualFunc(tools, again, remote.same) {
			tools = again
			s.set(up, session, tools)
			s.log.Info("the tools of an MCP server changed", "tools", len(tools))
		}
	}
}

// version is the protocol version.
const version = "2025-11-25"

// agreed checks a server's response to the first request, and clears unused
// fields. The SDK would keep fields of newer versions.
func agreed(r *sdk.InitializeResult) error {
	if r.ProtocolVersion > version {
		return fmt.Errorf("server uses protocol version %s, not %s", r.ProtocolVersion, version)
	}
	r.Instructions, r.ServerInfo, r.Meta = "", nil, nil
	if r.Capabilities != nil {
		r.Capabilities.Experimental, r.Capabilities.Extensions = nil, nil
	}
	return nil
}

// client returns the daemon's client of the server. It offers the server no
// files, model, or questions. The limit for unanswered pings exceeds the time
// limit of a call, because some servers handle one request at a time.
func (s *server) client() *sdk.Client {
	const missed = 5
	return sdk.NewClient(&sdk.Implementation{Name: "crabmem", Version: cmp.Or(s.m.o.Version, "unknown")}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{},
		KeepAlive:    max(keepAlive, s.timeout()/(missed-1)), KeepAliveFailureThreshold: missed,
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { s.wake() },
	})
}

func (s *server) timeout() time.Duration { return cmp.Or(s.Timeout, callTimeout) }

// because returns the cause of the context's end if ctx has ended, else err.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
