package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/agent"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
)

func (s *served) compact(id uint64) (op.Compacted, error) {
	return op.CompactSession.Do(s.t.Context(), s.client(), op.Compaction{Number: id})
}

// archives are the names and texts of the store's archives.
func (s *served) archives() string {
	var all []string
	for e := range s.store.All() {
		if e.Kind == crmem.Archive {
			all = append(all, e.Name+" "+e.Content)
		}
	}
	return strings.Join(all, "|")
}

// reopened restarts the daemon, and says something in a session.
func (s *served) reopened(m *modeltest.Server) *served {
	s.t.Helper()
	s.stop()
	m.Queue(modeltest.Say("yes"))
	s = serve(s.t, s.home, "")
	if r := s.one(send(&pb.SendMsg{Content: "and?"})).GetResponse(); r.GetContent() != "yes" {
		s.t.Fatal(r)
	}
	return s
}

// TestMissingArchiveIsWritten checks that summaries that could not be stored are
// stored once when the session is next resumed, regardless of later messages.
func TestMissingArchiveIsWritten(t *testing.T) {
	m := modeltest.New(t, modeltest.Say("hello"), modeltest.Say("they spoke of walruses"))
	s := serve(t, home(t), scripted(m))
	id := s.one(send(&pb.SendMsg{Content: "hi"})).GetResponse().GetSession()
	if c, err := s.compact(id); c.Archive != "crab_user_1-1" {
		t.Fatalf("archive %q, %v", c.Archive, err)
	}
	// From here on the store refuses writes.
	s.setup().runner.Archive = func(*agent.Agent, *agent.Session, agent.Summary) (string, error) { return "", errors.New("disk full") }
	for _, summary := range []string{"then of crabs", "and of crabs again"} {
		m.Queue(modeltest.Say("hello"), modeltest.Say(summary), modeltest.Say("more"))
		s.one(send(&pb.SendMsg{Content: "go on"}))
		if c, err := s.compact(id); err != nil || c.Summary != summary || c.Archive != "" {
			t.Fatalf("compacted: %v, %v", c, err)
		}
		if r := s.one(send(&pb.SendMsg{Content: "go on"})).GetResponse(); r.GetContent() != "more" {
			t.Fatal(r)
		}
	}
	const all = "crab_user_1-1 they spoke of walruses|crab_user_1-2 then of crabs|crab_user_1-3 and of crabs again"
	for range 2 {
		if s = s.reopened(m); s.archives() != all {
			t.Fatalf("archives: %s", s.archives())
		}
	}
	// An entry that the user removed is not created again.
	if err := s.store.Apply(crmem.Remove{Name: "crab_user_1-2"}, crmem.Remove{Name: "crab_user_1-3"}); err != nil {
		t.Fatal(err)
	}
	if s = s.reopened(m); s.archives() != "crab_user_1-1 they spoke of walruses" {
		t.Errorf("archives: %s", s.archives())
	}
}

// TestRemovedArchive removes the entry of a summary without later messages.
// Without the archived file, as for a session of an older daemon, the result is
// as after a crash.
func TestRemovedArchive(t *testing.T) {
	for _, older := range []bool{false, true} {
		m := modeltest.New(t, modeltest.Say("hello"), modeltest.Say("they spoke of walruses"))
		s := serve(t, home(t), scripted(m))
		s.compact(s.one(send(&pb.SendMsg{Content: "hi"})).GetResponse().GetSession())
		if err := s.store.Apply(crmem.Remove{Name: "crab_user_1-1"}); err != nil {
			t.Fatal(err)
		}
		want := ""
		if older {
			if err := os.RemoveAll(filepath.Join(s.home, "archived")); err != nil {
				t.Fatal(err)
			}
			want = "crab_user_1-1 they spoke of walruses"
		}
		for range 2 {
			if s = s.reopened(m); s.archives() != want {
				t.Errorf("older %v: archives: %q", older, s.archives())
			}
		}
	}
}

// TestNoSummaryWithoutNote checks that a summary is not written if the number
// of archived summaries cannot be written.
func TestNoSummaryWithoutNote(t *testing.T) {
	m := modeltest.New(t, modeltest.Say("hello"), modeltest.Say("they spoke of walruses"))
	s := serve(t, home(t), scripted(m))
	id := s.one(send(&pb.SendMsg{Content: "hi"})).GetResponse().GetSession()
	if err := os.WriteFile(filepath.Join(s.home, "archived"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.compact(id)
	if err == nil || !strings.Contains(err.Error(), "record pending archive: ") {
		t.Errorf("%v", err)
	}
	if got := strings.Join(s.lines("crab_user_1"), "|"); got != "user hi|assistant hello" {
		t.Errorf("lines: %s", got)
	}
}
