package daemon

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/model/modeltest"

	"google.golang.org/protobuf/encoding/protowire"
)

// oldClient speaks RFC 0018 without package pb. It decodes only the numbers of
// the RFC and returns an error for a message, stream event, or event kind with
// another number, as the reference's typed client does.
type oldClient struct {
	t *testing.T
	c net.Conn
	// kinds are the numbers of the received stream events or event kinds.
	kinds []uint64
}

func dialOld(t *testing.T, network, address string) *oldClient {
	t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(gate.Hang)); err != nil {
		t.Fatal(err)
	}
	return &oldClient{t: t, c: c}
}

// write sends a request: a field of ClientMessage with its message.
func (c *oldClient) write(op protowire.Number, body []byte) {
	c.t.Helper()
	m := protowire.AppendBytes(protowire.AppendTag(nil, op, protowire.BytesType), body)
	if _, err := c.c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(m))), m...)); err != nil {
		c.t.Fatal(err)
	}
}

// read returns the field of the next ServerMessage.
func (c *oldClient) read() (op protowire.Number, body []byte) {
	c.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c.c, size[:]); err != nil {
		c.t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.c, b); err != nil {
		c.t.Fatal(err)
	}
	for num, v := range fields(c.t, b) {
		if op != 0 {
			c.t.Fatalf("message has fields %d and %d", op, num)
		}
		op, body = num, v[0]
	}
	return op, body
}

// fields decodes a message. The value of a number is in its canonical bytes.
func fields(t *testing.T, b []byte) map[protowire.Number][][]byte {
	t.Helper()
	all := make(map[protowire.Number][][]byte)
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		v := b[:n]
		if typ == protowire.BytesType {
			v, _ = protowire.ConsumeBytes(v)
		}
		all[num] = append(all[num], v)
		b = b[n:]
	}
	return all
}

// text returns a string field.
func text(f map[protowire.Number][][]byte, num protowire.Number) string {
	if len(f[num]) == 0 {
		return ""
	}
	return string(f[num][0])
}

// number returns an integer field.
func number(f map[protowire.Number][][]byte, num protowire.Number) uint64 {
	if len(f[num]) == 0 {
		return 0
	}
	n, _ := protowire.ConsumeVarint(f[num][0])
	return n
}

// stream runs an agent. It returns the text of the chunks and the error of the
// end.
func (c *oldClient) stream(content string) (said, failed string) {
	c.t.Helper()
	m := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "crab")
	c.write(2, protowire.AppendString(protowire.AppendTag(m, 2, protowire.BytesType), content))
	c.kinds = nil
	for {
		op, body := c.read()
		if op != 2 {
			c.t.Fatalf("message %d in a stream: %q", op, body)
		}
		kind := protowire.Number(0)
		event := fields(c.t, body)
		for num := range event {
			if kind == 0 && num <= 8 {
				kind = num
			}
		}
		if kind == 0 || len(event) != 1 {
			c.t.Fatalf("empty stream event: %q", body)
		}
		c.kinds = append(c.kinds, uint64(kind))
		switch f := fields(c.t, event[kind][0]); kind {
		case 2:
			said += text(f, 1)
		case 7:
			return said, text(f, 2)
		}
	}
}

// events returns lines for the events of all sessions, up to the given number of
// ends of runs.
func (c *oldClient) events(runs int) (lines []string) {
	c.t.Helper()
	for runs > 0 {
		op, body := c.read()
		if op != 7 {
			c.t.Fatalf("message %d in a subscription: %q", op, body)
		}
		f := fields(c.t, body)
		kind := number(f, 3)
		if kind > 5 {
			c.t.Fatalf("event kind %d: %q", kind, body)
		}
		c.kinds = append(c.kinds, kind)
		lines = append(lines, fmt.Sprintf("%d %s", kind, text(f, 4)))
		if kind == 5 {
			runs--
		}
	}
	return lines
}

// oldDaemon serves a home over a socket and a port, and returns the address in a
// network. The run of "go" thinks, calls tools, of which one is refused, and
// answers in several pieces. The run of "fail" fails.
func oldDaemon(t *testing.T, network string) (s *served, address string) {
	t.Helper()
	m := modeltest.New(t)
	m.When("go").Reply(
		modeltest.Reply{}.Think("überlegt").Call("recall", `{"query":"tee"}`).Call("bash", `{"command":"echo größe"}`),
		modeltest.Say("Größe: ", "日本語", " 🦀"))
	m.When("fail").Reply(modeltest.Status(400, "ungültig"))
	s = serve(t, home(t), scripted(m)+"tools = [\"recall\"]\n[tools.bash]\naccess = \"never\"\n[tcp]\nlisten = \"127.0.0.1:0\"\n")
	if network == "unix" {
		return s, Socket(s.home)
	}
	var port []byte
	gate.Until(t, "the port is known", func() bool {
		var err error
		port, err = os.ReadFile(filepath.Join(s.home, "run", "crabtalk.port"))
		return err == nil
	})
	return s, "127.0.0.1:" + string(port)
}

// TestOldClient checks that a client receives only the numbers of RFC 0018, and no text in events of pieces. Errors arrive in the stream's end.
func TestOldClient(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			s, address := oldDaemon(t, network)
			follower := dialOld(t, network, address)
			follower.write(9, nil)
			gate.Until(t, "a subscriber", func() bool { return s.events.count.Load() == 1 })
			c := dialOld(t, network, address)
			said, failed := c.stream("go")
			if said != "Größe: 日本語 🦀" || failed != "" {
				t.Errorf("stream returned %q, %q", said, failed)
			}
			if want := []uint64{1, 3, 4, 4, 5, 5, 6, 2, 2, 2, 7}; !slices.Equal(c.kinds, want) {
				t.Errorf("stream events %v, want %v", c.kinds, want)
			}
			if _, failed = c.stream("fail"); !strings.Contains(failed, "ungültig") {
				t.Errorf("failed stream ended with %q", failed)
			}
			if want := []uint64{1, 7}; !slices.Equal(c.kinds, want) {
				t.Errorf("failed stream events %v, want %v", c.kinds, want)
			}
			got := follower.events(2)
			if len(got) != 10 {
				t.Errorf("%d events, want 10: %q", len(got), got)
			}
			for _, line := range got {
				if kind, content, _ := strings.Cut(line, " "); kind < "2" && content != "" {
					t.Errorf("delta has text: %q", line)
				}
			}
		})
	}
}

// TestOldClientNotice checks that a notice is a chunk.
func TestOldClientNotice(t *testing.T) {
	m := modeltest.New(t, modeltest.Status(503, "no"), modeltest.Say("yes"))
	config := strings.Replace(scripted(m), `models = ["script"]`, `models = ["script", "spare"]`+"\nfallback = [\"spare\"]", 1)
	c := dialOld(t, "unix", Socket(serve(t, home(t), config).home))
	said, failed := c.stream("go")
	if want := "\n[model 'spare' answers instead of 'script', which failed]\nyes"; said != want || failed != "" {
		t.Errorf("stream returned %q, %q; want %q", said, failed, want)
	}
}
