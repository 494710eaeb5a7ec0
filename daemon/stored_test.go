package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/session"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
	"crabmem/sessionlog/search"
)

func TestStoredSessions(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.client(), t.Context()
	sent, err := c.Send(ctx, client.Message{Agent: "crab", Content: "which port does the canary listen on?"})
	if err != nil {
		t.Fatal(err)
	}
	const head = `{"agent":"crab","created_by":"user","created_at":"2020-04-14T10:23:45+00:00","title":"","uptime_secs":0}` + "\n"
	file := filepath.Join(s.home, "sessions", "crab_user_90.jsonl")
	if err := os.WriteFile(file, []byte(head+`{"role":"user","content":"old canary"}`+"\nbad\n"+`{"role":"user","content":"more"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, total, err := c.ListSessions(ctx, client.SessionFilter{})
	if err != nil || len(list) != 2 || total != 2 || list[0].ID != sent.StoredID || list[0].Number != sent.Session ||
		list[1].Damaged != 1 || list[1].Number != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	list, total, err = c.ListSessions(ctx, client.SessionFilter{Offset: 1, Limit: 5, Agent: "crab"})
	if err != nil || len(list) != 1 || total != 2 || list[0].ID != "crab_user_90" {
		t.Errorf("%v, %v", list, err)
	}
	if list, total, err = c.ListSessions(ctx, client.SessionFilter{Sender: "nobody"}); err != nil || len(list) != 0 || total != 0 {
		t.Errorf("%v, %v", list, err)
	}

	// A title of a live session, and one of another.
	for id, want := range map[string]string{sent.StoredID: sent.StoredID + "_port.jsonl", "crab_user_90": "crab_user_90_port.jsonl"} {
		if got, err := c.SetTitle(ctx, id, "Port"); err != nil || got.File != want || got.Meta.Title != "Port" {
			t.Errorf("%v, %v", got, err)
		}
	}
	if again, err := c.Send(ctx, client.Message{Agent: "crab", Content: "and then?"}); err != nil || again.Session != sent.Session {
		t.Errorf("%v, %v", again, err)
	}
	_, err = c.SetTitle(ctx, "nobody", "x")
	wantError(t, err, 404, "not_found", "nobody")

	// History, complete and paged.
	read := func(o client.HistoryOptions) (lines []sessionlog.Line, first client.History) {
		for r, err := range c.History(ctx, "crab_user_90", o) {
			if err != nil {
				t.Fatal(err)
			}
			if first.Session == nil {
				first = r
			}
			lines = append(lines, r.Lines...)
		}
		return lines, first
	}
	lines, first := read(client.HistoryOptions{})
	if len(lines) != 5 || first.LastLine != 5 || first.Session.Meta.Title != "Port" || lines[2].Err == nil || lines[2].Kind != record.KindBad || string(lines[1].Raw) != `{"role":"user","content":"old canary"}` {
		t.Errorf("%v, %v", lines, first)
	}
	lines, first = read(client.HistoryOptions{After: 1, Limit: 2})
	if len(lines) != 2 || lines[0].Number != 2 || lines[1].Number != 3 || first.LastLine != 5 {
		t.Errorf("%v, %v", lines, first)
	}
	for _, err := range c.History(ctx, "nobody", client.HistoryOptions{}) {
		wantError(t, err, 404, "not_found", "nobody")
	}

	// Search finds the writes of other processes, too.
	found, _, err := c.SearchSessions(ctx, search.Query{Text: "canary", Roles: []string{"user"}}, false)
	if err != nil || found.Total != 2 || len(found.Hits) != 2 || len(found.Hits[0].Window) == 0 {
		t.Errorf("%v, %v", found, err)
	}
	f, err := os.OpenFile(filepath.Join(s.home, "sessions", "crab_user_90_port.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"role":"user","content":"zeppelin"}` + "\n" + `{"role":"tool","content":"dirigible","tool_call_id":"x"}` + "\n")
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if found, _, err = c.SearchSessions(ctx, search.Query{Text: "zeppelin", Window: -1}, false); err != nil || found.Total != 1 || len(found.Hits[0].Window) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	for tools, want := range map[bool]int{false: 0, true: 1} {
		if found, _, err = c.SearchSessions(ctx, search.Query{Text: "dirigible"}, tools); err != nil || found.Total != want {
			t.Errorf("%v, %v", found, err)
		}
	}
	_, _, err = c.SearchSessions(ctx, search.Query{Text: "x", Limit: 21}, false)
	wantError(t, err, 400, "invalid", "limit 21")

	// Repair; the loaded session is valid and is closed.
	repaired, did, err := c.RepairSession(ctx, "crab_user_90")
	if err != nil || did.Dropped != 1 || did.Copy == "" || repaired.ID != "crab_user_90" || repaired.Damaged != 0 {
		t.Errorf("%v, %v, %v", repaired, did, err)
	}
}

// TestPurgeStored purges sessions: one with a run, which is refused, and the same one
// loaded and idle. The next run in it does not see the text.
func TestPurgeStored(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.client(), t.Context()
	sent, err := c.Send(ctx, client.Message{Agent: "crab", Content: "the vault code"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.loaded.With(ctx, sent.Session, func(context.Context, session.Setup, *agent.Agent, *agent.Session) error {
		_, err := c.PurgeSession(ctx, sent.StoredID, "the vault code")
		wantError(t, err, 409, "busy", "has an active run")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, err = c.PurgeSession(ctx, sent.StoredID, "")
	wantError(t, err, 400, "invalid", "a text is empty")
	_, err = c.PurgeSession(ctx, "crab_user_99", "the vault code")
	wantError(t, err, 404, "not_found", "crab_user_99")
	if n, err := c.PurgeSession(ctx, sent.StoredID, "the vault code"); n == 0 || err != nil {
		t.Errorf("%d lines, %v", n, err)
	}
	for h, err := range c.History(ctx, sent.StoredID, client.HistoryOptions{}) {
		if err != nil || strings.Contains(fmt.Sprint(h), "the vault code") {
			t.Errorf("%v, %v", h, err)
		}
	}
	if found, _, err := c.SearchSessions(ctx, search.Query{Text: "vault code"}, true); len(found.Hits) > 0 || err != nil {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := c.Send(ctx, client.Message{Agent: "crab", Content: "next"}); err != nil {
		t.Error(err)
	}
}

// TestDeleteStored deletes sessions: a loaded idle one, one with a run, and one
// that is not loaded.
func TestDeleteStored(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.client(), t.Context()
	sent, err := c.Send(ctx, client.Message{Agent: "crab", Content: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.loaded.With(ctx, sent.Session, func(context.Context, session.Setup, *agent.Agent, *agent.Session) error {
		_, err := c.DeleteSession(ctx, sent.StoredID, false)
		wantError(t, err, 409, "busy", "has an active run")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := c.DeleteSession(ctx, sent.StoredID, true); err != nil || got.Number != sent.Session {
		t.Errorf("%v, %v", got, err)
	}
	got, err := c.DeleteSession(ctx, sent.StoredID, false)
	if err != nil || got.ID != sent.StoredID || got.Number != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if list, err := c.Sessions(ctx); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	_, err = c.Send(ctx, client.Message{Agent: "crab", Content: "x", Session: sent.Session})
	wantError(t, err, 500, "not_found", fmt.Sprint(sent.Session))
	_, err = c.DeleteSession(ctx, sent.StoredID, false)
	wantError(t, err, 404, "not_found", sent.StoredID)
	if list, _, err := c.ListSessions(ctx, client.SessionFilter{Trash: true}); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if got, err := c.RestoreSession(ctx, sent.StoredID); err != nil || got.Messages != 2 {
		t.Errorf("%v, %v", got, err)
	}
	_, err = c.RestoreSession(ctx, "nobody")
	wantError(t, err, 404, "not_found", "nobody")
	again, err := c.Send(ctx, client.Message{Agent: "crab", Content: "again"})
	if err != nil || again.StoredID != sent.StoredID || again.Session == sent.Session {
		t.Errorf("%v, %v", again, err)
	}
}

// TestLockNamesSocket checks that an error for the daemon's lock names the
// socket, before any write.
func TestLockNamesSocket(t *testing.T) {
	h := home(t)
	s := serve(t, h, "")
	for _, name := range []string{"memory.db-lock"} {
		b, err := os.ReadFile(filepath.Join(h, name))
		if err != nil || !strings.Contains(string(b), "socket "+Socket(s.home)+"\n") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	log, err := s.sessions.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	if err != nil {
		t.Fatal(err)
	}
	id := log.ID()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h, "sessions", ".locks", id+".lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if log, err = s.sessions.Open(id); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(h, "sessions", ".locks", id+".lock"))
	if err != nil || !strings.Contains(string(b), "socket "+Socket(s.home)+"\n") {
		t.Errorf("%q, %v", b, err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}
