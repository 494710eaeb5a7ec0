package daemon

import (
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/memtool"
	"crabmem/daemon/model/modeltest"
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
		c := &client.Client{Addr: wire.Addr{Network: "unix", Address: Socket(s.home)}, By: by}
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
		_, err := c.Remember(t.Context(), "a", "x", nil)
		check("remember", err)
		_, err = c.AddAliases(t.Context(), "a", []string{"b"})
		check("alias", err)
		_, err = c.Apply(t.Context(), crmem.Update{Name: "a", Content: "y"})
		check("apply", err)
		_, err = c.Apply(t.Context(), crmem.By{Client: "other"}, crmem.Update{Name: "a", Content: "z"})
		if got := lastActor(t, s.store); err != nil || got != (crmem.Actor{Client: "other"}) {
			t.Errorf("an operation By: actor %+v, %v", got, err)
		}
		_, err = c.Forget(t.Context(), "a", client.ForgetOptions{})
		check("forget", err)
		seq, err := lastChange(memtool.Local(s.store), func(crmem.Change) bool { return true })
		if err == nil {
			_, _, err = c.Undo(t.Context(), seq)
		}
		check("undo", err)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
