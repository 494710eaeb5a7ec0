package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

// startServer runs this program again, as a server, and waits until it listens.
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

func handle(_ context.Context, _ wire.Peer, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
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

// echo sends back what it gets, and for a stream the frames of one, each with
// a write.
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
		panic(err) // it is one of the two above
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}
