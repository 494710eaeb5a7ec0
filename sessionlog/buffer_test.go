package sessionlog

import (
	"strings"
	"testing"

	"crabmem/sessionlog/record"
)

// TestLongWritesReleaseBuffers checks that a session keeps no buffer of a long
// message, summary, or refused message.
func TestLongWritesReleaseBuffers(t *testing.T) {
	d, err := OpenDir(t.TempDir(), &Options{MaxLine: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l, err := d.Create(Meta{Agent: "crab", CreatedBy: "user"})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("long ", 200_000)
	for _, c := range []struct {
		name  string
		write func() error
		fails bool
	}{
		{"message", func() error { return l.Append(Message{Role: record.RoleUser, Content: long}) }, false},
		{"refused message", func() error { return l.Append(Message{Role: record.RoleUser, Content: long + long + long}) }, true},
		{"summary", func() error { return l.Compact(long) }, false},
	} {
		if err := c.write(); (err != nil) != c.fails {
			t.Errorf("%s: %v", c.name, err)
		}
		if n := cap(l.buf); n > maxKept {
			t.Errorf("%s: a buffer of %d bytes is kept", c.name, n)
		}
	}
}
