package daemon

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/cron"
	"crabmem/daemon/op"
)

// prompts returns the newest message of each request to the model since the last call, with the
// part of the system prompt that names its agent.
func (w *workspaceWorld) prompts() (list []string) {
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	for _, q := range w.model.took {
		system, _, _ := strings.Cut(q.Messages[0].Content, "\n")
		list = append(list, q.Messages[len(q.Messages)-1].Content+", "+system)
	}
	slices.Sort(list)
	w.model.took = nil
	return list
}

// TestWorkspaceCrons runs the entries of workspaces that the user permits, each with the agent of
// its own workspace, until its files change or disappear.
func TestWorkspaceCrons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkspaceWorld(t, func(string) string { return "" })
		defer func() { w.check(w.d.Close()) }()
		a, b := w.places[1], w.places[2]
		for _, p := range []*place{a, b} {
			w.write(p.root()+"/cron/daily.toml", "schedule = \"@hourly\"\nmessage = \"look at "+p.name+"\"\n")
			w.trust(p, p == a)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.d.firing.run(ctx)
		}()
		defer func() { end(); <-ended }()
		hour := func(want ...string) {
			t.Helper()
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := w.prompts(); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		hour("look at a, prompt-0-of-a")
		w.trust(b, true)
		hour("look at a, prompt-0-of-a", "look at b, prompt-0-of-b")
		list, err := op.ListCrons.Do(t.Context(), op.Local{On: w.d.on(&request{ctx: t.Context()})}, op.None{})
		if err != nil || len(list) != 2 || list[0].Workspace != "/w/a" || list[1].Name != "daily" || list[0].ID == list[1].ID || list[0].Session != cron.NewSession {
			t.Fatalf("%+v, %v", list, err)
		}
		if _, err := op.RemoveCron.Do(t.Context(), op.Local{On: w.d.on(&request{ctx: t.Context()})}, op.CronID{ID: list[0].ID}); err == nil || !strings.Contains(err.Error(), "the workspace /w/a has it") {
			t.Errorf("remove: %v", err)
		}
		a.version++
		w.writeAgent(a)
		w.check(w.fs.Rename("/w/b", "/w/gone"))
		hour()
		w.trust(a, true)
		hour("look at a, prompt-1-of-a")
		w.check(w.fs.Rename("/w/gone", "/w/b"))
		w.trust(a, false)
		hour("look at b, prompt-0-of-b")
		for _, l := range w.d.loaded.List() {
			if l.Workspace() != "/w/a" && l.Workspace() != "/w/b" {
				t.Errorf("session %s is in %q", l.StoredID(), l.Workspace())
			}
		}
	})
}
