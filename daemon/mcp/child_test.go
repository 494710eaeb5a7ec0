package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"crabmem/daemon/mcpserver/mcptest"
	"crabmem/fuzz/golden"

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
		log: log, in: in, writing: make(chan struct{}, 1), messages: make(chan jsonrpc.Message, 16), closed: make(chan struct{}), exited: make(chan struct{}),
	}, text
}

// events records events with their times in a bubble.
type events struct {
	mu    sync.Mutex
	began time.Time
	text  strings.Builder
	hook  func(event string)
}

func (e *events) add(event string) {
	e.mu.Lock()
	fmt.Fprintf(&e.text, "%v %s\n", time.Since(e.began), event)
	e.mu.Unlock()
	if e.hook != nil {
		e.hook(event)
	}
}

// sorted returns the events of concurrent goroutines.
func (e *events) sorted() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(slices.Sorted(strings.Lines(e.text.String())), "")
}

// closer records the close of a pipe.
type closer struct {
	io.ReadCloser
	*events
	name string
}

func (c closer) Close() error { c.add("close " + c.name); return c.ReadCloser.Close() }

func (c closer) Write([]byte) (int, error)        { return 0, errors.New("unexpected write") }
func (c closer) SetWriteDeadline(time.Time) error { return errors.New("unexpected deadline") }

// TestReportsOfEnds compares how a child is ended that exits by itself, when its
// input is closed, or when it is terminated or killed.
func TestReportsOfEnds(t *testing.T) {
	var r golden.Reports
	for _, on := range []string{"0s", "199ms", "201ms", "2199ms", "2201ms", "close in", "terminate", "kill"} {
		for _, c := range []struct {
			err, status error
			line        string
		}{{}, {line: "last"}, {err: io.EOF}, {err: io.EOF, line: "last"}, {err: io.EOF, status: errors.New("exit status 3")}, {io.EOF, errors.New("exit status 3"), "last"}, {status: errors.New("exit status 3")}} {
			synctest.Test(t, func(t *testing.T) {
				exited := make(chan struct{})
				log := &events{began: time.Now(), hook: func(event string) {
					if event == on {
						close(exited)
					}
				}}
				stdin, other := io.Pipe()
				defer other.Close()
				child, _ := newChild(closer{stdin, log, "in"})
				child.stops = []func(){func() { log.add("terminate") }, func() { log.add("kill") }}
				for name, file := range map[string]*io.ReadCloser{"out": &child.out, "err": &child.err} {
					pipe, end := io.Pipe()
					defer end.Close()
					*file = closer{pipe, log, name}
					child.readers.Go(func() { io.Copy(io.Discard, pipe); time.Sleep(time.Millisecond) })
				}
				child.lastLine = c.line
				go func() {
					<-exited
					child.status = c.status
					close(child.exited)
				}()
				if d, err := time.ParseDuration(on); err == nil {
					time.Sleep(time.Millisecond) // no timer of the child fires at this time
					log.began = time.Now()
					if d == 0 {
						close(exited)
						synctest.Wait()
					} else {
						time.AfterFunc(d, func() { close(exited) })
					}
				}
				err := child.end(c.err)
				log.add(fmt.Sprintf("returned %v", err))
				r.Add(fmt.Sprintf("exits at %s with %v; %v, line %q", on, c.status, c.err, c.line), log.text.String())
			})
		}
	}
	r.Compare(t, "testdata/reports/ends.txt.gz")
}

// TestReportsOfOutput compares the messages, the log, and the time that a child's
// output takes.
func TestReportsOfOutput(t *testing.T) {
	const ping, reply = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":"x","result":{}}`
	broken := errors.New("broken pipe")
	pad := func(n int) string { return strings.Repeat(" ", n-len(ping)-1) + ping + "\n" }
	outputs := map[string]string{}
	for _, text := range []string{
		"", "\n", " \n\t\n", ping, ping + "\n", " " + ping + " \r\n", ping + "\n\n" + reply + "\n", "x\n", "x\ny\n" + ping + "\nz\n", "[]\n", "[]\nx\n", "[" + ping + "," + reply + "]\n",
		"[1," + ping + ",null,[]]\n", "[" + ping + "\n" + reply, "[1]\nx\n", "{}\n", `{"jsonrpc":"1.0"}` + "\n", ping + reply + "\n" + ping, "null\n", `"text"` + "\n", "x" + strings.Repeat("é", 150) + "\n", strings.Repeat("y", 200) + "\n", strings.Repeat("y", 201) + "\n",
		strings.Repeat(ping+"\n", 40), "\xff\x00\n",
	} {
		outputs[fmt.Sprintf("%.200q", text)] = text
	}
	outputs["at the limit"] = pad(maxFrame) + ping
	outputs["above the limit"] = ping + "\n" + pad(maxFrame+1) + ping
	outputs["values at the limit"] = strings.Repeat(",", maxValues) + "\n" + ping
	outputs["values above the limit"] = ping + "\n" + strings.Repeat(",", maxValues+1) + "\n" + ping
	outputs["4001 lines"] = strings.Repeat("\n", 4001)
	outputs["4000 lines"] = strings.Repeat("\n", 4000)
	outputs["8001 messages in batches"] = strings.Repeat("["+strings.Repeat(ping+",", 7)+ping+"]\n", 1000) + ping
	var r golden.Reports
	for _, title := range sortedKeys(outputs) {
		for _, end := range []error{io.EOF, broken} {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Hour)
				c, log := newChild(nil)
				began := time.Now()
				c.readers.Go(func() { c.read(io.MultiReader(strings.NewReader(outputs[title]), iotest.ErrReader(end))) })
				var text strings.Builder
				n := 0
				for {
					m, err := c.Read(t.Context())
					if err != nil {
						fmt.Fprintf(&text, "after %v and %d messages: %v\n", time.Since(began), n, err)
						break
					}
					if n++; n < 5 {
						b, err := jsonrpc.EncodeMessage(m)
						fmt.Fprintf(&text, "%s %v\n", b, err)
					}
				}
				c.readers.Wait()
				r.Add(fmt.Sprintf("%s, then %v", title, end), text.String()+log.String())
			})
		}
	}
	r.Compare(t, "testdata/reports/output.txt.gz")
}

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
			c, _ := newChild(closer{stdin, &events{began: time.Now()}, "in"})
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

// TestReadLine compares lines at the limit and above it, in one part or several.
func TestReadLine(t *testing.T) {
	for n := 1; n < 70; n++ {
		text := strings.Repeat("x", n-1) + "\n"
		r := bufio.NewReaderSize(strings.NewReader(text+text), 16)
		line, err := readLine(r, n)
		if again, aerr := readLine(r, n); string(line) != text || string(again) != text || err != nil || aerr != nil {
			t.Errorf("%d bytes: %q, %v; %q, %v", n, line, err, again, aerr)
		}
		if line, err := readLine(bufio.NewReaderSize(strings.NewReader(text), 16), n-1); line != nil || err == nil || err.Error() != "message exceeds 0 MiB" {
			t.Errorf("%d bytes, one too many: %q, %v", n, line, err)
		}
		if line, err := readLine(bufio.NewReaderSize(strings.NewReader(text[:n-1]), 16), n-1); string(line) != text[:n-1] || err != io.EOF {
			t.Errorf("%d bytes without an end: %q, %v", n-1, line, err)
		}
	}
}

// TestReportsOfLogs compares how the standard error of a child is logged.
func TestReportsOfLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r golden.Reports
		c, log := newChild(nil)
		in, out := io.Pipe()
		c.readers.Go(func() { c.readLog(in) })
		seen := 0
		write := func(title, text string) {
			io.WriteString(out, text)
			synctest.Wait()
			all := log.String()
			r.Add(title, fmt.Sprintf("last %d: %q\n%s", len(c.lastLine), c.lastLine, all[seen:]))
			seen = len(all)
		}
		for _, text := range []string{"one\n", "\n", " \t\r\n", "two \x1b[2J\r\n", "part", "ly\n", "\xff\xfe<b>\n", strings.Repeat("é", 170) + "\n"} {
			write(fmt.Sprintf("%q", text), text)
		}
		for n := -2; n <= 2; n++ {
			text := strings.Repeat("z", 299) + strings.Repeat("a", maxLogLine-299+n) + "\n"
			write(fmt.Sprintf("the limit %+d", n), text)
		}
		write("three times the limit", strings.Repeat("b", 3*maxLogLine)+"\n")
		time.Sleep(30 * time.Second)
		for n := range 200 {
			write(fmt.Sprint("line ", n), fmt.Sprintln("line", n))
		}
		time.Sleep(30 * time.Second) // not more than a minute after the first
		write("at a minute", "at a minute\n")
		time.Sleep(time.Second)
		for n := range 203 {
			write(fmt.Sprint("line ", n, " of the next minute"), fmt.Sprintln("line", n))
		}
		time.Sleep(59 * time.Second)
		write("within the next minute", "within\n")
		time.Sleep(time.Second + time.Millisecond)
		write("after the next minute", "after\n")
		out.Close()
		c.readers.Wait()
		r.Compare(t, "testdata/reports/logs.txt.gz")
	})
}

// TestReportsOfWrites compares writes to a child that reads, that does not read,
// and that has closed its input.
func TestReportsOfWrites(t *testing.T) {
	message, err := jsonrpc.DecodeMessage([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	var r golden.Reports
	for _, n := range []int{1, 2, maxBusy, maxBusy + 1} {
		for _, reads := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				defer there.Close()
				c, _ := newChild(here)
				began := time.Now()
				results := map[string]int{}
				var mu sync.Mutex
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() {
						err := c.Write(t.Context(), message)
						mu.Lock()
						defer mu.Unlock()
						results[fmt.Sprintf("after %v: %v", time.Since(began), err)]++
					})
				}
				synctest.Wait()
				if reads {
					wg.Go(func() { io.Copy(io.Discard, there) })
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				select {
				case <-c.closed:
					results["closed"]++
				default:
					results["not closed"]++
					results[fmt.Sprint("next: ", c.Write(t.Context(), message))]++
				}
				results[fmt.Sprint("waiting: ", c.waiting.Load())]++
				results[fmt.Sprint("closed: ", c.Close())]++
				wg.Wait()
				r.Addf(fmt.Sprintf("%d writes, read %v", n, reads), "%v", results)
			})
		}
	}
	r.Compare(t, "testdata/reports/writes.txt.gz")
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
	if want := "message exceeds 8 MiB"; c.readErr.Error() != want || out.n != maxFrame+64<<10 {
		t.Errorf("read %d bytes: %v, want %d: %s", out.n, c.readErr, maxFrame+64<<10, want)
	}
}
