package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// state is where a server is.
type state int

const (
	connecting state = iota // for the first time, or after it was given up and asked for again
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
	http      *http.Client // of one with a URL
	ctx       context.Context
	cancel    context.CancelFunc
	kick      chan struct{} // wakes it to try again, or to list the tools again

	mu      sync.Mutex
	state   state
	session *sdk.ClientSession // while up
	tools   []remote           // while up, by name
}

// usable reports whether an agent is told of the server.
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

// retry wakes a server that is down.
func (s *server) retry() {
	s.mu.Lock()
	asleep := s.state == down || s.state == over
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
	s.mu.Lock()
	s.state, s.session, s.tools = st, session, tools
	s.mu.Unlock()
	s.m.changed()
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
		if served {
			s.m.warn("server "+s.Name, "an MCP server went away", "server", s.Name, "error", err)
		} else {
			s.m.warn("server "+s.Name, fmt.Sprintf("an MCP server is not reached: %v", err), "server", s.Name)
		}
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
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
}

// serve connects, and returns when the connection has ended. served reports
// whether there was one.
func (s *server) serve() (served bool, err error) {
	transport, child, err := s.transport()
	if err != nil {
		return false, err
	}
	timeout := connectTimeout
	if child != nil {
		timeout = startTimeout
		defer func() { err = child.end(err) }()
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, timeout, fmt.Errorf("no answer in %s", timeout))
	defer cancel()
	// The newest version is offered by a request that servers of old never
	// answer; they all know this one.
	session, err := s.client().Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		return false, because(ctx, err)
	}
	ended := make(chan struct{})
	var closed error
	go func() { // ends with the session, which is closed below
		closed = session.Wait()
		close(ended)
	}()
	defer func() {
		session.Close() //nolint:errcheck // it is of no use any more
		<-ended
	}()
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
				closed = errors.New("it closed the connection")
			}
			return true, closed
		case <-s.kick:
		}
		select { // a server that changes its mind all the time is asked once a second
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
			s.log.Info("an MCP server has other tools now", "tools", len(tools))
		}
	}
}

// client is how the daemon speaks with the server. A server gets no part in the
// daemon: no files, no model, no questions. One that can do one thing at a time
// is not missed while it does what it was asked to.
func (s *server) client() *sdk.Client {
	const missed = 5
	version := cmp.Or(s.m.o.Version, "unknown")
	return sdk.NewClient(&sdk.Implementation{Name: "crabmem", Version: version}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{},
		KeepAlive:    max(keepAlive, s.timeout()/(missed-1)), KeepAliveFailureThreshold: missed,
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { s.wake() },
	})
}

func (s *server) timeout() time.Duration { return cmp.Or(s.Timeout, callTimeout) }

// because returns the cause of a context's end, where that is what an error is
// about.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// transport returns how to reach the server. child is nil for one that is none.
func (s *server) transport() (sdk.Transport, *child, error) {
	if s.URL != "" {
		return &sdk.StreamableClientTransport{
			Endpoint: s.URL, HTTPClient: s.http,
			MaxRetries:   -1, // a broken connection is made anew, and the tools listed again
			MaxEventSize: maxFrame,
		}, nil, nil
	}
	c, err := s.spawn()
	if err != nil {
		return nil, nil, err
	}
	return c, c, nil
}
