package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/wire/pb"

	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"
)

// TestServeStates starts to serve connections that are idle, evicted, or stopped,
// and compares the calls. A deadline may fail.
func TestServeStates(t *testing.T) {
	const pong = "write 6\n  pong\n"
	const gone = "  error 503 evicted: connection evicted: too many connections, and this one was idle longest: connect again\n"
	for _, tt := range []struct {
		name  string
		state uint32
		errAt int // number of the deadline that fails
		want  string
	}{
		{"idle", idle, 0, "read deadline none\nread 4096: 6\n" + pong + "read 4096: end\nwrite deadline 1s\n"},
		{"idle, no deadline", idle, 1, "read deadline none\nwrite deadline 1s\n"},
		{"evicted", evicted, 0, "read deadline none\nread deadline 1ms\nread 4096: 6\n" + pong + "write deadline 1s\nwrite 107\n" + gone},
		{"evicted, no deadline", evicted, 2, "read deadline none\nread deadline 1ms\nwrite deadline 1s\nwrite 107\n" + gone},
		{"stopped", stopped, 0, "read deadline none\nwrite deadline 1s\n"},
		{"stopped, no deadline", stopped, 1, "read deadline none\nwrite deadline 1s\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{Handler: pinger, limits: Limits{}.withDefaults(), conns: map[*served]bool{}}
			nc := &scriptConn{start: time.Now(), errAt: tt.errAt, in: []scriptStep{{bytes: frameOf(t, &pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}})}}}
			c := servedConn(s, nc)
			c.state.Store(tt.state)
			if c.serve(); nc.trace.String() != tt.want {
				t.Errorf("%s:\n%s\nwant\n%s", tt.name, &nc.trace, tt.want)
			}
		})
	}
}

// TestServeAfterToken compares the calls after a token: the deadline is removed,
// which may fail, and long frames are accepted.
func TestServeAfterToken(t *testing.T) {
	const start = "read deadline 10s\nread 4096: 15\nread deadline 10s\nread deadline none\n"
	for _, tt := range []struct {
		errAt int // number of the deadline that fails
		want  string
	}{
		{0, start + "write 6\n  pong\nread 4096: 4\nwrite deadline 1s\nwrite 69\n  error 400 too_large: frame too large: 16777217 bytes (max 16777216)\n"},
		{3, start},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{Handler: pinger, Token: "secret", limits: Limits{}.withDefaults(), conns: map[*served]bool{}}
			nc := &scriptConn{start: time.Now(), errAt: tt.errAt, in: []scriptStep{{bytes: frameOf(t, auth("secret"))}, {bytes: binary.BigEndian.AppendUint32(nil, MaxFrame+1)}}}
			c := servedConn(s, nc)
			c.trusted, c.max, c.authBy = false, smallFrame, time.Now().Add(s.limits.Header)
			if c.serve(); nc.trace.String() != tt.want {
				t.Errorf("deadline %d fails:\n%s\nwant\n%s", tt.errAt, &nc.trace, tt.want)
			}
		})
	}
}

// TestNextOfBuffered checks that an evicted connection does not answer a request
// that it has buffered.
func TestNextOfBuffered(t *testing.T) {
	nc := &fakeConn{in: frameOf(t, sendMsg("unread"))}
	c := evictedConn(nc)
	c.w = copy(c.in, frameOf(t, sendMsg("buffered")))
	m := new(pb.ClientMessage)
	if err := c.next(m); err != errStopped || m.GetSend() != nil || len(nc.in) == 0 {
		t.Errorf("next: %v, %v", m, err)
	}
}

// evictingConn evicts the connection during the first read, which fails.
type evictingConn struct {
	*fakeConn
	c *served
}

func (c *evictingConn) Read(b []byte) (int, error) {
	if c.c.giveUp(evicted) {
		return 0, io.ErrUnexpectedEOF
	}
	return c.fakeConn.Read(b)
}

// TestNextDuringEviction checks that next reads the request that arrives while
// the server evicts the connection.
func TestNextDuringEviction(t *testing.T) {
	want := sendMsg("arrives during the eviction")
	nc := &evictingConn{fakeConn: &fakeConn{in: frameOf(t, want)}}
	c := evictedConn(nc)
	c.state.Store(idle)
	nc.c = c
	got := new(pb.ClientMessage)
	if err := c.next(got); err != nil || !proto.Equal(got, want) {
		t.Errorf("next: %v, %v", got, err)
	}
}

// TestChunks reads and writes long frames on a connection of a server, in pieces
// of at most a chunk.
func TestChunks(t *testing.T) {
	s := &Server{limits: Limits{}.withDefaults(), inFlight: semaphore.NewWeighted(64 << 20)}
	deadlines := func(nc *pieceConn) *served { return servedConn(s, &stoppedConn{nc}) }
	for _, size := range []int{chunk, 5 * chunk, 20 * chunk, 20*chunk + 1} {
		in := append(binary.BigEndian.AppendUint32(nil, uint32(size)), payload(size)...)
		nc := &pieceConn{in: in, piece: len(in) + 1 - len(in)%2, err: io.EOF}
		b, err := deadlines(nc).frame()
		if err != nil || !bytes.Equal(b, payload(size)) {
			t.Errorf("frame of %d bytes: %d, %v", size, len(b), err)
		}
		if most := slices.Max(nc.reads); most > chunk || size > 4*chunk && most < chunk {
			t.Errorf("frame of %d bytes: reads of up to %d, want %d", size, most, chunk)
		}
	}
	for _, size := range []int{chunk - 1, chunk, chunk + 1, 2 * chunk, 2*chunk + 1, 3*chunk + 2} {
		nc := &pieceConn{room: 1 << 30}
		b := payload(size)
		if err := deadlines(nc).send(b); err != nil || !bytes.Equal(nc.out, b) {
			t.Errorf("send of %d bytes: %d written, %v", size, len(nc.out), err)
		}
		var want []int
		for n := size; n > 0; n -= chunk {
			want = append(want, min(n, chunk))
		}
		if !slices.Equal(nc.writes, want) {
			t.Errorf("send of %d bytes: writes %v, want %v", size, nc.writes, want)
		}
	}
}

// TestWriteOfMended writes a message that becomes one byte too long when its text
// becomes valid.
func TestWriteOfMended(t *testing.T) {
	m := auth(strings.Repeat("x", MaxFrame-10))
	m.GetAuth().Token = "\xff" + m.GetAuth().Token[:MaxFrame-10-(proto.Size(m)-MaxFrame)-2]
	if n := proto.Size(m); n != MaxFrame-1 {
		t.Fatalf("a message of %d bytes", n)
	}
	nc := &pieceConn{room: 1 << 30}
	large, ok := errors.AsType[*TooLargeError](NewConn(nc).Write(m))
	if !ok || *large != (TooLargeError{MaxFrame + 1, MaxFrame}) || len(nc.out) != 0 {
		t.Errorf("%v, %d bytes written", large, len(nc.out))
	}
}

// TestWriteOverLimit writes a message of one byte too many, without a wait for
// memory.
func TestWriteOverLimit(t *testing.T) {
	m := response(strings.Repeat("x", MaxFrame-9))
	if n := proto.Size(m); n != MaxFrame+1 {
		t.Fatalf("a message of %d bytes", n)
	}
	s := &Server{limits: Limits{Progress: time.Millisecond}.withDefaults(), inFlight: semaphore.NewWeighted(MaxFrame)}
	nc := &deadlineConn{}
	large, ok := errors.AsType[*TooLargeError](servedConn(s, nc).Write(m))
	if !ok || *large != (TooLargeError{MaxFrame + 1, MaxFrame}) || len(nc.out) != 0 {
		t.Errorf("%v, %d bytes written", large, len(nc.out))
	}
}

// countingCtx counts the contexts that depend on it.
type countingCtx struct {
	context.Context
	done chan struct{}
	n    atomic.Int64
}

func (c *countingCtx) Done() <-chan struct{} { return c.done }

func (c *countingCtx) AfterFunc(func()) func() bool {
	c.n.Add(1)
	return sync.OnceValue(func() bool { c.n.Add(-1); return true })
}

// TestReserve reserves memory that is free, becomes free, or does not. No
// context remains.
func TestReserve(t *testing.T) {
	for _, tt := range []struct {
		name        string
		taken, free int64 // free more after a second
		cut         bool  // end the connection after a second
		took        time.Duration
		want        string
	}{
		{"free", 6, 0, false, 0, ""}, {"becomes free", 7, 1, false, time.Second, ""},
		{"remains taken", 8, 1, false, 30 * time.Second, "too many bytes in flight: retry the request"}, {"connection ends", 10, 0, true, time.Second, "stopped"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{limits: Limits{}.withDefaults(), inFlight: semaphore.NewWeighted(10)}
			c := servedConn(s, &deadlineConn{})
			defer c.cancel()
			counting := &countingCtx{Context: context.Background(), done: make(chan struct{})}
			if !tt.cut {
				c.ctx = counting
			}
			s.inFlight.TryAcquire(tt.taken)
			began := time.Now()
			go func() {
				time.Sleep(time.Second)
				s.inFlight.Release(tt.free)
				if tt.cut {
					c.cancel()
				}
			}()
			err := c.reserve(4)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tt.want || time.Since(began) != tt.took || counting.n.Load() != 0 {
				t.Errorf("%s: %v after %v, %d contexts", tt.name, err, time.Since(began), counting.n.Load())
			}
			if err == nil {
				c.release(4)
			}
			time.Sleep(time.Minute)
			if !s.inFlight.TryAcquire(10-tt.taken+tt.free) || s.inFlight.TryAcquire(1) {
				t.Errorf("%s: a wrong number of bytes is reserved", tt.name)
			}
		})
	}
}

// TestFrameBeforeToken announces frames around the limit before the token.
func TestFrameBeforeToken(t *testing.T) {
	const refusal = "  error 401 unauthorized: the first message must be the token\n"
	for size, want := range map[uint32]string{smallFrame: refusal + "read 4096: ", smallFrame + 1: refusal + "close\n"} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{Token: "secret", Handler: pinger}
			s.start.Do(s.init)
			frame := binary.BigEndian.AppendUint32(nil, size)
			if size <= smallFrame {
				frame = append(frame, frameOf(t, sendMsg(strings.Repeat("x", int(size)-6)))[header:]...)
			}
			nc := &scriptConn{start: time.Now(), in: []scriptStep{{bytes: frame, do: func() { time.Sleep(time.Second) }}}}
			s.admit(nc)
			s.mu.Lock()
			var c *served
			for c = range s.conns {
			}
			s.mu.Unlock()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if c == nil || c.ctx.Err() == nil {
				t.Errorf("frame of %d bytes: the context of the connection is active", size)
			}
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if !strings.Contains(nc.trace.String(), want) || strings.Count(nc.trace.String(), "error") != 1 || !strings.HasSuffix(nc.trace.String(), "close\n") {
				t.Errorf("frame of %d bytes:\n%s", size, &nc.trace)
			}
		})
	}
}

// TestAdmitNumbers admits connections without requests. Each gets the next number.
func TestAdmitNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Token: "secret", Handler: pinger}
		s.start.Do(s.init)
		var numbers []uint64
		for range 3 {
			here, there := net.Pipe()
			defer here.Close()
			s.admit(there)
			s.mu.Lock()
			most := uint64(0)
			for c := range s.conns {
				most = max(most, c.seq.Load())
			}
			s.mu.Unlock()
			numbers = append(numbers, most)
		}
		if !slices.Equal(numbers, []uint64{1, 2, 3}) {
			t.Errorf("numbers %v", numbers)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestShutdownBeforeServe shuts down a server without listeners. A listener that
// it gets later is closed.
func TestShutdownBeforeServe(t *testing.T) {
	s := &Server{}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	l := &listener{addr: &net.UnixAddr{}}
	if err := s.Serve(l); err != nil || !l.closed {
		t.Errorf("Serve: %v, closed %v", err, l.closed)
	}
}

// TestRetryBacklogLimit dials for exactly the limit, which allows one more dial.
func TestRetryBacklogLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		_, err := retryBacklog(t.Context(), "unix", func() (net.Conn, error) {
			calls++
			time.Sleep(crowdWait)
			return nil, syscall.EAGAIN
		})
		if calls != 2 || !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}
