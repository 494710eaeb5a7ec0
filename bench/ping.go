package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"crabmem/bench/measure"
	"crabmem/crmem/vfs"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
)

const (
	rounds  = 15
	turns   = 150  // turns of one client
	turn    = 300  // pings per turn
	pings   = 4000 // pings per client in a round
	clients = 8
	chunks  = 1000
	streams = 20 // streams per round
)

// ping compares the daemon's protocol with an echo server with the same framing.
// Each server is a separate process, and each figure is a ratio.
func ping(f *flag.FlagSet) func(*measure.Limits) error {
	serve := f.String("serve", "", "run this `server`: echo or wire")
	return func(t *measure.Limits) error {
		if *serve != "" {
			return runServer(*serve, f.Arg(0))
		}
		return inTemp("", func(dir string) error {
			var sides [2]side
			for i, name := range []string{"echo", "wire"} {
				path := filepath.Join(dir, name+".sock")
				stop, err := startServer(name, path)
				if err != nil {
					return err
				}
				defer stop()
				sides[i] = side{name, path}
			}
			for _, f := range []func(*measure.Limits, [2]side) error{latency, throughput, streaming} {
				if err := f(t, sides); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// latency compares the median round trip of one client.
func latency(t *measure.Limits, sides [2]side) error {
	echo, err := sides[0].dial()
	if err != nil {
		return err
	}
	defer echo.close()
	bare, err := sides[1].dial()
	if err != nil {
		return err
	}
	defer bare.close()
	full, err := sides[1].dialWire()
	if err != nil {
		return err
	}
	defer full.close()
	var calls []func(int) error
	for _, c := range []pinger{echo, bare, full} {
		calls = append(calls, func(int) error { return c.ping() })
	}
	took, err := measure.Turns(turns, turn, calls...)
	if err != nil {
		return err
	}
	var p50 [3]float64
	for i := range took {
		p50[i] = measure.Micros(measure.Percentile(took[i], 50))
	}
	fmt.Printf("ping p50: echo %.1f µs, wire %.1f µs, wire with its client %.1f µs\n", p50[0], p50[1], p50[2])
	t.Most("ping p50, relative to an echo", p50[1]/p50[0], 1.3, "x")
	return nil
}

// throughput compares the round trips per second of eight concurrent clients.
func throughput(t *measure.Limits, sides [2]side) error {
	var best [2]float64
	for range rounds {
		for i, s := range sides {
			start := time.Now()
			if err := s.together(func(c *echoClient) error {
				for range pings {
					if err := c.ping(); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				return err
			}
			best[i] = max(best[i], clients*pings/time.Since(start).Seconds())
		}
	}
	fmt.Printf("round trips per second, %d clients: echo %.0f, wire %.0f\n", clients, best[0], best[1])
	t.Least("round trips per second, relative to an echo", best[1]/best[0], 0.7, "x")
	return nil
}

// together runs f with all clients concurrently.
func (s side) together(f func(*echoClient) error) error {
	var g errgroup.Group
	for range clients {
		c, err := s.dial()
		if err != nil {
			return err
		}
		defer c.close()
		g.Go(func() error { return f(c) })
	}
	return g.Wait()
}

// streaming compares the time of a stream of 1,000 chunks with an equal stream from the
// echo server. The echo server makes one raw write per frame.
func streaming(t *measure.Limits, sides [2]side) error {
	var cs [2]*echoClient
	for i, s := range sides {
		c, err := s.dial()
		if err != nil {
			return err
		}
		defer c.close()
		cs[i] = c
	}
	best, err := measure.Fastest(rounds*streams, cs[0].stream, cs[1].stream)
	if err != nil {
		return err
	}
	fmt.Printf("a stream of %d chunks: raw writes %v, wire %v\n", chunks, best[0], best[1])
	t.Most("a stream, relative to one raw write per frame", measure.Ratio(best[1], best[0]), 2, "x")
	return nil
}

type side struct{ name, path string }

// pinger is a connection to one of the servers.
type pinger interface {
	ping() error
	close()
}

// dial connects a bare client to the server. The client is the same for both
// servers.
func (s side) dial() (*echoClient, error) {
	c, err := net.Dial("unix", s.path)
	if err != nil {
		return nil, err
	}
	return &echoClient{c: c, in: bufio.NewReaderSize(c, 16<<10), buf: make([]byte, 4<<10)}, nil
}

// dialWire connects with package wire, as the daemon's clients do.
func (s side) dialWire() (pinger, error) {
	c, err := wire.Dial(context.Background(), wire.Addr{Network: "unix", Address: s.path})
	return wireClient{c}, err
}

type wireClient struct{ *wire.Conn }

func (c wireClient) close() { c.Conn.Close() }

func (c wireClient) ping() error {
	if err := c.Write(&pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}}); err != nil {
		return err
	}
	var m pb.ServerMessage
	if err := c.Read(&m); err != nil {
		return err
	}
	if m.GetPong() == nil {
		return fmt.Errorf("ping: %v", &m)
	}
	return nil
}

// echoClient sends fixed bytes and reads frames without decoding them.
type echoClient struct {
	c   net.Conn
	in  *bufio.Reader
	buf []byte
}

func (c *echoClient) close() { c.c.Close() }

var pingFrame = []byte{0, 0, 0, 2, 0x1a, 0}

func (c *echoClient) ping() error {
	if _, err := c.c.Write(pingFrame); err != nil {
		return err
	}
	_, err := readFrame(c.in, c.buf)
	return err
}

func (c *echoClient) stream() error {
	if _, err := c.c.Write([]byte{0, 0, 0, 2, 0x12, 0}); err != nil {
		return err
	}
	for range chunks + 1 {
		if _, err := readFrame(c.in, c.buf); err != nil {
			return err
		}
	}
	return nil
}

// readFrame reads the header and the payload of a frame into buf.
func readFrame(in *bufio.Reader, buf []byte) ([]byte, error) {
	if _, err := io.ReadFull(in, buf[:4]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(buf))
	if n > len(buf)-4 {
		return nil, fmt.Errorf("frame of %d bytes: too long", n)
	}
	_, err := io.ReadFull(in, buf[4:4+n])
	return buf[:4+n], err
}

// startServer runs this program as a server in a child process and waits until it
// listens.
func startServer(name, path string) (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "ping", "-serve", name, path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		in.Close()
		_ = cmd.Wait()
	}
	for range 500 {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
			return stop, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	return nil, errors.New(name + " does not listen")
}

// runServer serves until standard input ends.
func runServer(name, path string) error {
	l, err := wire.ListenUnix(vfs.OS{}, path)
	if err != nil {
		return err
	}
	if name == "wire" {
		s := &wire.Server{Handler: handle}
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = s.Shutdown(ctx)
		}()
		return s.Serve(l)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		l.Close()
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return nil
		}
		go echo(c)
	}
}

func chunkMessage() *pb.ServerMessage {
	return &pb.ServerMessage{Msg: &pb.ServerMessage_Stream{Stream: &pb.StreamEvent{Event: &pb.StreamEvent_Chunk{
		Chunk: &pb.StreamChunk{Content: "a word or two of the answer"}}}}}
}

func endMessage() *pb.ServerMessage {
	return &pb.ServerMessage{Msg: &pb.ServerMessage_Stream{Stream: &pb.StreamEvent{Event: &pb.StreamEvent_End{End: &pb.StreamEnd{}}}}}
}

func handle(_ context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
	if m.GetStream() == nil {
		_ = send(&pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}})
		return
	}
	for range chunks {
		if send(chunkMessage()) != nil {
			return
		}
	}
	_ = send(endMessage())
}

// echo returns each received frame. For a stream request it sends the frames of a
// stream, each with one write.
func echo(c net.Conn) {
	defer c.Close()
	in, buf := bufio.NewReaderSize(c, 4<<10), make([]byte, 4<<10)
	chunk, end := frameOf(chunkMessage()), frameOf(endMessage())
	for {
		f, err := readFrame(in, buf)
		if err != nil {
			return
		}
		if len(f) > 4 && f[4] == 0x12 {
			for range chunks {
				if _, err := c.Write(chunk); err != nil {
					return
				}
			}
			f = end
		}
		if _, err := c.Write(f); err != nil {
			return
		}
	}
}

func frameOf(m *pb.ServerMessage) []byte {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 4), m)
	if err != nil {
		panic(err) // the two messages are valid
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}
