package daemon

import (
	"bytes"
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
	if e := s.one(callMessage(t, "models.paint", op.None{})).GetError(); e.GetCode() != 400 || e.GetMessage() != errUnknownRequest.Error() {
		t.Error(e)
	}
}
