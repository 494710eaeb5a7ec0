package daemon

import (
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
)

// lastActor returns the actor of the newest change of a store.
func lastActor(t *testing.T, s *crmem.Store) (by crmem.Actor) {
	t.Helper()
	for c, err := range s.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		by = c.By
	}
	return by
}

// TestActorOfTools checks that the history contains the agent, the session, the
// call, and the sender of a change that an agent makes.
func TestActorOfTools(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m))
	for _, call := range [][2]string{{"remember", `{"name":"a","content":"x"}`}, {"forget", `{"name":"a"}`}} {
		toolResult(t, s, m, call[0], call[1])
		by := lastActor(t, s.store)
		if by.Session == "" || by.Call == "" || by.Origin == "" {
			t.Errorf("%s: actor %+v: want a session, a call, and an origin", call[0], by)
		}
		by.Session, by.Call, by.Origin = "", "", ""
		if want := (crmem.Actor{Agent: "crab"}); by != want {
			t.Errorf("%s: actor %+v, want %+v", call[0], by, want)
		}
	}
}

// TestActorOfRequests checks that the history contains the actor of a request, or
// the client "wire".
func TestActorOfRequests(t *testing.T) {
	s := serve(t, home(t), "")
	for _, by := range []crmem.Actor{{}, {Client: crmem.ClientCLI}, {Agent: "a", Session: "s", Call: "c", Client: crmem.ClientMCP, Origin: "o", Op: "i"}} {
		c := &client.Client{Addr: wire.Addr{Network: "unix", Address: Socket(s.home)}, Header: op.Header{By: by}}
		want := by
		if want.Client == "" {
			want.Client = crmem.ClientWire
		}
		check := func(name string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := lastActor(t, s.store); got != want {
				t.Errorf("%s: actor %+v, want %+v", name, got, want)
			}
		}
		_, err := op.Remember.Do(t.Context(), c, op.Note{Remember: crmem.Remember{Name: "a", Content: "x"}})
		check("remember", err)
		_, err = op.ApplyOps(t.Context(), c, crmem.Alias{Name: "a", Aliases: []string{"b"}})
		check("alias", err)
		_, err = op.ApplyOps(t.Context(), c, crmem.Update{Name: "a", Content: "y"})
		check("apply", err)
		_, err = op.Forget.Do(t.Context(), c, op.Removal{Name: "a"})
		check("forget", err)
		seq, err := lastChange(op.Store{Store: s.store}, func(crmem.Change) bool { return true })
		if err == nil {
			_, err = op.Undo.Do(t.Context(), c, op.ChangeNumber{Seq: seq})
		}
		check("undo", err)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
