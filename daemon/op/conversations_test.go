package op_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
	"crabmem/sessionlog/search"
)

// randomConversations returns the transcripts of conversations. Their words follow Zipf's
// law; many messages are questions, and some authors have names.
func randomConversations(rng *rand.Rand, word func() string) (heads []sessionlog.Meta, items [][]sessionlog.Item) {
	for c := range 60 {
		day := time.Date(2026, 1, 1+c, 9, 0, 0, 0, time.UTC)
		heads = append(heads, sessionlog.Meta{Agent: "helper", CreatedBy: "user", Title: word() + " " + word(), Source: fmt.Sprint("test:", c), CreatedAt: record.Timestamp(day)})
		roles := [][]string{{"user", "assistant"}, {"melanie", "caroline"}}[c%2]
		var list []sessionlog.Item
		for i := range 1 + rng.IntN(30) {
			var b strings.Builder
			for range 1 + rng.IntN(3) {
				for n := range 1 + rng.IntN(1+rng.IntN(40)) {
					if n > 0 {
						b.WriteByte(' ')
					}
					b.WriteString(word())
				}
				b.WriteString([]string{". ", "? ", ".\n"}[rng.IntN(3)])
			}
			list = append(list, sessionlog.Item{Message: sessionlog.Message{Role: roles[i%2], Content: strings.TrimSpace(b.String())}})
		}
		items = append(items, list)
	}
	return heads, items
}

// TestMessagesRankEqually searches the same messages as entries with metadata and as
// sessions, with 1,000 random queries. All searches return them in the same order. The
// names of the entries contain no terms, because messages of sessions have no names.
func TestMessagesRankEqually(t *testing.T) {
	race.Skip(t)
	rng := rand.New(rand.NewPCG(3, 8))
	words := strings.Fields("ship deploy canary harbor kettle ticket budget garden violin planet coffee marathon passport recipe novel sister hotel " +
		"camera invoice doctor bridge January yesterday Tuesday running ran apples friendly quickly 東京 寿司 バス")
	zipf := rand.NewZipf(rng, 1.2, 2, uint64(len(words)-1))
	word := func() string { return words[zipf.Uint64()] }
	heads, items := randomConversations(rng, word)
	now := func() time.Time { return time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC) }
	created := now()
	s := crmem.New(&crmem.Options{Now: func() time.Time { return created }})
	defer s.Close()
	dir, err := sessionlog.OpenDir(t.TempDir(), &sessionlog.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	where := make(map[string]string) // by name of an entry: session and line
	add := func(session string, line int, content string, fields ...metadata.Field) {
		name := strings.NewReplacer("0", "-", "1", "+").Replace(strconv.FormatInt(int64(len(where)+1), 2))
		where[name] = fmt.Sprint(session, " ", line)
		content, err := metadata.Set(content, fields...)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(crmem.Add{Name: name, Content: content}); err != nil {
			t.Fatal(err)
		}
	}
	ids := make([]string, len(heads))
	for c, m := range heads {
		if ids[c], _, err = dir.Import(m, items[c]); err != nil {
			t.Fatal(err)
		}
	}
	for c, m := range slices.Backward(heads) { // of equals, sessions rank the newest first, and entries the first
		created, _ = m.Created()
		for i, item := range slices.Backward(items[c]) {
			add(ids[c], i+2, item.Message.Content, metadata.Field{Key: metadata.Conversation, Values: []string{ids[c]}},
				metadata.Field{Key: metadata.Position, Values: []string{strconv.Itoa(i)}}, metadata.Field{Key: metadata.Date, Values: []string{m.CreatedAt[:10]}},
				metadata.Field{Key: metadata.Role, Values: []string{item.Message.Role}})
		}
		add(ids[c], 1, m.Title+"\n"+m.Agent+"\n"+m.CreatedBy)
	}
	created = now()
	x, err := search.NewIndex(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	find := func(ctx context.Context, q search.Query, _, _ bool) (*search.Result, error) { return x.Search(ctx, q) }
	store := op.Store{Store: s, Now: now, Messages: func(ctx context.Context, q search.Query) (*search.Result, error) { return x.Search(ctx, q) }}
	d := op.Daemon{Parts: &op.Parts{Now: now, SearchSessions: find}, As: op.Identity{Owner: true}}
	matches := 0
	for n := range 300 {
		var query []string
		for range 1 + rng.IntN(1+rng.IntN(12)) {
			query = append(query, word())
		}
		text := strings.Join(query, " ") + []string{"", "?"}[n%2]
		faces := make(map[string][]string)
		for in, face := range map[string]string{op.InNotes: "entries", op.InSessions: "recall in sessions"} {
			a, err := op.Recall.Do(t.Context(), store, op.Question{Query: text, Limit: 20, RankArgs: op.RankArgs{In: in}})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range a.Hits {
				if h.Message == nil {
					faces[face] = append(faces[face], where[h.Name])
				} else {
					faces[face] = append(faces[face], fmt.Sprint(h.Session, " ", h.Line))
				}
			}
		}
		searched, err := op.SearchSessions.Do(t.Context(), op.Local{On: d}, op.SessionQuery{Query: text, Limit: 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range searched.Hits {
			faces["sessions search"] = append(faces["sessions search"], fmt.Sprint(h.ID, " ", h.Line))
		}
		found, err := op.FindMessages.Do(t.Context(), op.Local{On: d}, op.MessageSearch{Query: text, Limit: 20, Budget: 50000})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range found.Hits {
			faces["session_search"] = append(faces["session_search"], fmt.Sprint(h.Session, " ", h.Line))
		}
		want := faces["entries"]
		matches += len(want)
		for face, got := range faces {
			if !slices.Equal(got, want) {
				t.Fatalf("query %d, %q, %s:\n%q\nentries:\n%q", n, text, face, got, want)
			}
		}
	}
	if matches < 4500 {
		t.Errorf("only %d hits", matches)
	}
}

// TestRememberMessages writes messages without positions. Each is after the last one of its
// conversation; a message that is replaced keeps its position.
func TestRememberMessages(t *testing.T) {
	s := crmem.New(nil)
	defer s.Close()
	text := func(s string) *string { return &s }
	seven := uint64(7)
	for _, c := range []struct {
		name, in string
		position *uint64
		want     string
	}{
		{"a", "trip", nil, "1"}, {"b", "trip", nil, "2"}, {"c", "move", nil, "1"}, {"d", "trip", &seven, "7"}, {"e", "trip", nil, "8"},
		{"b", "trip", nil, "2"}, {"b", "move", nil, "2"}, {"f", "trip", nil, "9"}, {"g", "", nil, ""},
	} {
		in := op.NoteArgs{Name: c.name, Content: "the train leaves at nine"}
		in.Conversation, in.Position, in.Role, in.Date = text(c.in), c.position, text("user"), text("2026-04-14")
		if _, err := op.SaveNote.Do(t.Context(), op.Store{Store: s}, in); err != nil {
			t.Fatal(err)
		}
		e, err := s.Get(c.name)
		if err != nil {
			t.Fatal(err)
		}
		m, _, _ := metadata.Parse(e.Content)
		got := []string{m.Text(metadata.Conversation), m.Text(metadata.Position), m.Text(metadata.Role), m.Text(metadata.Date)}
		if want := []string{c.in, c.want, "user", "2026-04-14"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
	}
	r, err := s.Search(t.Context(), crmem.Query{Text: "when does the train leave", Explain: true})
	if err != nil || len(r.Hits) != 7 {
		t.Fatalf("%+v, %v", r, err)
	}
}
