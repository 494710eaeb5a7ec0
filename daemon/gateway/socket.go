package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/guard"
	"crabmem/daemon/op"

	"github.com/coder/websocket"
)

// Limits of a WebSocket connection.
const (
	loginTime = 10 * time.Second // until the first frame with a key
	pingEvery = 30 * time.Second
	frameTime = 30 * time.Second // for a client to receive a frame
)

// socketRoutes are the route of WebSocket connections. A client sends its key in a header,
// or in the first frame.
var socketRoutes = []route{
	{method: "GET", path: "/ws", summary: "Open a WebSocket connection", open: true, kind: socketKind, status: http.StatusSwitchingProtocols, run: (*call).serveSocket},
}

// socketKind is the kind of a route whose response is not HTTP.
const socketKind = "websocket"

// socket is a WebSocket connection.
type socket struct {
	*call
	conn    *websocket.Conn
	ctx     context.Context
	token   string          // the text of the key
	release func()          // of the slots of a stream; nil before a key
	fresh   map[string]bool // agents whose next message begins a session
	runs    sync.WaitGroup
	named   atomic.Bool // the client sent hello: it receives all events of runs

	mu     sync.Mutex
	busy   bool // a run is active
	cancel context.CancelFunc
	number uint64 // of its session in the daemon
}

// serveSocket serves a connection until the client or the server ends it.
func (c *call) serveSocket() (any, error) {
	h := c.r.Header
	if !strings.EqualFold(h.Get("Upgrade"), "websocket") || !strings.Contains(strings.ToLower(h.Get("Connection")), "upgrade") {
		c.w.Header().Set("Upgrade", "websocket")
		return nil, problemf(http.StatusUpgradeRequired, "upgrade", "this path is for WebSocket connections").fix("open it with a WebSocket client")
	}
	if b, err := base64.StdEncoding.DecodeString(h.Get("Sec-Websocket-Key")); err != nil || len(b) != 16 || h.Get("Sec-Websocket-Version") != "13" {
		return nil, invalidf("the headers Sec-WebSocket-Key or Sec-WebSocket-Version are not valid")
	}
	s := &socket{call: c, fresh: make(map[string]bool)}
	if len(h.Values("Authorization"))+len(h.Values("X-Api-Key")) > 0 {
		if p := c.authenticate(); p != nil {
			return nil, p
		}
		s.token, _ = keyOf(h) // authenticate has read it
		if err := s.occupy(); err != nil {
			return nil, err
		}
	}
	defer func() {
		if s.release != nil {
			s.release()
		}
	}()
	c.received()
	conn, err := websocket.Accept(c.w, c.r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // Origin is checked before, more strictly
	if err != nil {
		return nil, nil // Accept has answered
	}
	defer conn.CloseNow()
	c.g.background.Add(1)
	defer c.g.background.Done()
	ctx, cancel := context.WithCancel(c.g.ending)
	defer cancel()
	s.conn, s.ctx = conn, ctx
	conn.SetReadLimit(2 * maxBody) // read refuses less, and answers it
	s.loop()
	s.mu.Lock()
	if s.cancel != nil {
		s.cancel() // a client that disconnects ends its run
	}
	s.mu.Unlock()
	conn.CloseNow()
	s.runs.Wait()
	return nil, nil
}

// occupy takes slots for the connection of a key.
func (s *socket) occupy() (err error) {
	s.release, err = s.enter()
	if err == nil && !guard.VerifyConn(s.r.Context()) {
		s.release()
		s.release = nil
		return busy("connections")
	}
	return err
}

// loop answers frames.
func (s *socket) loop() {
	stop := make(chan struct{})
	defer close(stop)
	s.runs.Go(func() { s.keepAlive(stop) })
	stopped := context.AfterFunc(s.g.ending, func() { _ = s.conn.Close(websocket.StatusGoingAway, "the gateway stops") })
	defer stopped()
	login := time.AfterFunc(loginTime, func() {
		_ = s.conn.Close(websocket.StatusPolicyViolation, "no key within 10 s")
	})
	if s.key != nil {
		login.Stop()
		s.write(frameOut{Type: "authenticated", SessionID: s.key.Identity()})
	}
	defer login.Stop()
	for {
		b, ok := s.read()
		if !ok {
			return
		}
		var f frameIn
		if err := op.CheckBody(b, nil); err != nil || json.Unmarshal(b, &f) != nil {
			s.fail(nil, problemf(http.StatusBadRequest, "invalid", "want a JSON object with type"))
			continue
		}
		if len(f.ID) > 256 {
			s.fail(nil, invalidf("id has more than 256 bytes"))
			continue
		}
		if f.Type != "authenticate" && s.key == nil {
			s.fail(f.ID, problemf(http.StatusUnauthorized, "no_key", "send authenticate with the key first"))
			continue
		}
		if f.Type == "authenticate" && s.login(&f) {
			login.Stop()
		}
		s.answer(&f)
	}
}

// read returns the next frame. It is false at the end of the connection, and after a frame
// that ends it: the frame is read to its end, or the client would not receive the reason.
func (s *socket) read() ([]byte, bool) {
	kind, in, err := s.conn.Reader(context.Background()) // Close ends it
	if err != nil {
		return nil, false
	}
	b, err := io.ReadAll(io.LimitReader(in, maxBody+1))
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	switch {
	case err != nil:
		return nil, false
	case kind != websocket.MessageText:
		_ = s.conn.Close(websocket.StatusUnsupportedData, "want text frames")
		return nil, false
	case len(b) > maxBody:
		_ = s.conn.Close(websocket.StatusMessageTooBig, fmt.Sprintf("want at most %d bytes", maxBody))
		return nil, false
	}
	return b, true
}

// keepAlive ends with the connection: stop is then closed.
func (s *socket) keepAlive(stop chan struct{}) {
	t := time.NewTicker(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			ctx, cancel := context.WithTimeout(context.Background(), pingEvery) // Close ends it
			if s.conn.Ping(ctx) != nil {
				s.conn.CloseNow()
			}
			cancel()
		}
	}
}

// login checks the key of a frame.
func (s *socket) login(f *frameIn) bool {
	if s.key != nil {
		s.fail(f.ID, problemf(http.StatusConflict, "authenticated", "the connection has a key"))
		return false
	}
	if p := s.identify(f.Token); p != nil {
		s.key = nil
		s.fail(f.ID, p)
		return false
	}
	if err := s.occupy(); err != nil {
		s.key = nil
		s.fail(f.ID, err)
		return false
	}
	s.token = f.Token
	s.write(frameOut{Type: "authenticated", ID: f.ID, SessionID: s.key.Identity()})
	return true
}

// answer answers a frame of a client with a key. Frames of other types are ignored.
func (s *socket) answer(f *frameIn) {
	switch f.Type {
	case "hello":
		s.named.Store(true)
		s.write(frameOut{Type: "hello", ID: f.ID})
	case "ping":
		s.write(frameOut{Type: "pong", ID: f.ID})
	case "clear_session":
		agent := f.Agent
		if agent == "" {
			agent = "crab"
		}
		s.fresh[agent] = true
		s.write(frameOut{Type: "session_cleared", ID: f.ID, Agent: agent})
	case "cancel":
		s.mu.Lock()
		if s.cancel != nil {
			s.cancel()
		}
		s.mu.Unlock()
	case "answer":
		s.mu.Lock()
		busy, number := s.busy, s.number
		s.mu.Unlock()
		if !busy || number == 0 {
			s.fail(f.ID, problemf(http.StatusConflict, "ended", "no run of this connection asks"))
		} else if _, err := op.ReplyToRun.Do(s.ctx, s.daemon, op.Reply{Number: number, Content: f.Content}); err != nil {
			s.fail(f.ID, err)
		}
	case "send", "stream":
		s.run(f)
	}
}

// run runs an agent, while loop answers other frames.
func (s *socket) run(f *frameIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		s.fail(f.ID, problemf(http.StatusConflict, "busy", "a run of this connection is active"))
		return
	}
	p := s.identify(s.token) // the key may have been removed
	if p == nil {
		p = s.spend()
	}
	if p != nil {
		s.fail(f.ID, p)
		return
	}
	in := message{Content: f.Content, Agent: f.Agent, Session: f.Session}
	if in.Agent == "" && in.Session == "" {
		in.Agent = "crab"
	}
	in.New = in.Session == "" && s.fresh[in.Agent]
	m, err := s.request(&in)
	if err != nil {
		s.fail(f.ID, err)
		return
	}
	end, err := s.begin()
	if err != nil {
		s.fail(f.ID, err)
		return
	}
	delete(s.fresh, in.Agent)
	ctx, cancel := context.WithCancel(s.ctx)
	s.busy, s.cancel, s.number = true, cancel, 0
	s.runs.Go(func() {
		var last []frameOut
		if f.Type == "send" {
			last = s.send(ctx, f, m)
		} else {
			last = s.stream(ctx, f, m)
		}
		cancel()
		end()
		s.mu.Lock()
		s.busy, s.cancel = false, nil
		s.mu.Unlock()
		for _, f := range last { // after it, the client may send the next message
			_ = s.write(f)
		}
	})
}

// send returns the last frames of a run.
func (s *socket) send(ctx context.Context, f *frameIn, m op.Message) []frameOut {
	r, err := op.SendMessage.Do(ctx, s.daemon, m)
	if err != nil {
		return []frameOut{s.problem(f.ID, err)}
	}
	return []frameOut{{Type: "response", ID: f.ID, Agent: r.Agent, Content: &r.Content, Session: r.Session}}
}

// stream sends the text of a run as chunks and, after hello, the other events by their
// names. It returns the last frames. Clients of version 0.1 send no hello: they fail on a
// frame of another type, cannot answer a question, and stop reading at an error.
func (s *socket) stream(ctx context.Context, f *frameIn, m op.Message) (last []frameOut) {
	w := &runWriter{g: s.g, out: &frames{s, f.ID}, agent: m.Agent}
	began := false
	for e, err := range op.StreamMessage.All(ctx, s.daemon, m) {
		if err != nil {
			last = []frameOut{s.problem(f.ID, err)}
			began = began && s.named.Load()
			break
		}
		if e.Kind == agent.Start {
			began = true
			w.agent = e.Agent
			s.mu.Lock()
			s.number = e.Number
			s.mu.Unlock()
			s.write(frameOut{Type: "stream_start", ID: f.ID, Agent: e.Agent, Session: e.Session})
			continue
		}
		if e.Kind == agent.AskUser && !s.named.Load() {
			_, _ = op.ReplyToRun.Do(ctx, s.daemon, op.Reply{Number: s.number, Content: "the client cannot show questions"}) // else it times out
		}
		_ = w.write(e) // the loop ends the run if the client is gone
	}
	if began {
		last = append(last, frameOut{Type: "stream_end", ID: f.ID, Agent: w.agent})
	}
	return last
}
