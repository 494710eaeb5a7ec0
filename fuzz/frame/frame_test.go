// Package frame fuzzes the wire protocol of the daemon. For any bytes, the server
// must send the response that an independent parser expects for each frame. It
// must then respond to the next client.
package frame

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const maxFrame = 16777216

// operation returns the name of a message's request, or "".
func operation(m proto.Message) string {
	r := m.ProtoReflect()
	if f := r.WhichOneof(r.Descriptor().Oneofs().ByName("msg")); f != nil {
		return string(f.Name())
	}
	return ""
}

// listen starts a server that responds to each request with the request's name.
func listen(f *testing.F) (path string) {
	dir, err := os.MkdirTemp("", "frame")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "s")
	l, err := wire.ListenUnix(vfs.OS{}, path)
	if err != nil {
		f.Fatal(err)
	}
	s := &wire.Server{Handler: func(_ context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		_ = send(&pb.ServerMessage{Msg: &pb.ServerMessage_Response{Response: &pb.SendResponse{Content: operation(m)}}})
	}}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	f.Cleanup(func() {
		_ = s.Shutdown(context.Background())
		<-done
	})
	return path
}

// expect parses the bytes as frames and returns the expected responses. A response is
// the name of a request, "pong", or the start of an error. The result end reports
// whether the server then disconnects.
func expect(b []byte) (responses []string, end bool) {
	for len(b) >= 4 {
		n := int64(b[0])<<24 | int64(b[1])<<16 | int64(b[2])<<8 | int64(b[3])
		if n > maxFrame {
			return append(responses, "error 400 frame too large: "), true
		}
		if int64(len(b)-4) < n {
			return responses, false
		}
		m := new(pb.ClientMessage)
		switch err := proto.Unmarshal(b[4:4+n], m); {
		case err != nil:
			responses = append(responses, "error 400 codec error: ")
		case operation(m) == "":
			responses = append(responses, "error 400 empty client message")
		case operation(m) == "auth":
			responses = append(responses, "pong")
		default:
			responses = append(responses, "request "+operation(m))
		}
		b = b[4+n:]
	}
	return responses, false
}

func readResponse(nc net.Conn) (string, error) {
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return "", err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > 1<<20 {
		return "", errors.New("response of more than 1 MiB")
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(nc, b); err != nil {
		return "", err
	}
	m := new(pb.ServerMessage)
	if err := proto.Unmarshal(b, m); err != nil {
		return "", err
	}
	switch x := m.Msg.(type) {
	case *pb.ServerMessage_Pong:
		return "pong", nil
	case *pb.ServerMessage_Response:
		return "request " + x.Response.GetContent(), nil
	case *pb.ServerMessage_Error:
		if x.Error.GetCode() == 400 {
			return "error 400 " + x.Error.GetMessage(), nil
		}
	}
	return "", errors.New("unexpected response " + m.String())
}

func FuzzFrame(f *testing.F) {
	path := listen(f)
	for _, s := range []string{
		"", "\x00", "\x00\x00\x00\x00", "\x00\x00\x00\x02\x1a\x00", "\x00\x00\x00\x02\x1a\x00\x00\x00\x00\x02\x22\x00",
		"\x01\x00\x00\x00", "\x01\x00\x00\x01", "\xff\xff\xff\xff", "GET / HTTP/1.1\r\n", "\x16\x03\x01\x00\xa5",
		"\x00\x00\x00\x03\x9a\x06\x00", "\x00\x00\x00\x03\xca\x3e\x00", "\x00\x00\x00\x02\x0a\x05", "\x00\x00\x00\x05\x0a\x03\x12\x01\xff",
		"\x00\x00\x20\x00" + strings.Repeat("\x1a\x00", 1<<12) + "\x00\x00\x00\x02\x1a\x00",
	} {
		f.Add([]byte(s), uint16(0))
		f.Add([]byte(s), uint16(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		if len(b) > 1<<18 {
			return
		}
		nc, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(gate.Hang))
		go func() { // two writes; they fail if the server disconnects
			k := min(int(cut), len(b))
			if _, err := nc.Write(b[:k]); err == nil {
				_, _ = nc.Write(b[k:])
			}
		}()
		responses, end := expect(b)
		for i, want := range responses {
			got, err := readResponse(nc)
			if err != nil || !strings.HasPrefix(got, want) || strings.HasPrefix(want, "request ") && got != want {
				t.Fatalf("response %d of %d is %q, %v; want %q", i, len(responses), got, err, want)
			}
		}
		if end {
			if n, err := nc.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("the server does not disconnect after an invalid length: %d bytes, %v", n, err)
			}
		}
		next, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer next.Close()
		_ = next.SetDeadline(time.Now().Add(gate.Hang))
		if _, err := next.Write([]byte{0, 0, 0, 2, 0x1a, 0}); err != nil {
			t.Fatal(err)
		}
		if got, err := readResponse(next); got != "request ping" {
			t.Fatalf("response to the next client: %q, %v", got, err)
		}
	})
}

// FuzzReply writes messages with any text. The reader must get the same text, with
// U+FFFD in place of invalid UTF-8.
func FuzzReply(f *testing.F) {
	f.Add([]byte("\x12\x05\x12\x03\x0a\x01a"), "\xff")
	f.Add([]byte("\x1a\x08\x08\x94\x03\x12\x03abc"), "a\xc3")
	f.Add([]byte("\x52\x04\x0a\x02\x08\x02"), "\xed\xa0\x80x")
	f.Add([]byte("\xd2\x41\x04\x0a\x02\x3a\x00"), "\x00\xfe")
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		m := new(pb.ServerMessage)
		if len(b) > 1<<16 || proto.Unmarshal(b, m) != nil {
			return
		}
		want := proto.Clone(m)
		put(m.ProtoReflect(), text)
		put(want.ProtoReflect(), strings.ToValidUTF8(text, "\uFFFD"))
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		failed := make(chan error, 1)
		go func() { failed <- wire.NewConn(here).Write(m) }()
		got := new(pb.ServerMessage)
		if err := wire.NewConn(there).Read(got); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) {
			t.Fatalf("read %v, want %v", got, want)
		}
	})
}

// put sets every string field that is set to text.
func put(m protoreflect.Message, text string) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
		case f.IsList() && f.Kind() == protoreflect.StringKind:
			for i := range v.List().Len() {
				v.List().Set(i, protoreflect.ValueOfString(text))
			}
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				put(v.List().Get(i).Message(), text)
			}
		case f.IsList():
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(text))
		case f.Message() != nil:
			put(v.Message(), text)
		}
		return true
	})
}
