package daemon

import (
	"testing"

	"crabmem/daemon/wire/pb"
)

func TestHandlerOfEveryOperation(t *testing.T) {
	ops := (&pb.ClientMessage{}).ProtoReflect().Descriptor().Oneofs().ByName("msg").Fields()
	for i := range ops.Len() {
		if name := ops.Get(i).Name(); handlers[name] == nil {
			t.Errorf("operation %s has no handler", name)
		}
	}
	if len(handlers) != ops.Len() {
		t.Errorf("%d handlers for %d operations", len(handlers), ops.Len())
	}
}
