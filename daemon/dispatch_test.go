package daemon

import (
	"context"
	"testing"

	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestEveryRequestIsKnown sends each request of the protocol without fields.
func TestEveryRequestIsKnown(t *testing.T) {
	d := serve(t, home(t), "").Daemon
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // of requests that wait
	fields := (&pb.ClientMessage{}).ProtoReflect().Descriptor().Oneofs().ByName("msg").Fields()
	for i := range fields.Len() {
		m := &pb.ClientMessage{}
		m.ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfMessage(m.ProtoReflect().NewField(fields.Get(i)).Message()))
		if m.GetCall() != nil {
			continue // it has no operation
		}
		d.Handle(ctx, m, func(r *pb.ServerMessage) error {
			if e := r.GetError(); e.GetMessage() == errUnknownRequest.Error() {
				t.Errorf("%s: %v", fields.Get(i).Name(), e)
			}
			return nil
		})
	}
}
