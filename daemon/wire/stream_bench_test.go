package wire

import (
	"context"
	"io"
	"testing"

	"crabmem/daemon/wire/pb"
)

// BenchmarkStream sends one chunk of a stream to a peer that discards it.
func BenchmarkStream(b *testing.B) {
	n := 0
	a := serve(b, &Server{Handler: func(_ context.Context, _ *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		for range n {
			if send(event(&pb.StreamEvent{Event: &pb.StreamEvent_Chunk{Chunk: &pb.StreamChunk{Content: "a word or two of the answer"}}})) != nil {
				return
			}
		}
	}})
	nc := dialRaw(b, a)
	n = b.N
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := nc.Write(frameOf(b, sendMsg("x"))); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	for all := n * (4 + 2 + 2 + 2 + 27); all > 0; {
		k, err := nc.Read(buf)
		if err != nil && err != io.EOF {
			b.Fatal(err)
		}
		all -= k
	}
}
