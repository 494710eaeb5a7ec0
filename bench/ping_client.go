package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

type side struct{ name, path string }

// pinger is a connection to one of the servers.
type pinger interface {
	ping() error
	close()
}

// dial connects the same bare client to either server, so that what differs is
// the server.
func (s side) dial() (*echoClient, error) {
	c, err := net.Dial("unix", s.path)
	if err != nil {
		return nil, err
	}
	return &echoClient{c: c, in: bufio.NewReaderSize(c, 16<<10), buf: make([]byte, 4<<10)}, nil
}

// dialWire connects with the connection that our clients have.
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

// echoClient sends and receives the same bytes, and does not look into them.
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

// readFrame reads a frame into buf, header and payload.
func readFrame(in *bufio.Reader, buf []byte) ([]byte, error) {
	if _, err := io.ReadFull(in, buf[:4]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(buf))
	if n > len(buf)-4 {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	_, err := io.ReadFull(in, buf[4:4+n])
	return buf[:4+n], err
}
