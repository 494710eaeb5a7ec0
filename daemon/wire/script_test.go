package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/wire/pb"
	"crabmem/fuzz/golden"

	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// scriptConn is the connection of a server whose reads follow a script. It
// records each call.
type scriptConn struct {
	net.Conn
	start time.Time
	in    []scriptStep
	out   []scriptWrite // results of the next writes; later ones succeed
	errAt int           // number of the deadline that fails, from 1
	sent  []byte
	mu    sync.Mutex
	set   int // deadlines
	trace strings.Builder
}

// scriptStep is a read: bytes or an error. Before it, do runs.
type scriptStep struct {
	name  string
	bytes []byte
	err   error
	do    func()
}

type scriptWrite struct {
	n   int
	err error
}

func (w scriptWrite) String() string { return fmt.Sprintf("%d %v", w.n, w.err) }

var nbsp = []byte("\u00a0")

func (c *scriptConn) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(&c.trace, format+"\n", args...)
}

func (c *scriptConn) Read(b []byte) (int, error) {
	if len(c.in) == 0 {
		c.note("read %d: end", len(b))
		return 0, io.EOF
	}
	step := &c.in[0]
	if step.do != nil {
		step.do()
		step.do = nil
	}
	n := copy(b, step.bytes)
	err := step.err
	c.note("read %d: %d, %v", len(b), n, err)
	if step.bytes = step.bytes[n:]; len(step.bytes) == 0 {
		c.in = c.in[1:]
	}
	return n, err
}

func (c *scriptConn) Write(b []byte) (n int, err error) {
	n = len(b)
	if len(c.out) > 0 {
		n, err = min(n, c.out[0].n), c.out[0].err
		if n == len(b) {
			err = nil
		}
		c.out = c.out[1:]
	}
	// The texts of protobuf contain a space or, in some builds, U+00A0.
	c.note("write %d: %d, %v", len(b)-bytes.Count(b, nbsp), n-bytes.Count(b[:n], nbsp), err)
	c.sent = append(c.sent, b[:n]...)
	for len(c.sent) >= header && len(c.sent) >= header+int(binary.BigEndian.Uint32(c.sent)) {
		frame := c.sent[:header+int(binary.BigEndian.Uint32(c.sent))]
		c.sent = c.sent[len(frame):]
		c.note("  %s", describe(frame[header:]))
	}
	return n, err
}

// describe writes a response in one line.
func describe(payload []byte) string {
	var m pb.ServerMessage
	if err := proto.Unmarshal(payload, &m); err != nil {
		return fmt.Sprintf("%d bytes", len(payload))
	}
	if e := m.GetError(); e != nil {
		return fmt.Sprintf("error %d %s: %s", e.GetCode(), e.GetKind(), strings.ReplaceAll(e.GetMessage(), string(nbsp), " "))
	}
	if m.GetPong() != nil {
		return "pong"
	}
	return fmt.Sprintf("response of %d bytes", len(m.GetResponse().GetContent()))
}

func (c *scriptConn) deadline(name string, t time.Time) error {
	at := fmt.Sprint(t.Sub(c.start))
	if t.IsZero() {
		at = "none"
	} else if !t.After(time.Now()) {
		at = "past"
	}
	c.note("%s deadline %s", name, at)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set++; c.set == c.errAt {
		return net.ErrClosed
	}
	return nil
}

func (c *scriptConn) SetReadDeadline(t time.Time) error  { return c.deadline("read", t) }
func (c *scriptConn) SetWriteDeadline(t time.Time) error { return c.deadline("write", t) }
func (c *scriptConn) Close() error                       { c.note("close"); return nil }
func (c *scriptConn) LocalAddr() net.Addr                { return &net.IPAddr{} }
func (c *scriptConn) RemoteAddr() net.Addr               { return &net.IPAddr{} }

// script is a served connection, and how to change its state.
type script struct {
	t  *testing.T
	r  *rand.Rand
	c  *served
	nc *scriptConn
}

// newScript returns a connection of a server that runs no goroutine.
func newScript(t *testing.T, r *rand.Rand) *script {
	s := &Server{Token: "secret", Limits: Limits{Working: 1, Conns: 1, InFlight: MaxFrame}}
	s.limits, s.log = s.Limits.withDefaults(), slog.New(slog.DiscardHandler)
	s.base, s.cut = context.WithCancel(context.Background())
	t.Cleanup(s.cut)
	s.inFlight = semaphore.NewWeighted(s.limits.InFlight)
	s.conns = map[*served]bool{}
	nc := &scriptConn{start: time.Now()}
	c := servedConn(s, nc)
	c.cancel()
	c.ctx, c.cancel = context.WithCancel(s.base)
	s.conns[c] = true
	x := &script{t, r, c, nc}
	s.Handler = x.handle
	if r.IntN(3) == 0 {
		c.trusted, c.max, c.authBy = false, smallFrame, time.Now().Add(s.limits.Header)
	}
	return x
}

// disturb returns a change of the connection's state, and a name.
func (x *script) disturb() (string, func()) {
	switch x.r.IntN(14) {
	case 0:
		return "evict", func() { x.c.s.mu.Lock(); x.c.s.evict(); x.c.s.mu.Unlock() }
	case 1:
		return "stop", func() { x.c.giveUp(stopped) }
	case 2:
		return "drain", func() { x.c.s.draining.Store(true) }
	case 3:
		return "wait", func() { time.Sleep(7 * time.Second) }
	case 4:
		return "occupy", func() { x.c.s.working.Store(1) }
	case 5:
		return "subscribe", func() { x.c.s.subscribed.Store(1) }
	case 6:
		return "fill memory", func() { x.c.s.inFlight.TryAcquire(MaxFrame - 100<<10) }
	case 7:
		return "cut", func() { x.c.cancel() }
	}
	return "", nil
}

// step returns a random step of the peer.
func (x *script) step() scriptStep {
	frame := func(m *pb.ClientMessage) []byte { return frameOf(x.t, m) }
	length := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	steps := []func() scriptStep{
		func() scriptStep { return scriptStep{name: "ping", bytes: frame(sendMsg("ping"))} },
		func() scriptStep { return scriptStep{name: "ping", bytes: frame(sendMsg("again"))} },
		func() scriptStep { return scriptStep{name: "token", bytes: frame(auth("secret"))} },
		func() scriptStep { return scriptStep{name: "token", bytes: frame(auth("secret"))} },
		func() scriptStep { return scriptStep{name: "wrong token", bytes: frame(auth("wrong"))} },
		func() scriptStep {
			return scriptStep{name: "subscribe", bytes: frame(&pb.ClientMessage{Msg: &pb.ClientMessage_SubscribeEvents{SubscribeEvents: &pb.SubscribeEvents{}}})}
		},
		func() scriptStep { return scriptStep{name: "empty", bytes: length(0)} },
		func() scriptStep { return scriptStep{name: "invalid", bytes: append(length(1), 0x0a)} },
		func() scriptStep {
			return scriptStep{name: "two", bytes: append(frame(sendMsg("a")), frame(sendMsg("b"))...)}
		},
		func() scriptStep { return scriptStep{name: "too large", bytes: length(MaxFrame + 1)} },
		func() scriptStep { return scriptStep{name: "long", bytes: frame(sendMsg(strings.Repeat("x", 5000)))} },
		func() scriptStep {
			return scriptStep{name: "longer", bytes: frame(sendMsg(strings.Repeat("x", 130<<10)))}
		},
		func() scriptStep { return scriptStep{name: "half a header", bytes: length(0)[:2]} },
		func() scriptStep { return scriptStep{name: "half a frame", bytes: length(9)} },
		func() scriptStep { return scriptStep{name: "time-out", err: os.ErrDeadlineExceeded} },
		func() scriptStep { return scriptStep{name: "reset", err: syscall.ECONNRESET} },
	}
	s := steps[x.r.IntN(len(steps))]()
	if name, do := x.disturb(); do != nil {
		s.name, s.do = s.name+" after "+name, do
	}
	return s
}

// handle answers a request in a random way.
func (x *script) handle(ctx context.Context, _ Peer, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
	reply := func(m *pb.ServerMessage) { x.nc.note("reply: %v; ended: %v", shorten(send(m)), ctx.Err() != nil) }
	x.nc.note("request of %d bytes, state %d, phase %d, working %d, subscribed %d", proto.Size(m), x.c.state.Load(), x.c.phase.Load(), x.c.s.working.Load(), x.c.s.subscribed.Load())
	if name, do := x.disturb(); do != nil {
		x.nc.note("%s", name)
		do()
	}
	switch x.r.IntN(8) {
	case 0:
		x.nc.note("no reply")
	case 1:
		reply(pong())
		reply(response("second"))
	case 2:
		reply(response(strings.Repeat("x", 100<<10)))
	case 3:
		reply(response(strings.Repeat("x", MaxFrame)))
		reply(pong())
	case 4:
		reply(response("a\xffb"))
	case 5:
		raw := &pb.ServerMessage{}
		raw.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 5000, protowire.BytesType), make([]byte, 70<<10)))
		reply(raw)
	default:
		reply(pong())
	}
}

// shorten returns an error without the variable parts of protobuf's texts.
func shorten(err error) string {
	if bad := (*CodecError)(nil); errors.As(err, &bad) {
		return "codec error"
	}
	return fmt.Sprint(err)
}

// TestReportsOfScripts serves connections with random scripts, and compares
// each call and the state at the end.
func TestReportsOfScripts(t *testing.T) {
	var report golden.Reports
	for seed := range uint64(600) {
		synctest.Test(t, func(t *testing.T) {
			x := newScript(t, rand.New(rand.NewPCG(seed, 1)))
			var names []string
			for range 1 + x.r.IntN(6) {
				x.nc.in = append(x.nc.in, x.step())
				names = append(names, x.nc.in[len(x.nc.in)-1].name)
			}
			if x.r.IntN(3) == 0 {
				for range x.r.IntN(4) {
					x.nc.out = append(x.nc.out, scriptWrite{MaxFrame + header, nil})
				}
				for range 1 + x.r.IntN(3) {
					x.nc.out = append(x.nc.out, []scriptWrite{{0, os.ErrDeadlineExceeded}, {smallFrame - 1, os.ErrDeadlineExceeded}, {smallFrame, os.ErrDeadlineExceeded}, {3, syscall.EPIPE}}[x.r.IntN(4)])
				}
			}
			if x.r.IntN(5) == 0 {
				x.nc.errAt = 1 + x.r.IntN(6)
			}
			title := fmt.Sprintf("%d: trusted %v; %s; writes %v; deadline %d fails", seed, x.c.trusted, strings.Join(names, ", "), x.nc.out, x.nc.errAt)
			x.c.serve()
			c := x.c
			x.nc.note("state %d, phase %d, trusted %v, failed %d, timed %v, late %v, last %v, broken %v, hung up %v, canceled %v, held %d", c.state.Load(), c.phase.Load(),
				c.trusted, c.failed, c.timed, c.late, c.farWell, c.broken, c.hungUp, c.ctx.Err() != nil, c.held)
			x.nc.note("%d requests, sequence number %d, working %d, subscribed %d, %d connections, after %v", c.s.requests.Load(), c.seq.Load(), c.s.working.Load(), c.s.subscribed.Load(),
				len(c.s.conns), time.Since(x.nc.start))
			report.Add(title, x.nc.trace.String())
		})
	}
	report.Compare(t, "testdata/reports/scripts.txt.gz")
}
