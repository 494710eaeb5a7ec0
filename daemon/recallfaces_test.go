package daemon

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/embed/embedtest"
	"crabmem/crmem/fusion"
	"crabmem/crmem/recall"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
)

// faces carry out a search with the arguments of a model, and list the hits: the command,
// HTTP, an MCP client, and the tool of agents.
type faces struct {
	*served
	store op.Store
}

func (f *faces) list(t *testing.T, args map[string]any) map[string]string {
	t.Helper()
	b, err := json.Marshal(args)
	check(t, err)
	got := map[string]string{}
	add := func(face string, err error, hits ...string) {
		if got[face] = strings.Join(hits, " "); err != nil {
			got[face] = "refused"
		}
	}
	label := func(e *crmem.EntryInfo, m *recall.Message) string {
		if m != nil {
			return fmt.Sprintf("%s:%d", m.Session, m.Line)
		}
		return e.Name
	}

	q := op.Question{Semantic: true}
	check(t, json.Unmarshal(b, &q))
	a, err := op.Recall.Do(t.Context(), f.store, q)
	var hits []string
	if err == nil {
		for _, h := range a.Hits {
			hits = append(hits, label(h.EntryInfo, h.Message))
		}
	}
	add("command", err, hits...)

	h := op.SearchQuery{Semantic: true}
	check(t, json.Unmarshal(b, &h))
	found, err := op.SearchEntries.Do(t.Context(), f.store, h)
	hits = nil
	for _, h := range found.Hits {
		var e *crmem.EntryInfo
		if h.Entry != nil {
			e = &h.Entry.EntryInfo
		}
		hits = append(hits, label(e, h.Message))
	}
	add("HTTP", err, hits...)

	m := op.EntrySearch{Budget: 8000}
	check(t, json.Unmarshal(b, &m))
	find, err := op.FindEntries.Do(t.Context(), f.store, m)
	hits = nil
	for _, h := range find.Hits {
		hits = append(hits, label(h.EntryInfo, h.Message))
	}
	add("MCP", err, hits...)

	text, err := f.recallTool(t.Context(), tool.Call{Agent: "crab", Scope: tool.Unbounded()}, decoded[recallArgs](t, b, `{"budget_tokens":8000}`))
	hits = nil
	for _, m := range toolHit.FindAllStringSubmatch(text, -1) {
		if m[2] != "" {
			hits = append(hits, m[2]+":"+m[3])
		} else {
			hits = append(hits, m[1])
		}
	}
	add("tool", err, hits...)
	return got
}

var toolHit = regexp.MustCompile(`(?m)^## (.*)\n(?:session: (\S+), line (\d+), |\()`)

func decoded[T any](t *testing.T, texts ...any) (v T) {
	t.Helper()
	for _, x := range texts {
		if s, ok := x.(string); ok {
			x = []byte(s)
		}
		check(t, json.Unmarshal(x.([]byte), &v))
	}
	return v
}

// randomStore returns a store in memory with notes. No read is counted, so that each face
// finds the same ages.
func randomStore(t *testing.T, rng *rand.Rand, now time.Time) *crmem.Store {
	t.Helper()
	m, _ := embedtest.New("sail canvas", "rope line")
	s := crmem.New(&crmem.Options{Embed: m, Now: func() time.Time { return now }})
	var ops []crmem.Op
	n := 1 + rng.IntN(12)
	for id := range n {
		text := fmt.Sprintf("---\ntype: %s\nimportance: 0.%d\ntags: [%s]\n---\n", []string{"identity", "fact"}[rng.IntN(2)], 1+rng.IntN(9), faceWords[rng.IntN(3)])
		for range 1 + rng.IntN(6) {
			text += faceWords[rng.IntN(len(faceWords))] + " "
		}
		if rng.IntN(2) == 0 {
			text += fmt.Sprintf("[[n%d]]", 1+rng.IntN(n))
		}
		ops = append(ops, crmem.Restore{Entry: crmem.Entry{ID: uint64(id + 1), Name: fmt.Sprint("n", id+1), Content: text,
			CreatedAt: crmem.UnixTime(now.Unix() - rng.Int64N(200*24*3600)), Kind: crmem.Kind(rng.IntN(2))}})
	}
	check(t, s.Apply(ops...))
	check(t, s.EmbedAll(t.Context(), nil))
	return s
}

var faceWords = []string{"sail", "rope", "tide", "canvas", "line", "keel"}

// TestRecallFaces checks that each option has one meaning: the same query finds the same
// hits in the same order by the command, HTTP, an MCP client, and the tool of agents.
func TestRecallFaces(t *testing.T) {
	cases, err := strconv.Atoi(os.Getenv("CRABMEM_FACES"))
	if err != nil {
		if cases = 1000; testing.Short() {
			cases = 200
		}
	}
	m := modeltest.New(t)
	now := time.Unix(1_800_000_000, 0)
	s := serve(t, home(t), scripted(m), func(o *Options) { o.Now = func() time.Time { return now } })
	for _, text := range []string{"the sail and the rope", "a keel", "tide and line"} {
		m.Queue(modeltest.Say("about " + text))
		_, err := op.SendMessage.Do(t.Context(), s.client(), op.Message{Agent: "crab", Sender: "user", Content: text})
		check(t, err)
	}
	main, semantic := s.spaces, s.semantic
	t.Cleanup(func() { s.spaces, s.semantic = main, semantic })
	s.semantic = &fusion.Request{}
	rng := rand.New(rand.NewPCG(5, 6))
	used := map[string]int{}
	for i := 0; i < cases; {
		st := randomStore(t, rng, now)
		s.spaces = space.NewSet(space.Options{FS: s.fs, Home: s.Daemon.home, Main: st, Max: func() int { return 1 }, MaxOpen: 1})
		f := faces{s, op.Store{Store: st, As: op.Identity{Owner: true}, Semantic: s.semantic, Messages: s.messagesFor(&op.Identity{Owner: true}), Now: s.now}}
		for range 20 {
			i++
			args := map[string]any{"query": faceWords[rng.IntN(len(faceWords))] + " " + faceWords[rng.IntN(len(faceWords))], "limit": 1 + rng.IntN(15)}
			for name, value := range map[string]any{
				"in": []string{"notes", "sessions", "both"}[rng.IntN(3)], "min_share": rng.Float64(), "sort": []string{"score", "recent", "important"}[rng.IntN(3)],
				"importance": rng.Float64(), "half_life": fmt.Sprint(1+rng.IntN(90), "d"), "diverse": true, "lambda": rng.Float64(),
				"fusion": []string{"convex", "reciprocal_rank"}[rng.IntN(2)], "expand": rng.IntN(4),
				"kind": []string{"note", "archive"}[rng.IntN(2)], "type": "fact", "tags": []string{"sail"}, "after": "30d", "before": "10d",
			} {
				if rng.IntN(5) == 0 {
					args[name] = value
				}
			}
			if rng.IntN(4) == 0 {
				args = map[string]any{"query": args["query"], "limit": args["limit"], "in": "both", "diverse": rng.IntN(2) == 0}
			}
			got := f.list(t, args)
			for face, hits := range got {
				if hits != got["command"] {
					t.Fatalf("%v:\n%s: %s\ncommand: %s", args, face, hits, got["command"])
				}
			}
			if got["command"] != "" && got["command"] != "refused" {
				for name := range args {
					used[name]++
				}
				if strings.Contains(got["command"], ":") && strings.Contains(got["command"], "n") {
					used["mixed"]++
				}
			}
		}
		check(t, s.spaces.Close())
		check(t, st.Close())
	}
	for _, name := range []string{"in", "min_share", "sort", "importance", "half_life", "diverse", "lambda", "fusion", "expand", "after", "mixed"} {
		if used[name] < cases/50 {
			t.Errorf("%s had %d cases with hits, of %d", name, used[name], cases)
		}
	}
	t.Logf("recall by 4 faces: %d cases", cases)
}

// TestRecallHidesSessions checks that no option of a search shows a message that
// session_search, or a search in sessions, does not.
func TestRecallHidesSessions(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m)+identities)
	for _, by := range []string{"user", "api:a", "api:b", "api:u"} {
		m.Queue(modeltest.Say("the walrus of " + by))
		_, err := op.SendMessage.Do(t.Context(), s.client(), op.Message{Agent: "crab", Sender: by, Content: "about the walrus of " + by})
		check(t, err)
	}
	if _, err := s.store.Remember("walrus", "a walrus of the owner", nil); err != nil {
		t.Fatal(err)
	}
	senders := regexp.MustCompile(`of (user|api:\w)\b`)
	for _, in := range []string{"sessions", "both"} {
		for _, options := range []op.RankArgs{{In: in}, {In: in, Expand: 3, Diverse: true}, {In: in, Fusion: "reciprocal_rank", HalfLife: "1d"}} {
			for _, id := range []string{"api:a", "api:b"} {
				a, err := op.Recall.Do(t.Context(), s.as(id), op.Question{Query: "walrus", RankArgs: options})
				check(t, err)
				if text := fmt.Sprint(decodedHits(a)); len(a.Hits) != 2 || slices.ContainsFunc(senders.FindAllStringSubmatch(text, -1), func(m []string) bool { return m[1] != id }) {
					t.Errorf("%s, %+v: %s", id, options, text)
				}
			}
			a, err := op.Recall.Do(t.Context(), s.client(), op.Question{Query: "walrus", RankArgs: options})
			if check(t, err); a.Total < 8 {
				t.Errorf("the owner finds %d, %+v", a.Total, options)
			}
		}
		for id, want := range map[string]string{"user": "user", "api:a": "api:a", "api:b": "api:b"} {
			rules := s.setup().config.Origins
			c := tool.Call{Agent: "crab", Requester: id, Scope: rules.Scope(id, id)}
			text, err := s.recallTool(t.Context(), c, recallArgs{Query: "walrus", Limit: 20, RankArgs: op.RankArgs{In: in}})
			found := senders.FindAllStringSubmatch(text, -1)
			if err != nil || len(found) == 0 || slices.ContainsFunc(found, func(m []string) bool { return m[1] != want }) {
				t.Errorf("the tool for %s in %s: %s, %v", id, in, text, err)
			}
			c.Agent = "other"
			if text, err = s.recallTool(t.Context(), c, recallArgs{Query: "walrus", Limit: 20, RankArgs: op.RankArgs{In: in}}); err != nil || senders.MatchString(text) {
				t.Errorf("another agent for %s in %s: %s, %v", id, in, text, err)
			}
			c.Scope = c.Scope.Intersect(tool.Scope{Tools: tool.Only(tool.Recall), Memory: tool.AllMemory()})
			if text, err = s.recallTool(t.Context(), c, recallArgs{Query: "walrus", RankArgs: op.RankArgs{In: in}}); err == nil {
				t.Errorf("without session_search, %s in %s: %s", id, in, text)
			}
		}
	}
}

func decodedHits(a *recall.Answer) (list []string) {
	for i := range a.Hits {
		list = append(list, a.Hits[i].Text())
	}
	return list
}
