//go:build unix

package wire

import (
	"net"
	"path/filepath"
	"testing"
)

// TestFresh checks that a connection is fresh until its peer writes or closes.
func TestFresh(t *testing.T) {
	for name, act := range map[string]func(net.Conn) error{
		"write": func(c net.Conn) error { _, err := c.Write([]byte{0}); return err },
		"close": net.Conn.Close,
	} {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		near, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer near.Close()
		far, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		c := NewConn(near)
		for range 2 { // the check changes no state
			if !c.Fresh() {
				t.Errorf("%s: a connection without input is not fresh", name)
			}
		}
		if err := act(far); err != nil {
			t.Fatal(err)
		}
		if c.Fresh() {
			t.Errorf("%s: the connection is still fresh", name)
		}
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if NewConn(near).Fresh() {
		t.Error("a connection without a descriptor is fresh")
	}
}
