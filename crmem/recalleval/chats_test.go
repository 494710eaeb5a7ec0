package recalleval_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/recalleval"
	"crabmem/crmem/vfs"

	"github.com/google/go-cmp/cmp"
)

// TestChats reads a handwritten sample for each published form.
func TestChats(t *testing.T) {
	message := func(conversation string, position int, role, date, text string) string {
		if date != "" {
			date = "date: " + date + "\n"
		}
		return fmt.Sprintf("---\nconversation: %s\nposition: %d\nrole: %s\n%s---\n%s", conversation, position, role, date, text)
	}
	for _, c := range []struct {
		path    string
		leftOut int
		docs    map[string]string
		queries []recalleval.Query
	}{
		{"testdata/chats/locomo2.json", 1, map[string]string{
			"locomo2-1/D1:1": message("locomo2-1-1", 1, "Ben", "2023-05-08", "Any news?"),
			"locomo2-1/D1:2": message("locomo2-1-1", 2, "Ana", "2023-05-08", "I adopted a gray cat!"),
			"locomo2-1/D2:1": message("locomo2-1-2", 1, "Ana", "2023-06-01", "The cat likes the flat that I moved to in 2022."),
		}, []recalleval.Query{
			{ID: "locomo2-1/1", Text: "What did Ana adopt?", Group: "locomo2-1", Category: "1", Grades: map[string]int{"locomo2-1/D1:2": 1, "locomo2-1/D2:1": 1}},
			{ID: "locomo2-1/2", Text: "When did Ana move?", Group: "locomo2-1", Category: "2", Grades: map[string]int{"locomo2-1/D2:1": 1}},
		}},
		{"testdata/chats/realtalk", 0, map[string]string{
			"Chat_1_Ana_Ben-1/D1:1": message("Chat_1_Ana_Ben-1-1", 1, "Ben", "2023-12-29", "How was the lake?"),
			"Chat_1_Ana_Ben-1/D1:2": message("Chat_1_Ana_Ben-1-1", 2, "Ana", "2023-12-30", "Cold, but the sauna helped."),
		}, []recalleval.Query{
			{ID: "Chat_1_Ana_Ben-1/1", Text: "What helped at the lake?", Group: "Chat_1_Ana_Ben-1", Category: "1", Grades: map[string]int{"Chat_1_Ana_Ben-1/D1:2": 1}},
		}},
		{"testdata/chats/100K", 1, map[string]string{
			"1/0": message("1", 1, "user", "2024-03-15", "My sprint ends on March 29."),
			"1/1": message("1", 2, "assistant", "", "Then plan the review for March 28."),
			"1/2": message("1", 3, "user", "", "I moved the sprint to April 5."),
		}, []recalleval.Query{
			{ID: "1/knowledge_update-0", Text: "When does the sprint end?", Group: "1", Category: "knowledge_update", Grades: map[string]int{"1/0": 1, "1/2": 1}},
			{ID: "1/summarization-0", Text: "What is the plan?", Group: "1", Category: "summarization", Grades: map[string]int{"1/0": 1, "1/1": 1, "1/2": 1}},
		}},
		{"testdata/chats/longmemeval_s.json", 1, map[string]string{
			"q1/1:1":     message("q1-1", 1, "user", "2023-05-20", "Hello"),
			"q1/1:2":     message("q1-1", 2, "assistant", "2023-05-20", "Hello, what can I do?"),
			"q1/2:1":     message("q1-2", 1, "user", "2023-05-22", "I bought a red bike."),
			"q1/2:2":     message("q1-2", 2, "assistant", "2023-05-22", "Enjoy it!"),
			"q2_abs/1:1": message("q2_abs-1", 1, "user", "2023-05-22", "I bought a red bike."),
		}, []recalleval.Query{
			{ID: "q1", Text: "Which bike did I buy?", Group: "q1", Category: "single-session-user", Grades: map[string]int{"q1/2:1": 1}},
		}},
	} {
		sources, err := recalleval.Find(vfs.OS{}, c.path)
		if err != nil || len(sources) != 1 {
			t.Fatalf("%s: %d sets, %v", c.path, len(sources), err)
		}
		set, err := sources[0].Load(open)
		if err != nil {
			t.Fatal(err)
		}
		docs := make(map[string]string)
		for _, d := range set.Docs {
			docs[d.ID] = d.Entry.Content
		}
		if d := cmp.Diff(c.docs, docs); d != "" {
			t.Errorf("%s: messages (-want +got):\n%s", c.path, d)
		}
		if d := cmp.Diff(c.queries, set.Queries); d != "" {
			t.Errorf("%s: questions (-want +got):\n%s", c.path, d)
		}
		if set.LeftOut != c.leftOut {
			t.Errorf("%s: left out %d questions, want %d", c.path, set.LeftOut, c.leftOut)
		}
	}
	one, err := recalleval.Find(vfs.OS{}, "testdata/chats/100K/1")
	if err != nil || len(one) != 1 {
		t.Fatalf("one chat: %d sets, %v", len(one), err)
	}
	if set, err := one[0].Load(open); err != nil || set.Name != "1" || len(set.Docs) != 3 {
		t.Errorf("one chat: %v, %v", set, err)
	}
}

// TestChatsRefused reads files with a wrong form: each error states the file and the place.
func TestChatsRefused(t *testing.T) {
	qa := `"qa": [{"question": "q", "evidence": ["D1:1"], "category": 1}]`
	for text, want := range map[string]string{
		"":                                  "x.json: item 1: unexpected EOF",
		`"a"`:                               "x.json: item 1: json: cannot unmarshal string",
		`[{` + qa + `}, 7]`:                 "x.json: item 2: json: cannot unmarshal number",
		`[{` + qa + `}`:                     "x.json: item 1: unexpected EOF",
		`[{` + qa + `,]`:                    "x.json: item 1: invalid character ']'",
		`{` + qa + `} {}`:                   "x.json: item 1: data after the end",
		`{"title": "another export"}`:       "x.json: item 1: no haystack_sessions, qa, or turns",
		`{"qa": {}}`:                        "x.json: item 1: qa: json: cannot unmarshal object",
		`{` + qa + `, "conversation": [1]}`: "x.json: item 1: conversation: json: cannot unmarshal array",
		`{` + qa + `, "session_2": [{"dia_id": 5}]}`:                                                                           "x.json: item 1: session_2: json: cannot unmarshal number",
		`{` + qa + `, "session_2": [{"dia_id": "D2:1"}, {}]}`:                                                                  "x.json: item 1: session_2: message 2: no dia_id",
		`{` + qa + `, "session_1": [{"dia_id": "D1:1"}, {"dia_id": "D1:1"}]}`:                                                  `x.json: item 1: session_1: duplicate message "x-1/D1:1"`,
		`{` + qa + `, "session_1": [{"dia_id": "D1:1", "speaker": "` + strings.Repeat("a", 1<<17) + `"}]}`:                     `x.json: item 1: session_1: message "x-1/D1:1": invalid metadata`,
		`{` + qa + `, "session_1_date_time": 7, "session_1": [{"dia_id": "D1:1"}]}`:                                            "x.json: item 1: session_1_date_time: json",
		`{"turns": [[{"id": 0}, {"role": "user"}]]}`:                                                                           "x.json: item 1: message 2: no id",
		`{"turns": [[{"id": 0}]]}`:                                                                                             "probing_questions.json: file does not exist",
		`[{"question_id": "a", "haystack_sessions": [[]], "haystack_dates": []}]`:                                              `x.json: item 1: question "a": 0 haystack_dates for 1 haystack_sessions`,
		`[{"question_id": "a", "haystack_sessions": [], "haystack_dates": []}, {"question_id": "a", "haystack_sessions": []}]`: `x.json: item 2: duplicate question "a"`,
	} {
		sources, err := recalleval.Find(vfs.OS{}, "x.json")
		if err != nil {
			t.Fatal(err)
		}
		_, err = sources[0].Load(files(map[string]string{"x.json": text}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestChatsLimit reads a file of the maximum size, and a longer one.
func TestChatsLimit(t *testing.T) {
	text := `{"qa": []}`
	defer recalleval.SetMaxJSON(recalleval.SetMaxJSON(int64(len(text))))
	sources, err := recalleval.Find(vfs.OS{}, "x.json")
	if err != nil {
		t.Fatal(err)
	}
	_, err = sources[0].Load(files(map[string]string{"x.json": text}))
	if err == nil || !strings.Contains(err.Error(), "none of 0 queries") {
		t.Error(err)
	}
	_, err = sources[0].Load(files(map[string]string{"x.json": text + " "}))
	if err == nil || !strings.Contains(err.Error(), "x.json: item 1: more than 10 bytes") {
		t.Error(err)
	}
}

// TestCategories checks the means by category, and the category of each answer.
func TestCategories(t *testing.T) {
	sources, err := recalleval.Find(vfs.OS{}, "testdata/chats/100K")
	if err != nil {
		t.Fatal(err)
	}
	set, err := sources[0].Load(open)
	if err != nil {
		t.Fatal(err)
	}
	r, err := recalleval.Run(t.Context(), set, recalleval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	sum := 0.0
	for _, c := range r.Categories {
		names = append(names, c.Category)
		sum += c.NDCG10 * float64(c.Queries)
	}
	if !slices.Equal(names, []string{"knowledge_update", "summarization"}) || sum != r.NDCG10*float64(r.Queries) || sum == 0 {
		t.Errorf("categories %q, sum of nDCG@10 %v, want %v", names, sum, r.NDCG10*float64(r.Queries))
	}
	var b strings.Builder
	if err := recalleval.WriteAnswers(&b, r); err != nil {
		t.Fatal(err)
	}
	var line recalleval.AnswerLine
	if err := json.NewDecoder(strings.NewReader(b.String())).Decode(&line); err != nil {
		t.Fatal(err)
	}
	if line.Query != "1/knowledge_update-0" || line.Category != "knowledge_update" || len(line.Relevant) != 2 || line.Hits == nil {
		t.Errorf("%+v", line)
	}
}
