package daemon

import (
	"bytes"
	"strings"
	"testing"

	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
)

// TestResultInParts checks that a response larger than a message is sent in parts.
func TestResultInParts(t *testing.T) {
	for _, size := range []int{0, 1, op.MaxBody, op.MaxBody + 1, 2*op.MaxBody + 7} {
		body := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		var got []byte
		more := true
		r := &request{send: func(m *pb.ServerMessage) error {
			p := m.GetResult()
			if !more || len(p.GetBody()) > op.MaxBody {
				t.Errorf("%d bytes: a part of %d bytes, after the last one: %v", size, len(p.GetBody()), !more)
			}
			if p.GetMore() != p.GetPartial() {
				t.Errorf("%d bytes: %v", size, p.GetPartial())
			}
			got, more = append(got, p.GetBody()...), p.GetMore()
			return nil
		}}
		if err := r.part(body, false); err != nil || more || !bytes.Equal(got, body) {
			t.Errorf("%d bytes: %v, more %v", size, err, more)
		}
	}
}

// TestUnknownOperation checks the answer to an operation that the daemon does not have.
func TestUnknownOperation(t *testing.T) {
	s := serve(t, home(t), "")
	if e := failure(t, s.one(callMessage(t, "models.paint", op.None{}))); e.Code != 400 || e.Message != errUnknownRequest.Error() {
		t.Error(e)
	}
}

// TestUnknownHeader checks that a request is refused whose header this daemon does not
// know: its request could have another meaning.
func TestUnknownHeader(t *testing.T) {
	s := serve(t, home(t), "")
	head, err := op.Encode(map[string]any{"space": "main", "room": "team"})
	if err != nil {
		t.Fatal(err)
	}
	m := callMessage(t, "entries.remember", note("a", "b"))
	m.GetCall().Head = head
	if e := failure(t, s.one(m)); e.Code != 400 || !strings.Contains(e.Message, "header: ") || s.store.Len() != 0 {
		t.Errorf("%+v, %d entries", e, s.store.Len())
	}
}

// TestLargeRequestOfIdentity checks that only the owner of the home sends a request in
// several messages, whose body is larger than one.
func TestLargeRequestOfIdentity(t *testing.T) {
	s := serve(t, home(t), identities)
	in := op.NewEntry{Name: strings.Repeat("x", op.MaxBody)} // refused by the operation, as it is too long
	for id, want := range map[string]string{"": "invalid", "api:a": "scope"} {
		if e := failure(t, handle(t, s.Daemon, callAs(t, "entries.create", in, id, ""))); e.Kind != want {
			t.Errorf("%q: %s %s, want %s", id, e.Kind, e.Message, want)
		}
	}
}
