package search_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/sessionlog"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
	"crabmem/sessionlog/search"
)

const conversationsDir = "../../testdata/conversations"

// A turn is the position of a message that answers a question.
type turn struct {
	file string
	line int64
}

// conversations writes the hand-written dialogues as sessions and returns their
// marked turns. With tools, two calls and their results precede every answer,
// as with agents. Without marks, no message has a question mark.
func conversations(t *testing.T, dir string, tools, marks bool) map[string]turn {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(conversationsDir, "sessions.txt"))
	if err != nil {
		t.Fatal(err)
	}
	turns := make(map[string]turn)
	sessions := 0
	for part := range strings.SplitSeq(strings.TrimPrefix(string(b), "# "), "\n# ") {
		lines := strings.Split(strings.TrimSpace(part), "\n")
		head := strings.SplitN(lines[0], " ", 3)
		sessions++
		name := fmt.Sprintf("crab_user_%d.jsonl", sessions)
		buf := line.AppendMeta(nil, &sessionlog.Meta{Agent: "crab", CreatedBy: "user", CreatedAt: head[1] + "T10:00:00+00:00", Title: head[2]})
		at := int64(1)
		add := func(m sessionlog.Message) {
			buf = line.AppendMessage(buf, &m)
			at++
		}
		for _, line := range lines[1:] {
			who, text, ok := strings.Cut(line, ": ")
			if !ok {
				t.Fatalf("sessions.txt: %q", line)
			}
			if !marks {
				text = strings.NewReplacer("?", "", "？", "").Replace(text)
			}
			role := record.RoleUser
			if who[0] == 'a' {
				role = record.RoleAssistant
				for i := range 2 {
					if !tools {
						break
					}
					id := fmt.Sprintf("c%d", i)
					add(sessionlog.Message{Role: role, ToolCalls: []sessionlog.ToolCall{{ID: id, Type: "function",
						Function: sessionlog.Function{Name: []string{"recall", "read_file"}[i], Arguments: "{}"}}}})
					add(sessionlog.Message{Role: record.RoleTool, ToolCallID: id, Content: "whatever"})
				}
			}
			add(sessionlog.Message{Role: role, Content: text})
			if key := strings.Trim(who[1:], "[]"); key != "" {
				if _, twice := turns[key]; twice {
					t.Fatalf("sessions.txt has [%s] twice", key)
				}
				turns[key] = turn{name, at}
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), buf, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return turns
}

// A question is a line of questions.tsv.
type question struct {
	kind, text string
	turn       turn
}

func questions(t *testing.T, turns map[string]turn) []question {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(conversationsDir, "questions.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var list []question
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 3 || turns[f[1]].line == 0 {
			t.Fatalf("questions.tsv: %q", line)
		}
		list = append(list, question{f[0], f[2], turns[f[1]]})
	}
	return list
}

// A tally is how well questions of a kind are answered: how many of them, how
// often the turn that answers is the first hit, and the sum of 1 by its rank.
type tally struct {
	n, first   int
	reciprocal float64
}

func (k tally) hit1() float64 { return float64(k.first) / float64(k.n) }
func (k tally) mrr() float64  { return k.reciprocal / float64(k.n) }

// asked asks all questions, without some parts of the ranking, and returns
// tallies by kind, and that of all by "".
func asked(t *testing.T, x *search.Index, list []question, without int) map[string]tally {
	t.Helper()
	tallies := make(map[string]tally)
	for _, q := range list {
		r, err := search.SearchWithout(x, search.Query{Text: q.text, Limit: 10}, without)
		if err != nil {
			t.Fatal(err)
		}
		rank := 1 + slices.IndexFunc(r.Hits, func(h search.Hit) bool { return turn{h.File, h.Line} == q.turn })
		for _, kind := range []string{q.kind, ""} {
			k := tallies[kind]
			k.n++
			if rank > 0 {
				k.reciprocal += 1 / float64(rank)
			}
			if rank == 1 {
				k.first++
			}
			tallies[kind] = k
		}
	}
	return tallies
}

// TestConversations searches hand-written dialogues with known answers. The
// query words are split between question and answer, in the answer only, stated
// by the user and repeated by the assistant, or misspelled. It logs the effect
// of every part of the ranking.
func TestConversations(t *testing.T) {
	for _, f := range []struct {
		name         string
		tools, marks bool
		floor        float64 // of the mean reciprocal rank of all questions
		lent         float64 // least gain of neighbor boosts for split questions
	}{
		{"talk", false, true, 0.91, 0.27},
		{"with calls", true, true, 0.89, 0.30},
		{"without question marks", false, false, 0.72, -0.05},
	} {
		t.Run(f.name, func(t *testing.T) {
			dir := t.TempDir()
			turns := conversations(t, dir, f.tools, f.marks)
			list := questions(t, turns)
			x := newIndex(t, openSearchDir(t, dir), nil)
			whole := asked(t, x, list, 0)
			kinds := slices.Sorted(maps.Keys(whole))
			tell := func(name string, got map[string]tally) {
				var line strings.Builder
				for _, kind := range kinds {
					fmt.Fprintf(&line, "  %5s %.3f %.3f", kind, got[kind].hit1(), got[kind].mrr())
				}
				t.Logf("hit@1 and MRR, %-14s%s", name, &line)
			}
			tell("all", whole)
			for _, c := range []struct {
				name    string
				without int
				kind    string  // of questions that it is for; "" is all
				gain    float64 // for them
				harms   float64 // at most, questions of other kinds
			}{
				{"no corrections", search.WithoutCorrections, "wrong", 0.20, 0.006},
				{"no neighbors", search.WithoutNeighbors, "split", f.lent, 0.04}, // of few questions
				{"no texts", search.WithoutTexts, "alone", 0.01, 1},
				{"none of them", search.WithoutAll, "", 0.05, 1},
			} {
				got := asked(t, x, list, c.without)
				tell(c.name, got)
				if was, is := got[c.kind].mrr(), whole[c.kind].mrr(); is < was+c.gain {
					t.Errorf("%s: %q questions have %.3f, and %.3f with it: want %.2f more", c.name, c.kind, was, is, c.gain)
				}
				for _, kind := range kinds {
					if was, is := got[kind].mrr(), whole[kind].mrr(); is < was-c.harms {
						t.Errorf("%s: %q questions have %.3f, and %.3f with it", c.name, kind, was, is)
					}
				}
			}
			if got := whole[""].mrr(); got < f.floor {
				t.Errorf("mean reciprocal rank %.3f, want %.2f", got, f.floor)
			}
		})
	}
}
