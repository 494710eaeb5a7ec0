package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/daemon/agent"
	"crabmem/daemon/session"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog"
)

func TestStoredSessions(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.client(), t.Context()
	sent, err := c.Send(ctx, &pb.SendMsg{Agent: "crab", Content: "which port does the canary listen on?"})
	if err != nil {
		t.Fatal(err)
	}
	const head = `{"agent":"crab","created_by":"user","created_at":"2020-04-14T10:23:45+00:00","title":"","uptime_secs":0}` + "\n"
	file := filepath.Join(s.home, "sessions", "crab_user_90.jsonl")
	if err := os.WriteFile(file, []byte(head+`{"role":"user","content":"old canary"}`+"\nbad\n"+`{"role":"user","content":"more"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := c.ListSessions(ctx, &pb.ListSessionsMsg{})
	if err != nil || len(list.Sessions) != 2 || list.Total != 2 || list.Sessions[0].Id != sent.StoredId || list.Sessions[0].Live != sent.Session ||
		list.Sessions[1].Damaged != 1 || list.Sessions[1].Live != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	list, err = c.ListSessions(ctx, &pb.ListSessionsMsg{Offset: 1, Limit: 5, Agent: "crab"})
	if err != nil || len(list.Sessions) != 1 || list.Total != 2 || list.Sessions[0].Id != "crab_user_90" {
		t.Errorf("%v, %v", list, err)
	}
	if list, err = c.ListSessions(ctx, &pb.ListSessionsMsg{Sender: "nobody"}); err != nil || len(list.Sessions) != 0 || list.Total != 0 {
		t.Errorf("%v, %v", list, err)
	}

	// A title of a live session, and one of another.
	for id, want := range map[string]string{sent.StoredId: sent.StoredId + "_port.jsonl", "crab_user_90": "crab_user_90_port.jsonl"} {
		if got, err := c.SetTitle(ctx, id, "Port"); err != nil || got.File != want || got.Title != "Port" {
			t.Errorf("%v, %v", got, err)
		}
	}
	if again, err := c.Send(ctx, &pb.SendMsg{Agent: "crab", Content: "and then?"}); err != nil || again.Session != sent.Session {
		t.Errorf("%v, %v", again, err)
	}
	_, err = c.SetTitle(ctx, "nobody", "x")
	wantError(t, err, 404, "not_found", "nobody")

	// History, complete and paged.
	read := func(m *pb.HistoryMsg) (lines []*pb.HistoryLine, first *pb.HistoryReply) {
		for r, err := range c.History(ctx, m) {
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = r
			}
			lines = append(lines, r.Lines...)
		}
		return lines, first
	}
	lines, first := read(&pb.HistoryMsg{Id: "crab_user_90"})
	if len(lines) != 5 || first.LastLine != 5 || first.Session.Title != "Port" || lines[2].Error == "" || lines[2].Kind != "bad" || string(lines[1].Json) != `{"role":"user","content":"old canary"}` {
		t.Errorf("%v, %v", lines, first)
	}
	lines, first = read(&pb.HistoryMsg{Id: "crab_user_90", After: 1, Limit: 2})
	if len(lines) != 2 || lines[0].Number != 2 || lines[1].Number != 3 || first.LastLine != 5 {
		t.Errorf("%v, %v", lines, first)
	}
	for _, err := range c.History(ctx, &pb.HistoryMsg{Id: "nobody"}) {
		wantError(t, err, 404, "not_found", "nobody")
	}

	// Search finds the writes of other processes, too.
	zero := uint32(0)
	found, err := c.SearchSessions(ctx, &pb.SearchSessionsMsg{Query: "canary", Roles: []string{"user"}})
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
	if found, err = c.SearchSessions(ctx, &pb.SearchSessionsMsg{Query: "zeppelin", Window: &zero}); err != nil || found.Total != 1 || len(found.Hits[0].Window) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	for tools, want := range map[bool]uint64{false: 0, true: 1} {
		if found, err = c.SearchSessions(ctx, &pb.SearchSessionsMsg{Query: "dirigible", Tools: tools}); err != nil || found.Total != want {
			t.Errorf("%v, %v", found, err)
		}
	}
	_, err = c.SearchSessions(ctx, &pb.SearchSessionsMsg{Query: "x", Limit: 21})
	wantError(t, err, 400, "invalid", "limit 21")

	// Repair; the loaded session is valid and is closed.
	r, err := c.Request(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_RepairSession{RepairSession: &pb.RepairSessionMsg{Id: "crab_user_90"}}})
	if err != nil || r.GetRepaired().GetDropped() != 1 || r.GetRepaired().GetCopy() == "" || r.GetRepaired().GetSession().GetDamaged() != 0 {
		t.Errorf("%v, %v", r, err)
	}
}

// TestDeleteStored deletes sessions: a loaded idle one, one with a run, and one
// that is not loaded.
func TestDeleteStored(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.client(), t.Context()
	sent, err := c.Send(ctx, &pb.SendMsg{Agent: "crab", Content: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.loaded.With(ctx, sent.Session, func(context.Context, session.Setup, *agent.Agent, *agent.Session) error {
		_, err := c.DeleteSession(ctx, sent.StoredId, false)
		wantError(t, err, 409, "busy", "has a run")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := c.DeleteSession(ctx, sent.StoredId, true); err != nil || got.Live != sent.Session {
		t.Errorf("%v, %v", got, err)
	}
	got, err := c.DeleteSession(ctx, sent.StoredId, false)
	if err != nil || got.Id != sent.StoredId || got.Live != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if list, err := c.Sessions(ctx); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	_, err = c.Send(ctx, &pb.SendMsg{Agent: "crab", Content: "x", Session: &sent.Session})
	wantError(t, err, 500, "not_found", fmt.Sprint(sent.Session))
	_, err = c.DeleteSession(ctx, sent.StoredId, false)
	wantError(t, err, 404, "not_found", sent.StoredId)
	if list, err := c.ListSessions(ctx, &pb.ListSessionsMsg{Trash: true}); err != nil || len(list.Sessions) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if got, err := c.RestoreSession(ctx, sent.StoredId); err != nil || got.Messages != 2 {
		t.Errorf("%v, %v", got, err)
	}
	_, err = c.RestoreSession(ctx, "nobody")
	wantError(t, err, 404, "not_found", "nobody")
	again, err := c.Send(ctx, &pb.SendMsg{Agent: "crab", Content: "again"})
	if err != nil || again.StoredId != sent.StoredId || again.Session == sent.Session {
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
