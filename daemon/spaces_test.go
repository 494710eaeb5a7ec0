package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/wire/pb"
)

// serveSpaces serves a home with spaces.
func serveSpaces(t *testing.T, m *modeltest.Server, config string, names ...string) *served {
	t.Helper()
	h := home(t)
	manage := space.Home{FS: vfs.OS{}, Path: h}
	for _, name := range names {
		if err := manage.Create(name, 1000); err != nil {
			t.Fatal(err)
		}
	}
	return serve(t, h, scripted(m)+config)
}

// calls has an agent call tools for a sender, and returns the results.
func (s *served) calls(m *modeltest.Server, agent, sender string, calls ...string) []string {
	s.t.Helper()
	for _, c := range calls {
		name, args, _ := strings.Cut(c, " ")
		m.Queue(modeltest.Call(name, args))
	}
	m.Queue(modeltest.Say("ok"))
	if r := s.one(send(&pb.SendMsg{Content: "hi", Agent: agent, Sender: &sender, NewChat: true})).GetResponse(); r.GetContent() != "ok" {
		s.t.Fatal(r)
	}
	qs := m.Requests()
	var results []string
	for _, msg := range qs[len(qs)-1].Messages {
		if msg.Role == "tool" {
			results = append(results, msg.Content)
		}
	}
	if len(results) != len(calls) {
		s.t.Fatalf("%d results of %d calls", len(results), len(calls))
	}
	return results
}

// inSpaces returns the names of the entries of each space.
func (s *served) inSpaces() string {
	s.t.Helper()
	names, err := space.Names(s.fs, s.home)
	if err != nil {
		s.t.Fatal(err)
	}
	var list []string
	for _, name := range names {
		err := s.inSpace(name, func(st *crmem.Store) error {
			for e := range st.All() {
				list = append(list, name+"/"+e.Name)
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return strings.Join(list, " ")
}

// TestAgentsHaveSpaces has agents write and read their spaces.
func TestAgentsHaveSpaces(t *testing.T) {
	m := modeltest.New(t)
	s := serveSpaces(t, m, `memory_read = ["team"]
[agents.bet]
prompt = "x"
memory = "team"
[agents.gimel]
prompt = "x"
memory = "lost"
`, "team")
	s.calls(m, "crab", "user", `remember {"name":"walrus","content":"walrus in main"}`)
	s.calls(m, "bet", "user", `remember {"name":"walrus","content":"walrus in team"}`, `remember {"name":"team only","content":"walrus of two"}`)
	if got := s.inSpaces(); got != "main/walrus team/walrus team/team only" {
		t.Fatalf("entries: %s", got)
	}
	r := s.calls(m, "crab", "user", `recall {"query":"walrus"}`, `recall {"names":["walrus","team only","none"]}`, `forget {"name":"team only"}`)
	for _, want := range []string{"3 of 3 matches", "walrus in main", "walrus in team", ", full text, space team)", "walrus of two"} {
		if !strings.Contains(r[0], want) {
			t.Errorf("recall lacks %q: %s", want, r[0])
		}
	}
	if strings.Count(r[0], "space ") != 2 || strings.Index(r[0], "walrus in main") > strings.Index(r[0], "walrus in team") {
		t.Errorf("recall: %s", r[0])
	}
	if strings.Count(r[1], "## walrus") != 2 || !strings.Contains(r[1], "walrus of two") || !strings.Contains(r[1], "## none\n") {
		t.Errorf("names: %s", r[1])
	}
	if !strings.Contains(r[2], "no entry named: team only") {
		t.Errorf("an agent forgets in a space that it only reads: %s", r[2])
	}
	r = s.calls(m, "bet", "user", `recall {"query":"walrus"}`)
	if strings.Contains(r[0], "in main") || !strings.Contains(r[0], "2 of 2 matches") {
		t.Errorf("bet reads main: %s", r[0])
	}
	for _, call := range []string{`recall {"query":"walrus"}`, `remember {"name":"a","content":"b"}`, `forget {"name":"a"}`} {
		if r := s.calls(m, "gimel", "user", call); !strings.Contains(r[0], `open space "lost"`) {
			t.Errorf("a missing space: %s", r[0])
		}
	}
	if _, err := os.Stat(space.Dir(s.home, "lost")); err == nil {
		t.Error("a write created a space")
	}
	s.stop()
	s = serve(t, s.home, "")
	if got := s.inSpaces(); got != "main/walrus team/walrus team/team only" {
		t.Errorf("after a restart: %s", got)
	}
}

// TestSpaceOfSender gives each trusted sender a separate space, which its first
// write creates.
func TestSpaceOfSender(t *testing.T) {
	m := modeltest.New(t)
	s := serveSpaces(t, m, `[limits]
untrusted_runs_per_minute = 0
[memory]
max_spaces = 2
[origins."tg:"]
trust = "trusted"
[origins."dc:"]
allow = ["recall", "remember"]
space = "help"
`, "help")
	own := space.OfSender("tg:7")
	r := s.calls(m, "crab", "tg:7", `recall {"query":"walrus"}`, `recall {"names":["walrus"]}`, `forget {"name":"walrus"}`)
	if r[0] != "no memories found" || !strings.Contains(r[1], "no such entry") || !strings.Contains(r[2], "no entry named") {
		t.Errorf("an unwritten space: %q", r)
	}
	if _, err := os.Stat(space.Dir(s.home, own)); err == nil {
		t.Error("a read created a space")
	}
	s.calls(m, "crab", "tg:7", `remember {"name":"walrus","content":"walrus of seven"}`)
	s.calls(m, "crab", "user", `remember {"name":"walrus","content":"walrus of mine"}`)
	if r := s.calls(m, "crab", "tg:8", `remember {"name":"walrus","content":"x"}`); !strings.Contains(r[0], "at most 2") {
		t.Errorf("more than max_spaces: %s", r[0])
	}
	for sender, want := range map[string]string{"tg:7": "walrus of seven", "user": "walrus of mine", "tg:8": "no memories found"} {
		if r := s.calls(m, "crab", sender, `recall {"query":"walrus"}`); !strings.Contains(r[0], want) || strings.Count(r[0], "walrus of") > 1 {
			t.Errorf("%s: %s", sender, r[0])
		}
	}
	// An untrusted sender with permission has a quota.
	for i := range 100 {
		if r := s.calls(m, "crab", "dc:1", fmt.Sprintf(`remember {"name":"n%d","content":"x"}`, i)); !strings.HasPrefix(r[0], "remembered: ") {
			t.Fatal(r[0])
		}
	}
	r = s.calls(m, "crab", "dc:2", `remember {"name":"more","content":"x"}`, `remember {"name":"n1","content":"`+strings.Repeat("y", 256<<10)+`"}`, `forget {"name":"n1"}`, `recall {"query":"n1"}`)
	if !strings.Contains(r[0], "100 entries") || !strings.Contains(r[1], "262144 bytes") || r[2] != "tool not available: forget" || !strings.Contains(r[3], "space help") {
		t.Errorf("the quota: %.200q", r)
	}
}

// TestSummaryGoesToSpace archives summaries in the space that the run writes. A
// pending one is archived in its recorded space after a change of the
// configuration, or refused if that space is gone.
func TestSummaryGoesToSpace(t *testing.T) {
	m := modeltest.New(t, modeltest.Say("hello"), modeltest.Say("they spoke of walruses"))
	s := serveSpaces(t, m, "memory = \"team\"\n", "team", "other")
	id := s.one(send(&pb.SendMsg{Content: "hi"})).GetResponse().GetSession()
	s.compact(id)
	if got := s.inSpaces(); got != "team/crab_user_1-1" {
		t.Fatalf("entries: %s", got)
	}
	if err := s.writeSpace("team", func(st *crmem.Store) error { return st.Apply(crmem.Remove{Name: "crab_user_1-1"}) }); err != nil {
		t.Fatal(err)
	}
	s.stop()
	record := func(text string) {
		if err := os.WriteFile(filepath.Join(s.home, "archived", "crab_user_1"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	resume := func(config string) {
		m.Queue(modeltest.Say("yes"))
		s = serve(t, s.home, config)
		if r := s.one(send(&pb.SendMsg{Content: "and?"})).GetResponse(); r.GetContent() != "yes" {
			t.Fatal(r)
		}
	}
	for _, c := range []struct{ record, want string }{
		{"0 gone\n", ""}, {"0 -\n", ""}, {"0 team\n", "team/crab_user_1-1"},
	} {
		record(c.record)
		resume(scripted(m) + "memory = \"other\"\n")
		if got := s.inSpaces(); got != c.want {
			t.Errorf("%q: %q, want %q", c.record, got, c.want)
		}
		s.stop()
	}
}

// TestScoresOfSpaces checks that the scores and the corrections of a space do not
// depend on another space.
func TestScoresOfSpaces(t *testing.T) {
	m := modeltest.New(t)
	s := serveSpaces(t, m, "[agents.bet]\nprompt = \"x\"\nmemory = \"team\"\nmemory_read = []\n", "team")
	s.calls(m, "bet", "user", `remember {"name":"one","content":"the walrus sleeps"}`, `remember {"name":"two","content":"the crab walks, the walrus swims"}`)
	queries := []string{`recall {"query":"walrus crab"}`, `recall {"query":"walrsu"}`, `recall {"query":"penguin"}`}
	normal := func(list []string) []string {
		key := regexp.MustCompile(`memory [a-z2-7]{16}|with [a-z2-7]{16}`)
		list = slices.Clone(list)
		for i := range list {
			list[i] = key.ReplaceAllString(list[i], "")
		}
		return list
	}
	scores := func() (all []float64) {
		err := s.inSpace("team", func(st *crmem.Store) error {
			r, err := st.Search(t.Context(), crmem.Query{Text: "walrus crab", Limit: 9})
			for _, h := range r.Hits {
				all = append(all, h.Score)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before, scored := normal(s.calls(m, "bet", "user", queries...)), scores()
	for i := range 50 {
		s.calls(m, "crab", "user", fmt.Sprintf(`remember {"name":"n%d","content":"walrus walrsus penguin crab %d"}`, i, i))
	}
	if after := normal(s.calls(m, "bet", "user", queries...)); !slices.Equal(before, after) || !slices.Equal(scored, scores()) {
		t.Errorf("results changed:\n%q\n%q", before, after)
	}
}

// TestSpaceOfOpenDaemon writes to a space that the daemon has open: the daemon writes
// it. A rename is refused, and names the daemon.
func TestSpaceOfOpenDaemon(t *testing.T) {
	m := modeltest.New(t)
	s := serveSpaces(t, m, "[agents.bet]\nprompt = \"x\"\nmemory = \"team\"\n", "team", "other")
	s.calls(m, "bet", "user", `remember {"name":"walrus","content":"walrus in team"}`)
	for _, name := range []string{"team", "other", "main"} {
		st, err := client.OpenStore(t.Context(), client.StoreOptions{Path: space.File(s.home, name), Space: name, Access: client.Access{LockWait: 5 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = st.Update(t.Context(), func(v *crmem.Store) ([]crmem.Op, error) {
			return []crmem.Op{crmem.Add{Name: "by client", Content: "x"}}, nil
		})
		if err == nil {
			_, err = op.Remember.Do(t.Context(), st, note("note in "+name, "x"))
		}
		if err == nil {
			_, err = op.Checkpoint.Do(t.Context(), st, op.None{})
		}
		if err := errors.Join(err, st.Close()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if got, want := s.inSpaces(), "main/by client main/note in main other/by client other/note in other team/walrus team/by client team/note in team"; got != want {
		t.Errorf("entries %q, want %q", got, want)
	}
	err := (&space.Home{FS: vfs.OS{}, Path: s.home}).Rename("team", "crew")
	if locked, ok := errors.AsType[*vfs.LockedError](err); !ok || locked.Holder.Command != "crabmem daemon" {
		t.Errorf("rename of an open space: %v", err)
	}
	s.stop()
	if err := (&space.Home{FS: vfs.OS{}, Path: s.home}).Rename("team", "crew"); err != nil {
		t.Error(err)
	}
}
