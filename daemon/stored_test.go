package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/agent"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/sessionlog"
)

func TestStoredSessions(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.client(), t.Context()
	sent, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "which port does the canary listen on?"})
	if err != nil {
		t.Fatal(err)
	}
	const head = `{"agent":"crab","created_by":"user","created_at":"2020-04-14T10:23:45+00:00","title":"","uptime_secs":0}` + "\n"
	file := filepath.Join(s.home, "sessions", "crab_user_90.jsonl")
	if err := os.WriteFile(file, []byte(head+`{"role":"user","content":"old canary"}`+"\nbad\n"+`{"role":"user","content":"more"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := op.ListSessions.Do(ctx, c, op.SessionFilter{})
	if err != nil || len(list.Items) != 2 || list.Total != 2 || list.Next != "" || list.Items[0].ID != sent.Session || list.Items[0].Number != sent.Number ||
		list.Items[1].Damaged != 1 || list.Items[1].Number != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, tc := range []struct {
		filter op.SessionFilter
		total  int
		next   string
		ids    []string
	}{
		{op.SessionFilter{Offset: 1, Limit: 5, Agent: "crab"}, 2, "", []string{"crab_user_90"}},
		{op.SessionFilter{Limit: 1}, 2, "1", []string{sent.Session}},
		{op.SessionFilter{Offset: 9}, 2, "", nil},
		{op.SessionFilter{CreatedBy: "nobody"}, 0, "", nil},
	} {
		list, err := op.ListSessions.Do(ctx, c, tc.filter)
		var ids []string
		for _, s := range list.Items {
			ids = append(ids, s.ID)
		}
		if err != nil || list.Total != tc.total || list.Next != tc.next || !slices.Equal(ids, tc.ids) {
			t.Errorf("%+v: %+v, %v", tc.filter, list, err)
		}
	}
	_, err = op.ListSessions.Do(ctx, c, op.SessionFilter{Offset: -1})
	wantError(t, err, 400, "invalid", "after and limit")

	// A title of a live session, and one of another.
	for id, want := range map[string]string{sent.Session: sent.Session + "_port.jsonl", "crab_user_90": "crab_user_90_port.jsonl"} {
		if got, err := op.TitleSession.Do(ctx, c, op.SessionTitle{Session: id, Title: "Port"}); err != nil || got.File != want || got.Title != "Port" {
			t.Errorf("%v, %v", got, err)
		}
	}
	if again, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "and then?"}); err != nil || again.Number != sent.Number {
		t.Errorf("%v, %v", again, err)
	}
	_, err = op.TitleSession.Do(ctx, c, op.SessionTitle{Session: "nobody", Title: "x"})
	wantError(t, err, 404, "not_found", "nobody")

	// History, complete and paged.
	h, err := op.ReadLines.Do(ctx, c, op.SessionPage{SessionID: op.SessionID{Session: "crab_user_90"}})
	if err != nil || len(h.Items) != 5 || h.Next != "" || h.Last != 5 || h.Session.Title != "Port" || h.Items[2].Error == "" || h.Items[2].Kind != "bad" ||
		h.Items[2].Record != nil || string(h.Items[1].Record) != `{"role":"user","content":"old canary"}` {
		t.Errorf("%+v, %v", h, err)
	}
	h, err = op.ReadLines.Do(ctx, c, op.SessionPage{SessionID: op.SessionID{Session: "crab_user_90"}, After: 1, Limit: 2})
	if err != nil || len(h.Items) != 2 || h.Items[0].Line != 2 || h.Items[1].Line != 3 || h.Next != "3" || h.Last != 5 {
		t.Errorf("%+v, %v", h, err)
	}
	_, err = op.ReadLines.Do(ctx, c, op.SessionPage{SessionID: op.SessionID{Session: "nobody"}})
	wantError(t, err, 404, "not_found", "nobody")

	// Search finds the writes of other processes, too.
	found, err := op.SearchSessions.Do(ctx, c, op.SessionQuery{Query: "canary", Roles: []string{"user"}})
	if err != nil || found.Total != 3 || len(found.Hits) != 3 || len(found.Hits[0].Window) == 0 {
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
	if found, err = op.SearchSessions.Do(ctx, c, op.SessionQuery{Query: "zeppelin", Window: new(0)}); err != nil || found.Total != 2 || len(found.Hits[0].Window) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	for tools, want := range map[bool]int{false: 0, true: 1} {
		if found, err = op.SearchSessions.Do(ctx, c, op.SessionQuery{Query: "dirigible", Tools: tools}); err != nil || found.Total != want {
			t.Errorf("%v, %v", found, err)
		}
	}
	for want, q := range map[string]op.SessionQuery{
		"query is empty": {}, "limit: want 1 to 20": {Query: "x", Limit: 21}, "window: want 0 to 16": {Query: "x", Window: new(17)},
		"since: want RFC 3339": {Query: "x", Since: "today", Until: "2026-04-14T10:00:00Z"}, "until: want RFC 3339": {Query: "x", Until: "today"},
	} {
		_, err = op.SearchSessions.Do(ctx, c, q)
		wantError(t, err, 400, "invalid", want)
	}

	// Repair; the loaded session is valid and is closed.
	did, err := op.RepairSession.Do(ctx, c, op.SessionID{Session: "crab_user_90"})
	list, lerr := op.ListSessions.Do(ctx, c, op.SessionFilter{})
	if err != nil || lerr != nil || did.Dropped != 1 || did.Copy == "" || list.Items[1].Damaged != 0 {
		t.Errorf("%+v, %v, %+v, %v", did, err, list, lerr)
	}
}

// TestPurgeStored purges sessions: one with a run, which is refused, and the same one
// loaded and idle. The next run in it does not see the text.
func TestPurgeStored(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.client(), t.Context()
	purge := func(id, text string) (op.PurgedSession, error) {
		return op.PurgeSession.Do(ctx, c, op.SessionTexts{Session: id, Texts: []string{text}})
	}
	sent, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "the vault code"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.loaded.With(ctx, sent.Number, func(context.Context, session.Setup, *agent.Agent, *agent.Session) error {
		_, err := purge(sent.Session, "the vault code")
		wantError(t, err, 409, "busy", "has an active run")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, err = purge(sent.Session, "")
	wantError(t, err, 400, "invalid", "a text is empty")
	_, err = purge("crab_user_99", "the vault code")
	wantError(t, err, 404, "not_found", "crab_user_99")
	if n, err := purge(sent.Session, "the vault code"); n.Lines == 0 || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	h, err := op.ReadLines.Do(ctx, c, op.SessionPage{SessionID: op.SessionID{Session: sent.Session}})
	for _, l := range h.Items {
		if strings.Contains(string(l.Record), "the vault code") {
			t.Errorf("line %d: %s", l.Line, l.Record)
		}
	}
	if err != nil || len(h.Items) == 0 {
		t.Errorf("%+v, %v", h, err)
	}
	if found, err := op.SearchSessions.Do(ctx, c, op.SessionQuery{Query: "vault code", Tools: true}); len(found.Hits) > 0 || err != nil {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "next"}); err != nil {
		t.Error(err)
	}
}

// TestDeleteStored deletes sessions: a loaded idle one, one with a run, and one
// that is not loaded.
func TestDeleteStored(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.client(), t.Context()
	sent, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	id := op.SessionID{Session: sent.Session}
	if err := s.loaded.With(ctx, sent.Number, func(context.Context, session.Setup, *agent.Agent, *agent.Session) error {
		_, err := op.DeleteSession.Do(ctx, c, id)
		wantError(t, err, 409, "busy", "has an active run")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	got, err := op.DeleteSession.Do(ctx, c, id)
	if err != nil || got.ID != sent.Session || got.Number != 0 || got.Loaded {
		t.Errorf("%v, %v", got, err)
	}
	if list, err := op.ListLoaded.Do(ctx, c, op.None{}); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	_, err = op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "x", Number: sent.Number})
	wantError(t, err, 500, "not_found", fmt.Sprint(sent.Number))
	_, err = op.DeleteSession.Do(ctx, c, id)
	wantError(t, err, 404, "not_found", sent.Session)
	if list, err := op.ListSessions.Do(ctx, c, op.SessionFilter{Trash: true}); err != nil || len(list.Items) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if got, err := op.RestoreSession.Do(ctx, c, id); err != nil || got.Messages != 2 {
		t.Errorf("%v, %v", got, err)
	}
	_, err = op.RestoreSession.Do(ctx, c, op.SessionID{Session: "nobody"})
	wantError(t, err, 404, "not_found", "nobody")
	again, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "again"})
	if err != nil || again.Session != sent.Session || again.Number == sent.Number {
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
