package line

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"crabmem/sessionlog/record"
)

// benchMessage returns a message whose line has about n bytes, with some
// characters to escape.
func benchMessage(n int) Message {
	text := []byte(strings.Repeat("the quick brown fox jumps over the lazy dog, ", n/45+1)[:n-len(`{"role":"user","content":""}`)-4])
	for i := range 4 {
		text[(i+1)*len(text)/5] = "\n\"\n\\"[i]
	}
	return Message{Role: record.RoleUser, Content: string(text)}
}

func BenchmarkLine(b *testing.B) {
	for _, n := range []int{200, 500} {
		m := benchMessage(n)
		line := AppendMessage(nil, &m)
		b.Run(fmt.Sprintf("encode/%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			var buf []byte
			for b.Loop() {
				buf = AppendMessage(buf[:0], &m)
			}
		})
		b.Run(fmt.Sprintf("classify/%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			var r Record
			for b.Loop() {
				if r.Decode(line[:len(line)-1], false); r.Kind != record.KindMessage {
					b.Fatal(r.Kind)
				}
			}
		})
		b.Run(fmt.Sprintf("decode/%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			var r Record
			for b.Loop() {
				r.Decode(line[:len(line)-1], false)
				if m := r.Message(); m.Content == "" {
					b.Fatal(m)
				}
			}
		})
	}
}

// benchFile returns a file of size bytes that ends in a marker and a tail.
func benchFile(size, tail int) []byte {
	m := benchMessage(500)
	line := AppendMessage(nil, &m)
	file := make([]byte, 0, size+1024)
	file = AppendMeta(file, &Meta{Agent: "a", CreatedBy: "b"})
	file = append(file, bytes.Repeat(line, (size-tail)/len(line))...)
	file = AppendMarker(file, "s")
	file = AppendMetaRecord(file, "t", 5)
	return append(file, bytes.Repeat(line, tail/len(line))...)
}

func BenchmarkReadContext(b *testing.B) {
	for _, size := range []int{1 << 20, 100 << 20} {
		file := benchFile(size, 400<<10)
		b.Run(fmt.Sprintf("%dMiB", size>>20), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c, err := ReadContext(bytes.NewReader(file), int64(len(file)), nil)
				if err != nil || !c.Compacted || c.Meta.Title != "t" {
					b.Fatal(c, err)
				}
			}
		})
	}
}

func BenchmarkCount(b *testing.B) {
	for _, file := range []struct {
		name string
		data []byte
	}{
		{"messages", benchFile(100<<20, 0)},
		{"empty", append([]byte(frameMeta), bytes.Repeat([]byte("\n"), 10_000_000)...)},
	} {
		b.Run(file.name, func(b *testing.B) {
			b.SetBytes(int64(len(file.data)))
			b.ReportAllocs()
			var c Counter
			for b.Loop() {
				if t, err := c.Count(bytes.NewReader(file.data), int64(len(file.data)), 0); err != nil || !t.identity {
					b.Fatal(t, err)
				}
			}
		})
	}
}
