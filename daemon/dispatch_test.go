package daemon

import (
	"testing"

	"crabmem/daemon/wire/pb"
)

func TestHandlerOfEveryOperation(t *testing.T) {
	ops := (&pb.ClientMessage{}).ProtoReflect().Descriptor().Oneofs().ByName("msg").Fields()
	for i := range ops.Len() {
		if name := ops.Get(i).Name(); handlers[name] == nil && name != "call" {
			t.Errorf("operation %s has no handler", name)
		}
	}
	if want := ops.Len() - 1; len(handlers) != want { // call has rows
		t.Errorf("%d handlers for %d operations", len(handlers), want)
	}
	for name := range needs {
		if handlers[name] == nil {
			t.Errorf("%s has a need and no handler", name)
		}
	}
}
