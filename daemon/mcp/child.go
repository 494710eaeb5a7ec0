package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/daemon/lazyregexp"
	"crabmem/daemon/process"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	grace        = 2 * time.Second  // to exit by itself, and again after SIGTERM
	writeTimeout = 10 * time.Second // to read a request
	maxLogLine   = 2 << 10          // bytes of a line on standard error
	maxLogLines  = 200              // in a minute
)

// child is a server that runs as a child process and exchanges messages, one per
// line, on its standard input and output. It is a [sdk.Transport] and its own connection.
type child struct {
	log     *slog.Logger
	repair  repairer
	process *process.Process

	in       input                // its standard input
	waiting  atomic.Int32         // writes
	writing  chan struct{}        // has one while a message is written
	messages chan jsonrpc.Message // closed at the end of its output
	readErr  error                // why that was; read after messages is closed

	closing sync.Once
	closed  chan struct{} // no more is read or written
	readers sync.WaitGroup

	lastLine string // on standard error; read after readers
}

// input is a pipe, of which the other end may not be read.
type input interface {
	io.WriteCloser
	SetWriteDeadline(time.Time) error
}

// spawn starts the server's command in a separate process group.
func (s *server) spawn() (*child, error) {
	p, err := process.Start(s.Dir, s.Env, s.Command, s.Args...)
	if err != nil {
		return nil, err
	}
	c := &child{
		log: s.log, repair: repairer{s.odd}, process: p, in: p.In,
		writing: make(chan struct{}, 1), messages: make(chan jsonrpc.Message, 16), closed: make(chan struct{}),
	}
	c.log.Debug("an MCP server was started", "pid", p.Pid)
	c.readers.Go(func() { c.read(p.Out) })
	c.readers.Go(func() { c.readLog(p.Err) })
	return c, nil
}

// end ends the process and whatever it started, and adds to err how it ended
// when that was by itself.
func (c *child) end(err error) error {
	alone := false
	select {
	case <-c.process.Exited:
		alone = true
	case <-time.After(grace / 10): // its output may end a little earlier
	}
	c.Close() //nolint:errcheck // a pipe
	c.process.Stop(grace, grace)
	c.process.Drain(grace / 10)
	c.readers.Wait()
	c.process.Close()
	if !alone || err == nil {
		return err
	}
	how := "process exited"
	if c.process.Status != nil {
		how = c.process.Status.Error()
	}
	if c.lastLine != "" {
		how += ": " + c.lastLine
	}
	return errors.New(how)
}

// Connect is for the SDK.
func (c *child) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID implements an interface of the SDK. A child has no session ID.
func (c *child) SessionID() string { return "" }

// Read returns the next message.
func (c *child) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m, ok := <-c.messages:
		if !ok {
			return nil, c.readErr
		}
		return m, nil
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends a message. If the server does not read, Write closes the
// connection, because a partial message cannot be completed; all queued
// messages then fail.
func (c *child) Write(_ context.Context, m jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	defer c.waiting.Add(-1)
	if c.waiting.Add(1) > maxBusy {
		c.Close() //nolint:errcheck // a pipe
		return fmt.Errorf("write to server: %d messages queued: server is not reading", maxBusy)
	}
	c.writing <- struct{}{}
	defer func() { <-c.writing }()
	if err = c.in.SetWriteDeadline(time.Now().Add(writeTimeout)); err == nil {
		_, err = c.in.Write(append(b, '\n'))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("write to server: server is not reading: %w", err)
	}
	if err != nil {
		c.Close() //nolint:errcheck // a pipe
	}
	return err
}

// Close closes the server's standard input, which asks it to exit.
func (c *child) Close() (err error) {
	c.closing.Do(func() {
		close(c.closed)
		err = c.in.Close()
	})
	return err
}

// read passes the messages on until the output ends. It ignores output that is
// not a message, which many programs print.
func (c *child) read(out io.Reader) {
	defer close(c.messages)
	c.readErr = io.EOF // if Close ends read
	r := bufio.NewReaderSize(out, 64<<10)
	noise, header := false, false
	var p process.Pace
	for {
		line, err := process.ReadLine(r, maxFrame)
		var size process.Shape
		if tooMany := size.Add(line); tooMany != nil {
			c.readErr = tooMany
			return
		}
		list := c.repair.decode(line)
		if !p.Wait(1+len(list), len(line), c.closed) {
			return
		}
		for _, m := range list {
			select {
			case c.messages <- m:
			case <-c.closed:
				return
			}
		}
		empty := len(bytes.TrimSpace(line)) == 0
		if empty && header {
			c.readErr = errors.New("server sends Content-Length headers, as language servers do: MCP requires one message per line")
			return
		}
		header = !noise && list == nil && frameHeader().Match(line)
		if !empty && !noise && list == nil {
			noise = true
			c.log.Warn("ignored standard output of an MCP server: not a message", "text", clipped(string(line), 200))
		}
		if err != nil {
			c.readErr = err
			return
		}
	}
}

// frameHeader matches the header of a message of the Language Server Protocol.
var frameHeader = lazyregexp.New(`(?i)^Content-Length:\s*[0-9]+\s*$`)

// decode returns the messages of a line, which may be a batch, or nil.
func (r *repairer) decode(line []byte) []jsonrpc.Message {
	line = bytes.TrimSpace(line)
	texts := [][]byte{}
	var batch []json.RawMessage
	if len(line) > 0 && line[0] == '[' && json.Unmarshal(line, &batch) == nil {
		for _, raw := range batch {
			texts = append(texts, r.message(raw))
		}
	} else {
		texts = r.messages(line)
	}
	var list []jsonrpc.Message
	for _, text := range texts {
		if m, err := jsonrpc.DecodeMessage(text); err == nil {
			list = append(list, m)
		}
	}
	return list
}

// readLog logs the server's standard error, within limits.
func (c *child) readLog(diag io.Reader) {
	minute, lines := time.Now(), 0
	process.Lines(diag, maxLogLine, func(text string) {
		text = oneLine(text)
		c.lastLine = clipped(text, 300)
		if time.Since(minute) > time.Minute {
			minute, lines = time.Now(), 0
		}
		if lines++; lines <= maxLogLines {
			c.log.Info("MCP server log", "text", text)
		} else if lines == maxLogLines+1 {
			c.log.Warn("an MCP server logs too much; dropping its output for the rest of this minute")
		}
	})
}
