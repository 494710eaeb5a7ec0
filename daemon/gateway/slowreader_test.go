package gateway

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
)

// smallBuffers is a listener whose connections hold few unsent bytes.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

// TestSlowReader: clients that follow events and read nothing delay neither the runs nor
// another client that follows them. The events exceed what their connections can hold.
func TestSlowReader(t *testing.T) {
	r := newRig(t)
	r.configure("send_queue = 16\n")
	r.small = true
	r.restart()
	answer := strings.Repeat("a line of an answer\n", 128<<10/20)
	r.model.Func(func(modeltest.Request) modeltest.Reply { return modeltest.Say(answer) })
	for range 4 {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET /v1/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", strings.TrimPrefix(r.url, "http://"), r.keys["ann"])
		if line, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatal(line, err)
		}
	}
	_, next := r.open(t.Context(), "ann", "GET", "/v1/events?kind=done", nil)
	r.eventually("the subscriptions", func() bool {
		st, err := op.ReadDaemonStats.Do(t.Context(), r.g.pinger, op.None{})
		return err == nil && st.Subscribers == 5
	})
	const messages = 25
	done := make(chan int, 1)
	go func() { // ends with the events, or with the test
		n := 0
		for n < messages {
			e, ok := next()
			if !ok {
				break
			}
			if e.name == "done" {
				n++
			}
		}
		done <- n
	}()
	for range messages {
		r.want("a message", r.do("ann", "POST", "/v1/send", object{"content": "x", "new": true}), 200, "")
		r.want("a recall", r.do("ann", "POST", "/v1/recall", object{"query": "line"}), 200, "")
	}
	if n := <-done; n != messages {
		t.Errorf("the client that reads received %d events, want %d", n, messages)
	}
}
