package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

// scriptConn is the connection of a server whose reads follow a script. It
// records each call.
type scriptConn struct {
	net.Conn
	start time.Time
	in    []scriptStep
	errAt int // which deadline fails, from 1
	sent  []byte
	mu    sync.Mutex
	set   int // deadlines
	trace strings.Builder
}

// scriptStep is a read: bytes or an error. Before it, do runs.
type scriptStep struct {
	bytes []byte
	do    func()
}

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
	c.note("read %d: %d", len(b), n)
	if step.bytes = step.bytes[n:]; len(step.bytes) == 0 {
		c.in = c.in[1:]
	}
	return n, nil
}

func (c *scriptConn) Write(b []byte) (int, error) {
	n := len(b)
	// The texts of protobuf contain a space or, in some builds, U+00A0.
	c.note("write %d", n-bytes.Count(b, nbsp))
	c.sent = append(c.sent, b...)
	for len(c.sent) >= header && len(c.sent) >= header+int(binary.BigEndian.Uint32(c.sent)) {
		frame := c.sent[:header+int(binary.BigEndian.Uint32(c.sent))]
		c.sent = c.sent[len(frame):]
		c.note("  %s", describe(frame[header:]))
	}
	return n, nil
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
