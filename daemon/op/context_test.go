package op_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/budget"
	"crabmem/crmem/metadata"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"
	"crabmem/sessionlog"
)

var contextNow = time.Date(2026, 4, 14, 10, 0, 0, 0, time.UTC)

// contextOf returns the context of a store.
func contextOf(t *testing.T, s *crmem.Store, in op.ContextQuery, sessions ...sessionlog.Info) op.ContextText {
	t.Helper()
	out, err := op.ReadContext.Do(t.Context(), op.Store{Store: s, Now: func() time.Time { return contextNow }, Sessions: func() ([]sessionlog.Info, error) { return sessions, nil }}, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// shownNames returns the names of the lines in each part of a context.
func shownNames(t *testing.T, text string) map[string][]string {
	t.Helper()
	lines := strings.Split(text, "\n")
	if len(lines) < 4 || !strings.HasPrefix(lines[1], "<<< memory ") || lines[len(lines)-1] != "" || lines[len(lines)-2] != ">>> "+lines[1][4:] {
		t.Fatalf("not fenced: %q", text)
	}
	parts := make(map[string][]string)
	part := ""
	for _, l := range lines[2 : len(lines)-2] {
		if title, ok := strings.CutPrefix(l, "# "); ok {
			part = title
			continue
		}
		name, ok := strings.CutPrefix(l, "- ")
		if !ok || part == "" {
			t.Fatalf("the line %q in %q", l, text)
		}
		name, _, _ = strings.Cut(name, ": ")
		parts[part] = append(parts[part], name)
	}
	return parts
}

// TestContextRandom shows contexts of 1,000 random stores: each is within its budget, and
// the same twice; each line names a note that exists and that no other line names.
func TestContextRandom(t *testing.T) {
	race.Skip(t)
	rng := rand.New(rand.NewPCG(7, 11))
	words := []string{"tide", "канат", "潮汐 潮汐", ">>> memory x", "</context>", "# heading", "- item", "\u202e", "a\r\nb", "\n", "---", strings.Repeat("rope ", 90), ""}
	types := []string{"", "identity", "preference", "Decision", "goal", "todo", "task", "fact"}
	empty, lines := 0, 0
	for n := range 1000 {
		s := crmem.New(&crmem.Options{Now: func() time.Time { return contextNow.Add(time.Duration(rng.IntN(1e6)) * time.Second) }})
		names := make(map[string]bool)
		for i := range rng.IntN(1 + rng.IntN(90)) {
			content := words[rng.IntN(len(words))] + " " + words[rng.IntN(len(words))]
			var fields []metadata.Field
			for _, f := range []metadata.Field{
				{Key: metadata.Type, Values: []string{types[rng.IntN(len(types))]}}, {Key: metadata.Pinned, Values: []string{"true"}},
				{Key: metadata.Project, Values: []string{"shop"}}, {Key: metadata.Supersedes, Values: []string{"[[note 1]]"}}, {Key: "done", Values: []string{"true"}},
			} {
				if f.Values[0] != "" && rng.IntN(3) == 0 {
					fields = append(fields, f)
				}
			}
			content, err := metadata.Set(content, fields...)
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("note %d %s", i, words[rng.IntN(6)])
			if err := s.Apply(crmem.Add{Name: name, Content: content, Kind: crmem.Kind(rng.IntN(5) / 4)}); err != nil {
				t.Fatal(err)
			}
			names[display.ShownName(name)] = true
		}
		in := op.ContextQuery{Budget: 100 + rng.IntN(1<<rng.IntN(12)), Project: []string{"", "shop", "none"}[rng.IntN(3)]}
		out := contextOf(t, s, in)
		if again := contextOf(t, s, in); again != out {
			t.Fatalf("store %d: %q, then %q", n, out.Text, again.Text)
		}
		if out.Tokens > in.Budget || budget.Count(out.Text) != out.Tokens {
			t.Fatalf("store %d: %d tokens of %d, counted %d", n, out.Tokens, in.Budget, budget.Count(out.Text))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if out.Text == "" {
			empty++
			continue
		}
		for _, list := range shownNames(t, out.Text) {
			for _, name := range list {
				lines++
				if !names[name] {
					t.Fatalf("store %d: no note %q, or it is shown twice, in %q", n, name, out.Text)
				}
				delete(names, name)
			}
		}
	}
	if empty == 0 || empty > 500 || lines < 5000 {
		t.Errorf("%d contexts are empty, the others have %d lines: too few to say anything", empty, lines)
	}
}

// TestContextParts shows the parts, their limits and orders, and what they omit.
func TestContextParts(t *testing.T) {
	now := contextNow
	s := crmem.New(&crmem.Options{Now: func() time.Time { now = now.Add(time.Minute); return now }})
	defer s.Close()
	if out := contextOf(t, s, op.ContextQuery{}); out != (op.ContextText{}) {
		t.Errorf("empty store: %+v", out)
	}
	add := func(name, front string) {
		t.Helper()
		if _, err := s.Remember(name, "---\n"+front+"\n---\n\n  First  line of "+name+"\nsecond", nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		add(fmt.Sprint("p", i), "type: preference")
		add(fmt.Sprint("d", i), "type: decision\nproject: Shop\nimportance: 0.9")
		add(fmt.Sprint("t", i), "type: todo")
		add(fmt.Sprint("pin", i), "pinned: true")
		add(fmt.Sprint("n", i), "tags: [x]")
	}
	add("me", "type: identity")
	add("old decision", "type: goal")
	add("new decision", "type: goal\nsupersedes: \"[[once]]\"\ncrabmem: 1")
	add("done", "type: todo\nstatus: Done")
	add("stale", "type: todo\nexpires: 2026-04-13\ncrabmem: 1")
	add("caf\u00e9", "type: goal")
	add("Cafe", "type: goal\nsupersedes: \"[[cafe\u0301]]\"\ncrabmem: 1") // the name above, with a combining accent
	add("other", "type: decision\nproject: other")
	if err := s.Apply(crmem.Alias{Name: "old decision", Aliases: []string{"once"}}, crmem.Add{Name: "archive", Content: "summary", Kind: crmem.Archive}); err != nil {
		t.Fatal(err)
	}
	numbered := func(prefix string, from, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint(prefix, from-i))
		}
		return list
	}
	session := func(n int, title, project string) sessionlog.Info {
		return sessionlog.Info{ID: fmt.Sprint("crab_user_", n), Meta: sessionlog.Meta{Title: title, Project: project}}
	}
	list := []sessionlog.Info{session(1, "one", "shop"), session(2, "", "shop"), session(3, "three", ""), session(4, "four", "Shop"), session(5, "5", ""), session(6, "6", ""), session(7, "7", "")}
	for project, want := range map[string][]string{
		"":     {"me " + strings.Join(numbered("p", 19, 14), " "), strings.Join(numbered("pin", 19, 10), " "), strings.Join(numbered("d", 19, 10), " "), strings.Join(numbered("t", 19, 10), " "), "crab_user_1 crab_user_3 crab_user_4 crab_user_5 crab_user_6"},
		"shop": {"me " + strings.Join(numbered("p", 19, 14), " "), strings.Join(numbered("pin", 19, 10), " "), strings.Join(numbered("d", 19, 10), " "), strings.Join(numbered("t", 19, 10), " "), "crab_user_1 crab_user_4"},
	} {
		out := contextOf(t, s, op.ContextQuery{Budget: 50_000, Project: project}, list...)
		got := shownNames(t, out.Text)
		for i, part := range []string{"Identity and preferences", "Pinned", "Decisions and goals", "Open tasks", "Last sessions"} {
			if g := strings.Join(got[part], " "); g != want[i] {
				t.Errorf("project %q: %s: %s, want %s", project, part, g, want[i])
			}
		}
		newest := strings.Join(got["Newest notes"], " ")
		if !strings.HasPrefix(newest, "other Cafe done new decision n19 n18 ") || len(got["Newest notes"]) != 15 || out.LeftOut != 0 {
			t.Errorf("project %q: the newest are %s, %d left out", project, newest, out.LeftOut)
		}
		if !strings.Contains(out.Text, "\n- me: First line of me\n") || strings.Contains(out.Text, "second") || strings.Contains(out.Text, "tags") {
			t.Errorf("project %q: %s", project, out.Text)
		}
	}
	out := contextOf(t, s, op.ContextQuery{Budget: 200}, list...)
	if out.LeftOut == 0 || out.Tokens < 150 {
		t.Errorf("200 tokens: %+v", out)
	}
	for _, n := range []int{-1, 99, 50_001} {
		if _, err := op.ReadContext.Do(t.Context(), op.Store{Store: s}, op.ContextQuery{Budget: n}); err == nil {
			t.Errorf("a budget of %d tokens", n)
		}
	}
}

// TestPin pins and unpins notes, all or none; unpinning restores each byte.
func TestPin(t *testing.T) {
	s := crmem.New(nil)
	defer s.Close()
	for name, content := range map[string]string{"a": "text", "b": "---\ntags: [x]\n---\ntext", "c": "---\nnot closed"} {
		if _, err := s.Remember(name, content, []string{"also " + name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Apply(crmem.Add{Name: "archive", Content: "x", Kind: crmem.Archive}); err != nil {
		t.Fatal(err)
	}
	want := func(name, content string) {
		t.Helper()
		if e, err := s.Get(name); err != nil || e.Content != content || len(e.Aliases) != 1 {
			t.Errorf("%s: %q %q, %v", name, e.Content, e.Aliases, err)
		}
	}
	do := func(in op.Pins) op.Pinned {
		t.Helper()
		out, err := op.PinNotes.Do(t.Context(), op.Store{Store: s}, in)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, names := range [][]string{{"a", "archive"}, {"a", "none"}} {
		if _, err := op.PinNotes.Do(t.Context(), op.Store{Store: s}, op.Pins{Names: names}); err == nil {
			t.Errorf("pinned %.5q", names)
		}
	}
	want("a", "text")
	if out := do(op.Pins{Names: []string{"a", "also b", "c", "b"}}); fmt.Sprint(out) != "{true [a b c] [a b c]}" {
		t.Errorf("pinned %v", out)
	}
	want("a", "---\npinned: true\n---\ntext")
	want("b", "---\ntags: [x]\npinned: true\n---\ntext")
	version := s.Version()
	if out := do(op.Pins{Names: []string{"a"}}); fmt.Sprint(out) != "{true [a] []}" || s.Version() != version {
		t.Errorf("pinned again: %v", out)
	}
	if out := do(op.Pins{Names: []string{"a", "b", "c"}, Unpin: true}); fmt.Sprint(out) != "{false [a b c] [a b c]}" {
		t.Errorf("unpinned %v", out)
	}
	want("a", "text")
	want("b", "---\ntags: [x]\n---\ntext")
	want("c", "---\nnot closed")
}
