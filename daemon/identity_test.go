package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
)

// identities is a configuration with an identity of each level of trust; api:u has no
// rule.
const identities = `[origins."api:a"]
trust = "trusted"
[origins."api:b"]
trust = "trusted"
[origins."api:reads"]
allow = ["recall", "remember"]
[origins."api:root"]
trust = "admin"
`

// as returns a client for an identity.
func (s *served) as(name string) *client.Client {
	c := s.client()
	c.As = name
	return c
}

// TestTrust checks the trust in identities, and their limit.
func TestTrust(t *testing.T) {
	s := serve(t, home(t), identities)
	for id, want := range map[string]string{"": "admin", "someone": "admin", "api:u": "untrusted", "api:a": "trusted", "api:root": "admin"} {
		if h, err := s.as(id).Hello(t.Context()); err != nil || h.Trust != want {
			t.Errorf("%q has the trust %q, %v; want %q", id, h.Trust, err, want)
		}
	}
	if e := failure(t, s.one(callAs(t, "daemon.hello", op.None{}, strings.Repeat("x", 1025), ""))); !strings.Contains(e.Message, "1025 bytes") {
		t.Errorf("a long identity: %+v", e)
	}
}

// TestIdentityReadsItsSessions lists, reads, searches, and changes sessions as several
// identities. Each sees only its own; those of others are missing.
func TestIdentityReadsItsSessions(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m)+identities)
	stored := map[string]op.Answer{}
	for _, by := range []string{"user", "api:a", "api:b", "api:u"} {
		m.Queue(modeltest.Say("the walrus of " + by))
		r, err := op.SendMessage.Do(t.Context(), s.client(), op.Message{Agent: "crab", Sender: by, Content: "about the walrus"})
		if err != nil {
			t.Fatal(err)
		}
		stored[by] = r
	}
	ctx := t.Context()
	read := func(c *client.Client, session string) error {
		_, err := op.ReadLines.Do(ctx, c, op.SessionPage{SessionID: op.SessionID{Session: session}})
		return err
	}
	for _, id := range []string{"api:a", "api:b", "api:u", "api:root", "someone"} {
		c := s.as(id)
		owner := id == "api:root" || id == "someone"
		var listed, live, hits []string
		list, err := op.ListSessions.Do(ctx, c, op.SessionFilter{})
		check(t, err)
		for _, i := range list.Items {
			listed = append(listed, i.CreatedBy)
		}
		loaded, err := op.ListLoaded.Do(ctx, c, op.None{})
		check(t, err)
		for _, l := range loaded {
			live = append(live, l.CreatedBy)
		}
		found, err := op.SearchSessions.Do(ctx, c, op.SessionQuery{Query: "walrus", Limit: 20})
		check(t, err)
		for _, h := range found.Hits {
			hits = append(hits, h.CreatedBy)
			for _, w := range h.Window {
				if !owner && strings.Contains(w.Text, "of ") && !strings.Contains(w.Text, id) {
					t.Errorf("%s: a hit contains %q", id, w.Text)
				}
			}
		}
		for what, got := range map[string][]string{"lists": listed, "sees live": live, "finds": hits} {
			slices.Sort(got)
			want := []string{id}
			if owner {
				want = []string{"api:a", "api:b", "api:u", "user"}
			}
			if got = slices.Compact(got); !slices.Equal(got, want) || list.Total != len(want) {
				t.Errorf("%s %s %q, want %q of %d", id, what, got, want, list.Total)
			}
		}
		for by, r := range stored {
			_, shown := op.ShowSession.Do(ctx, c, op.SessionID{Session: r.Session})
			_, byID := op.CancelSession.Do(ctx, c, op.SessionID{Session: r.Session})
			mine := owner || by == id
			_, cancelled := op.CancelRun.Do(ctx, c, op.SessionNumber{Number: r.Number})
			for what, err := range map[string]error{
				"history": read(c, r.Session), "by file": read(c, r.Session+".jsonl"), "show": shown, "cancel": cancelled, "cancel by ID": byID,
			} {
				if mine != (err == nil) || !mine && !missing(err) {
					t.Errorf("%s: %s of %s: %v", id, what, by, err)
				}
			}
			if mine {
				continue
			}
			_, titled := op.TitleSession.Do(ctx, c, op.SessionTitle{Session: r.Session, Title: "taken"})
			_, deleted := op.DeleteSession.Do(ctx, c, op.SessionID{Session: r.Session})
			_, compacted := op.CompactSession.Do(ctx, c, op.Compaction{Session: r.Session})
			_, byNumber := op.CompactSession.Do(ctx, c, op.Compaction{Number: r.Number})
			_, sent := op.SendMessage.Do(ctx, c, op.Message{Number: r.Number, Content: "what did we say?"})
			_, resumed := op.SendMessage.Do(ctx, c, op.Message{Session: r.Session, Content: "what did we say?"})
			_, answered := op.ReplyToRun.Do(ctx, c, op.Reply{Number: r.Number, Content: "yes"})
			for what, err := range map[string]error{"title": titled, "delete": deleted, "compact": compacted, "compact by number": byNumber} {
				if want := missing; id == "api:u" {
					wantError(t, err, 403, "scope", "may not change sessions")
				} else if !want(err) {
					t.Errorf("%s: %s of %s: %v", id, what, by, err)
				}
			}
			for what, err := range map[string]error{"send": sent, "resume": resumed, "reply": answered} {
				if !missing(err) {
					t.Errorf("%s: %s to %s: %v", id, what, by, err)
				}
			}
		}
	}
	if n := len(m.Requests()); n != 4 {
		t.Errorf("%d requests to the model", n)
	}
	a, own := s.as("api:a"), op.SessionID{Session: stored["api:a"].Session}
	if _, err := op.DeleteSession.Do(ctx, a, own); err != nil {
		t.Error(err)
	}
	if _, err := op.RestoreSession.Do(ctx, s.as("api:b"), own); !missing(err) {
		t.Errorf("restore by another identity: %v", err)
	}
	if i, err := op.RestoreSession.Do(ctx, a, own); err != nil || i.CreatedBy != "api:a" {
		t.Errorf("%+v, %v", i, err)
	}
	path := filepath.Join(s.home, "sessions", stored["api:a"].Session+".jsonl")
	if err := read(a, path); !missing(err) {
		t.Errorf("a path: %v", err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// missing reports whether err is that of a session that does not exist.
func missing(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Kind == "not_found"
}

// first returns the error of a sequence.
func first[T any](seq func(func(T, error) bool)) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestIdentitySends sends messages as an identity.
func TestIdentitySends(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m)+identities)
	m.Queue(modeltest.Say("hello"))
	r, err := op.SendMessage.Do(t.Context(), s.as("api:a"), op.Message{Agent: "crab", Content: "hi"})
	check(t, err)
	if i, err := s.describe(r.Session); err != nil || i.CreatedBy != "api:a" {
		t.Errorf("created by %v, %v", i, err)
	}
	_, err = op.SendMessage.Do(t.Context(), s.as("api:a"), op.Message{Agent: "crab", Sender: "user", Content: "hi"})
	wantError(t, err, 403, "scope", "api:a may not send messages of user")
	dir := os.TempDir()
	_, err = op.SendMessage.Do(t.Context(), s.as("api:a"), op.Message{Agent: "crab", Content: "hi", Dir: dir})
	wantError(t, err, 403, "scope", "working directory")
	err = first(op.StreamMessage.All(t.Context(), s.as("api:a"), op.Message{Agent: "crab", Sender: "api:b", Content: "hi"}))
	wantError(t, err, 403, "scope", "may not send messages of api:b")
}

// TestIdentityEvents subscribes as several identities.
func TestIdentityEvents(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m)+identities)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan string, 100)
	for _, id := range []string{"api:a", "api:u", "api:root"} {
		go func() {
			for e, err := range op.FollowEvents.All(ctx, s.as(id), op.EventFilter{}) {
				if err != nil {
					return
				}
				if e.Kind == "user" {
					got <- id + " sees " + e.Content
				}
			}
		}()
	}
	for s.events.count.Load() < 3 {
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
	for _, by := range []string{"user", "api:b", "api:a", "api:u"} {
		m.Queue(modeltest.Say("ok"))
		_, err := op.SendMessage.Do(ctx, s.client(), op.Message{Agent: "crab", Sender: by, Content: by})
		check(t, err)
	}
	var list []string
	for range 6 {
		list = append(list, <-got)
	}
	slices.Sort(list)
	if want := []string{"api:a sees api:a", "api:root sees api:a", "api:root sees api:b", "api:root sees api:u", "api:root sees user", "api:u sees api:u"}; !slices.Equal(list, want) {
		t.Errorf("%q, want %q", list, want)
	}
}

// TestIdentityChangesItsSpace reads and writes spaces as several identities.
func TestIdentityChangesItsSpace(t *testing.T) {
	s := serve(t, home(t), identities)
	ctx := t.Context()
	_, err := op.Remember.Do(ctx, s.client(), note("plan", "the owner's plan"))
	check(t, err)
	a, b := s.as("api:a"), s.as("api:b")
	if _, err := op.ReadEntry(ctx, a, op.EntryName{Name: "plan"}); !missing(err) && !errors.Is(err, crmem.ErrNoStore) {
		t.Errorf("an identity without a space: %v", err)
	}
	w, err := op.Remember.Do(ctx, a, note("plan", "the plan of a"))
	check(t, err)
	if _, err := op.Remember.Do(ctx, b, note("other", "of b")); err != nil {
		t.Error(err)
	}
	own := space.OfSender("api:a")
	for _, name := range []string{space.Main, own} {
		b.Space = name
		_, read := op.ReadEntry(ctx, b, op.EntryName{Name: "plan"})
		_, written := op.Remember.Do(ctx, b, note("plan", "overwritten"))
		_, forgotten := op.Forget.Do(ctx, b, op.Removal{Name: "plan"})
		_, applied := op.ApplyOps(ctx, b, crmem.Remove{Name: "plan"})
		_, found := op.Recall.Do(ctx, b, op.Question{Query: "plan", Limit: 5})
		for i, err := range []error{read, written, forgotten, applied, found} {
			wantError(t, err, 403, "scope", map[bool]string{true: "change", false: "read"}[i > 0 && i < 4]+" the space "+name)
		}
	}
	check(t, s.inSpace(own, func(st *crmem.Store) error {
		return st.Apply(crmem.Add{Name: "archive", Kind: crmem.Archive, Content: "a summary"})
	}))
	archive, err := op.ReadEntry(ctx, a, op.EntryName{Name: "archive"})
	check(t, err)
	_, err = op.Forget.Do(ctx, a, op.Removal{Name: "archive", Archive: true})
	wantError(t, err, 403, "scope", "may not change archives")
	_, err = op.ApplyOps(ctx, a, crmem.Add{Name: "second", Kind: crmem.Archive})
	wantError(t, err, 403, "scope", "may not change archives")
	for _, ops := range [][]crmem.Op{
		{crmem.Update{Name: "plan", Content: "x"}}, {crmem.Remove{Name: "archive"}}, {crmem.Unchanged{Entry: archive}, crmem.Remove{Name: "archive"}},
		{crmem.Unchanged{Entry: w.Entry()}, crmem.Rename{Name: "archive", To: "x"}}, {crmem.Alias{Name: "archive", Aliases: []string{"x"}}},
	} {
		_, err = op.ApplyOps(ctx, a, ops...)
		wantError(t, err, 403, "scope", "without the note in unchanged")
	}
	// A condition that names the archive as a note does not hold.
	lie := archive
	lie.Kind = crmem.Note
	_, err = op.ApplyOps(ctx, a, crmem.Unchanged{Entry: lie}, crmem.Remove{Name: "archive"})
	wantError(t, err, 409, "changed", "")
	if _, err = op.ApplyOps(ctx, a, crmem.Unchanged{Entry: w.Entry()}, crmem.Update{Name: "plan", Content: "the new plan of a"}); err != nil {
		t.Error(err)
	}
	_, err = op.ApplyOps(ctx, a, crmem.Restore{Entry: archive})
	wantError(t, err, 403, "scope", "may not restore entries")
	u := s.as("api:reads") // its agents may write its space; it may not
	_, err = op.Remember.Do(ctx, u, note("x", "y"))
	wantError(t, err, 403, "scope", "may not change the space api:reads")
	var origins []string
	check(t, s.inSpace(own, func(st *crmem.Store) error {
		for c, err := range st.Changes() {
			if err != nil {
				return err
			}
			origins = append(origins, c.By.Origin)
		}
		return nil
	}))
	if got := fmt.Sprint(origins); !strings.Contains(got, "api:a") || strings.Contains(got, "api:b") {
		t.Errorf("changes by %s", got)
	}
	if got := s.inSpaces(); !strings.Contains(got, "main/plan") || !strings.Contains(got, own+"/plan") || !strings.Contains(got, space.OfSender("api:b")+"/other") {
		t.Errorf("entries: %s", got)
	}
}
