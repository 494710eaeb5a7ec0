package agent

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"crabmem/daemon/model"
	"crabmem/fuzz/golden"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// abridged writes a long run of one letter as its length.
func abridged(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		n := 1
		for n < len(s) && s[n] == s[0] {
			n++
		}
		if n > 10 {
			fmt.Fprintf(&b, "%c{%d}", s[0], n)
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// TestReportsOfSummaries compares the messages from which the model makes a summary,
// for rooms of many sizes.
func TestReportsOfSummaries(t *testing.T) {
	var r golden.Reports
	random := rand.New(rand.NewPCG(5, 5))
	for i := range 60 {
		var messages []sessionlog.Message
		for range 1 + random.IntN(9) {
			m := sessionlog.Message{Role: []string{record.RoleUser, record.RoleAssistant, record.RoleTool}[random.IntN(3)], Content: strings.Repeat("c", []int{0, 5, 32, 47, 48, 143, 144, 1023, 1024, 1039, 1040, 5000, 20_000}[random.IntN(13)])}
			if random.IntN(3) == 0 {
				m.ReasoningContent = strings.Repeat("r", random.IntN(300))
			}
			for range random.IntN(3) {
				m.ToolCalls = append(m.ToolCalls, sessionlog.ToolCall{ID: "1", Function: sessionlog.Function{Name: "name", Arguments: strings.Repeat("a", []int{2, 32, 33, 128, 129, 1000, 5000}[random.IntN(7)])}})
			}
			messages = append(messages, m)
		}
		before := fmt.Sprintf("%+v", messages)
		for _, room := range []int{-1, 0, 100, 500, 2000, 10_000, 1 << 30} {
			short := shortened(messages, room)
			r.Addf(fmt.Sprintf("session %d, room %d", i, room), "%d of %d bytes, %d tokens\n%s", Size(short), Size(messages), Estimate(messages), abridged(fmt.Sprintf("%+v", short)))
			a := &Agent{Model: "m", system: []string{"", "be brief"}[i%2], CompactPrompt: []string{"", " summarize \n"}[i/2%2]}
			q := (&Runner{}).summaryRequest(a, &Session{Messages: messages}, CompactOptions{Focus: []string{"", "ports"}[i/4%2], Tokens: i % 3 * 100}, room)
			r.Addf(fmt.Sprintf("request of session %d, room %d", i, room), "%v %q %s", q.Timeout, q.Model, abridged(fmt.Sprintf("%+v", q.Messages)))
		}
		if fmt.Sprintf("%+v", messages) != before {
			t.Errorf("session %d changed", i)
		}
	}
	for n := range 12 {
		r.Addf(fmt.Sprintf("cut to %d", n), "%q %q", cut("日本語"+strings.Repeat("x", 12), n), cut(strings.Repeat("y", n+len(cutNote)), n))
	}
	r.Compare(t, "testdata/reports/summaries.txt.gz")
}

// TestReportsOfMerges compares the answers that chunks make.
func TestReportsOfMerges(t *testing.T) {
	var r golden.Reports
	random := rand.New(rand.NewPCG(6, 6))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	for i := range 800 {
		var m merger
		for range random.IntN(8) {
			c := model.Chunk{Content: pick("", "a", "b\xff"), Reasoning: pick("", "r", "\xff"), Finish: pick("", "", "stop", "length")}
			for range random.IntN(4) {
				c.Calls = append(c.Calls, model.CallDelta{Index: random.IntN(4) - 1, ID: pick("", "", "x", "call_0", "call_1", "call_2", "\xff"), Type: pick("", "", "function", "other\xff"), Name: pick("", "n", "m\xff"), Arguments: pick("", "{", "}", "\xff")})
			}
			if random.IntN(4) == 0 {
				c.Usage = &model.Usage{Prompt: random.IntN(9)}
			}
			if err := m.add(&c); err != nil {
				t.Fatal(err)
			}
		}
		usage := -1
		if m.usage != nil {
			usage = m.usage.Prompt
		}
		r.Addf(fmt.Sprint("answer ", i), "%+v\n%+v\n%q %d", m.message(), m.named(), m.finish, usage)
	}
	for _, n := range []int{maxCalls - 1, maxCalls, maxCalls + 1} {
		var m merger
		var err error
		for i := 0; i < n && err == nil; i++ {
			err = m.add(&model.Chunk{Calls: []model.CallDelta{{Index: 2 * i}}})
		}
		r.Addf(fmt.Sprint(n, " calls"), "%v, %d", err, len(m.calls))
		r.Addf(fmt.Sprint("more of call ", n), "%v", m.add(&model.Chunk{Calls: []model.CallDelta{{Index: 2, Name: "n"}}}))
	}
	for _, finish := range []string{"", "stop", "length", "max_tokens", "MAX_TOKENS", "model_context_window_exceeded", "content_filter", "sensitive", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "error", "abort", "network_error", "insufficient_system_resource", "MALFORMED_FUNCTION_CALL", "function_call_filter: x\xff", "function_call"} {
		r.Addf("finish "+finish, "%v", broken("answer", finish))
	}
	r.Compare(t, "testdata/reports/merges.txt.gz")
}
