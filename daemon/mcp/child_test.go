package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"crabmem/daemon/mcpserver/mcptest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// plainLog returns a log without times, and its text.
func plainLog() (*slog.Logger, *mcptest.Buffer) {
	var b mcptest.Buffer
	return slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), &b
}

// newChild returns a child without a process.
func newChild(in input) (*child, *mcptest.Buffer) {
	log, text := plainLog()
	return &child{
		log: log, in: in, writing: make(chan struct{}, 1), messages: make(chan jsonrpc.Message, 16), closed: make(chan struct{}),
	}, text
}

// readerInput is a pipe as the input of a child that is not written to.
type readerInput struct{ io.ReadCloser }

func (readerInput) Write([]byte) (int, error)        { return 0, errors.New("unexpected write") }
func (readerInput) SetWriteDeadline(time.Time) error { return errors.New("unexpected deadline") }

// TestReadEnds checks what Read returns if its context ends, or the connection is
// closed while the output is paced or messages are waiting.
func TestReadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
		c, _ := newChild(nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("other"))
		if m, err := c.Read(ctx); m != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context: %v, %v", m, err)
		}
		for name, output := range map[string]string{"paced": strings.Repeat("\n", 4010), "messages waiting": strings.Repeat(ping, 40)} {
			stdin, other := io.Pipe()
			defer other.Close()
			c, _ := newChild(readerInput{stdin})
			c.readers.Go(func() { c.read(strings.NewReader(output)) })
			synctest.Wait()
			if err := c.Close(); err != nil {
				t.Errorf("%s: close: %v", name, err)
			}
			began := time.Now()
			c.readers.Wait()
			if took := time.Since(began); took != 0 {
				t.Errorf("%s: reading ended %v after the close", name, took)
			}
			for n := range 100 { // messages that are waiting may come before the error
				if m, err := c.Read(t.Context()); (m != nil) == (err != nil) || err != nil && err != io.EOF {
					t.Errorf("%s: read %d after the close: %v, %v", name, n, m, err)
				}
			}
		}
	})
}

// TestLogLimit counts the logged lines of a child's standard error.
func TestLogLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newChild(nil)
		in, out := io.Pipe()
		c.readers.Go(func() { c.readLog(in) })
		for _, tt := range []struct {
			lines, logged, dropping int
			then                    time.Duration
		}{{150, 150, 0, 30 * time.Second}, {50, 50, 0, 30 * time.Second}, {3, 0, 1, time.Millisecond}, {203, 200, 1, 0}} {
			before := log.String()
			io.WriteString(out, strings.Repeat("x\n", tt.lines))
			synctest.Wait()
			text := log.String()[len(before):]
			if logged, dropping := strings.Count(text, `msg="MCP server log"`), strings.Count(text, "logs too much"); logged != tt.logged || dropping != tt.dropping {
				t.Errorf("%d lines: %d logged, %d warnings", tt.lines, logged, dropping)
			}
			time.Sleep(tt.then)
		}
		out.Close()
		c.readers.Wait()
	})
}

// TestWriteOneLine checks that a message is written as one line, and that errors
// of the pipe close the connection.
func TestWriteOneLine(t *testing.T) {
	const text = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	message, err := jsonrpc.DecodeMessage([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []stdin{{}, {deadlineErr: io.ErrClosedPipe}, {writeErr: io.ErrShortWrite}, {writeErr: io.ErrClosedPipe, closeErr: io.ErrUnexpectedEOF}} {
		in := c
		child, _ := newChild(&in)
		err, closed := child.Write(t.Context(), message), in.closed
		cause := c.deadlineErr
		if cause == nil {
			cause = c.writeErr
		}
		want := text + "\n"
		if c.deadlineErr != nil {
			want = ""
		}
		if err != cause || closed != (cause != nil) || in.text != want {
			t.Errorf("%+v: %v, closed %v, wrote %q", c, err, closed, in.text)
		}
		if err := child.Close(); !closed && err != c.closeErr || child.Close() != nil || !in.closed {
			t.Errorf("%+v: close: %v", c, err)
		}
	}
}

// stdin is an input that fails.
type stdin struct {
	deadlineErr, writeErr, closeErr error

	text   string
	closed bool
}

func (s *stdin) SetWriteDeadline(time.Time) error { return s.deadlineErr }
func (s *stdin) Write(p []byte) (int, error)      { s.text += string(p); return len(p), s.writeErr }
func (s *stdin) Close() error                     { s.closed = true; return s.closeErr }

// endless is a reader of a line that does not end. It counts the bytes.
type endless struct{ n int }

func (e *endless) Read(b []byte) (int, error) {
	e.n += len(b)
	return copy(b, strings.Repeat("x", len(b))), nil
}

// TestReadLongLine checks that reading ends after one buffer over the limit of a
// message, without the end of the line.
func TestReadLongLine(t *testing.T) {
	c, _ := newChild(nil)
	var out endless
	c.read(&out)
	const want = "message exceeds 8 MiB"
	if c.readErr.Error() != want || out.n != maxFrame+64<<10 {
		t.Errorf("read %d bytes: %v, want %d: %s", out.n, c.readErr, maxFrame+64<<10, want)
	}
	for more, fails := range map[int]bool{0: false, 1: true} {
		c, _ := newChild(nil)
		c.read(io.MultiReader(strings.NewReader(strings.Repeat(" ", maxFrame+more-1)+"\n"), iotest.ErrReader(io.ErrUnexpectedEOF)))
		if (c.readErr.Error() == want) != fails {
			t.Errorf("a line of %d bytes: %v", maxFrame+more, c.readErr)
		}
	}
}
