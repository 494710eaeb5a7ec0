package search

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem/vfs/faultfs"
)

// TestStaleLines replaces a line of a file after it was indexed, and searches without
// a refresh: only a record of the same role at the same offset is shown.
func TestStaleLines(t *testing.T) {
	original := messageLine("user", "needle one")
	for now, want := range map[string]string{
		original: "needle one", messageLine("user", "other two"): "other two", messageLine("judge", "needle"): "", `{"compact":"other"}` + "\n": "", "\n" + messageLine("user", "other"): "",
		"other\n": "", `{"r{"role":"user","content":"other"}` + "\n": "", `{"agent":"other","created_by":"x"}` + "\n": "", original[:len(original)-1]: "needle one", original[:20]: "", "": "",
	} {
		f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": metaLine("crab", "") + original})
		x := f.index(nil)
		f.write("crab_user_1.jsonl", metaLine("crab", "")+now)
		r, err := x.Search(t.Context(), Query{Text: "needle"})
		if f.check(err); len(r.Hits) != 1 || r.Hits[0].Snippet != want {
			t.Errorf("%q: %+v, want %q", now, r.Hits, want)
		}
	}
}

// TestFailedStat fails a file's stat while the index is built.
func TestFailedStat(t *testing.T) {
	f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": metaLine("crab", "") + messageLine("user", "needle")})
	f.during("stat", "crab_user_1.jsonl", 1, syscall.EIO, func() {})
	x := f.index(nil)
	if n := len(x.Unread()); n != 1 || x.Len() != 0 {
		t.Errorf("%d files are unread, %d documents", n, x.Len())
	}
	f.m.Hook = nil
	if f.check(x.Refresh()); len(x.Unread()) != 0 || x.Len() == 0 {
		t.Errorf("%v is unread, %d documents", x.Unread(), x.Len())
	}
}

// TestSearchWithFaults fails each read of a search.
func TestSearchWithFaults(t *testing.T) {
	f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": metaLine("crab", "") + messageLine("user", "needle pin") + messageLine("assistant", "hay")})
	x := f.index(nil)
	var got []string
	for _, op := range []string{"open", "read"} {
		for n := 1; n <= 4; n++ {
			f.during(op, "crab_user_1.jsonl", n, syscall.EIO, func() { got = append(got, fmt.Sprint(op, n)) })
			r, err := x.Search(t.Context(), Query{Text: "needle pin"})
			f.m.Hook = nil
			f.check(err)
			text := fmt.Sprintf("%.3f %q", r.Hits[0].Score, r.Hits[0].Snippet)
			for _, w := range r.Hits[0].Window {
				text += fmt.Sprintf(" %d %q", w.Line, w.Text)
			}
			got = append(got, text)
		}
	}
	want := []string{
		"open1", `2.043 ""`, `5.850 "needle pin" 2 "needle pin" 3 "hay"`, `5.850 "needle pin" 2 "needle pin" 3 "hay"`, `5.850 "needle pin" 2 "needle pin" 3 "hay"`,
		"read1", `2.043 "needle pin" 2 "needle pin" 3 "hay"`, "read2", `5.850 "" 2 "" 3 "hay"`, "read3", `5.850 "needle pin" 2 "needle pin" 3 ""`,
		"read4", `5.850 "needle pin" 2 "needle pin" 3 "hay"`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSearchReads lists the reads of a search: each message is read up to a limit
// and not beyond its line.
func TestSearchReads(t *testing.T) {
	long, short := messageLine("user", "needle "+strings.Repeat("x", 300<<10)), messageLine("assistant", "short")
	result := `{"role":"tool","content":"result","tool_call_id":"1"}` + "\n"
	for _, c := range []struct {
		what     string
		text     string
		window   int
		analyzer analysis.Analyzer
		want     []int // bytes
	}{
		{"a long message between long ones", strings.Repeat(messageLine("user", strings.Repeat("x", 300<<10)), 2) + long + strings.Repeat(messageLine("user", strings.Repeat("x", 300<<10)), 2), 3, analysis.Plain, []int{maxWindowLine, maxHitLine, maxWindowLine}},
		{"a short message between short ones", short + messageLine("user", "needle") + short + short, 3, analysis.Standard, []int{36, 40, 36, 40}},
		{"a message without a window", short + messageLine("user", "needle") + short, -1, analysis.Standard, []int{36, 36}},
		{"the last message", short + messageLine("user", "needle"), 1, analysis.Standard, []int{36, 36}},
		{"results before the window", short + result + result + result + messageLine("user", "needle"), 2, analysis.Plain, []int{40, 55, 36}},
	} {
		f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": metaLine("crab", "") + c.text})
		x := f.index(&IndexOptions{Analyzer: c.analyzer})
		var reads []int
		f.m.Hook = func(call faultfs.Call) error {
			if call.Op == "read" {
				reads = append(reads, call.Size)
			}
			return nil
		}
		_, err := x.Search(t.Context(), Query{Text: "needle", Window: c.window, Limit: 1})
		f.m.Hook = nil
		f.check(err)
		if fmt.Sprint(reads) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.what, reads, c.want)
		}
	}
}

// TestLimitsOfTexts searches with queries and roles at their limits, and compares
// the length of what is shown with the limits.
func TestLimitsOfTexts(t *testing.T) {
	party, role := strings.Repeat("p", maxParty), strings.Repeat("r", maxRole)
	text := fmt.Sprintf(`{"agent":%q,"created_by":%q,"created_at":"","title":%q}`, party+"x", party+"y", strings.Repeat("t", maxText+1)) + "\n" +
		`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"` + strings.Repeat("n", maxRole+9) + `","arguments":""}}]}` + "\n" +
		`{"role":"tool","content":"secret","tool_call_id":"1"}` + "\n" +
		messageLine(role+"x", "needle "+strings.Repeat("x", 2*maxText)) + messageLine("user", strings.Repeat("y", 2*maxText))
	f := newMemFolder(t, map[string]string{"one.jsonl": text})
	x := f.index(&IndexOptions{Analyzer: analysis.Plain})
	for _, q := range []Query{
		{}, {Agent: party + "z"}, {Sender: party + "z"}, {Agent: party}, {Sender: party}, {Roles: []string{role + "z"}}, {Roles: []string{role}},
	} {
		q.Text = "needle"
		r, err := x.Search(t.Context(), q)
		f.check(err)
		if len(r.Hits) != 1 {
			t.Errorf("%.20q %.20q %.20q: %d hits", q.Agent, q.Sender, q.Roles, len(r.Hits))
			continue
		}
		h := r.Hits[0]
		if h.Agent != party || h.CreatedBy != party || h.Role != role || len(h.Title) != maxText || len(h.Snippet) != maxText || len(h.Window) != 4 {
			t.Errorf("%d %d %d %d %d %d", len(h.Agent), len(h.CreatedBy), len(h.Role), len(h.Title), len(h.Snippet), len(h.Window))
		}
		if tool := h.Window[1].Text; tool != "[result of "+strings.Repeat("n", maxRole-len("…"))+"…, 6 bytes]" {
			t.Error(tool)
		}
		if n := len(h.Window[3].Text); n != maxText {
			t.Errorf("%d bytes", n)
		}
	}
	r, err := x.Search(t.Context(), Query{Text: strings.Repeat("t", maxText+1), Roles: []string{RoleSession}})
	if f.check(err); len(r.Hits) != 1 || len(r.Hits[0].Snippet) != maxText {
		t.Errorf("%d hits", len(r.Hits))
	}
	for n, want := range map[int]int{maxQuery - 6: 1, maxQuery - 5: 0} {
		r, err := x.Search(t.Context(), Query{Text: strings.Repeat(" ", n) + "needle"})
		if f.check(err); r.Total != want {
			t.Errorf("after %d bytes: %d", n, r.Total)
		}
	}
}

// TestEqualScoresBeyondTheLimit ranks more equal messages than a search returns, of
// sessions that are known in another order than they were created.
func TestEqualScoresBeyondTheLimit(t *testing.T) {
	f := newMemFolder(t, nil)
	x := f.index(&IndexOptions{Analyzer: analysis.Plain})
	for i := range 20 {
		name := fmt.Sprintf("crab_user_%d.jsonl", 20-i) // the newest have the largest document IDs
		text := metaLine("crab", "") + messageLine("user", "needle") + messageLine("user", "needle hay and straw")
		f.write(name, text)
		f.check(x.Refresh())
	}
	for limit := 1; limit <= 20; limit++ {
		r, err := x.Search(t.Context(), Query{Text: "needle", Limit: limit, Bare: true})
		f.check(err)
		if r.Total != 40 || len(r.Hits) != limit {
			t.Errorf("limit %d: %d of %d", limit, len(r.Hits), r.Total)
		}
		for i, h := range r.Hits {
			if want := fmt.Sprintf("crab_user_%d", 20-i); h.ID != want || h.Line != 2 {
				t.Errorf("limit %d: hit %d is %s:%d, want %s:2", limit, i, h.ID, h.Line, want)
			}
		}
	}
	if r, err := x.Search(t.Context(), Query{Text: "straw needle", Limit: 3, Bare: true}); err != nil || r.Total != 40 || r.Hits[2].ID != "crab_user_18" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestEqualScoresBeyondRanking searches more equal messages than are ranked, of sessions
// that are known in another order than they were created.
func TestEqualScoresBeyondRanking(t *testing.T) {
	f := newMemFolder(t, nil)
	x := f.index(nil)
	const newest = bm25.RerankLimit + 5
	for i := range newest {
		f.write(fmt.Sprintf("crab_user_%d.jsonl", newest-i), metaLine("crab", "")+messageLine("user", "needle")+messageLine("assistant", "pin"))
		f.check(x.Refresh())
	}
	r, err := x.Search(t.Context(), Query{Text: "needle pin", Limit: 4, Bare: true})
	if f.check(err); r.Total != 2*newest || r.Hits[0].ID != fmt.Sprintf("crab_user_%d", newest) || r.Hits[1].ID != fmt.Sprintf("crab_user_%d", newest-1) {
		t.Errorf("%d: %+v", r.Total, r.Hits)
	}
}

// TestTextsLongerThanLines replaces a line by the beginning of a record, whose empty
// calls take more bytes in the text than in the line. The part that matches is
// shown only of lines that were longer than a snippet.
func TestTextsLongerThanLines(t *testing.T) {
	for _, n := range []int{maxText, maxText + 1} {
		old := `{"role":"user","content":"needle"`
		old += strings.Repeat(" ", n-len(old)-2) + "}\n"
		torn, last := `{"role":"user","tool_calls":[`, `{"function":{"name":"needle"}}`
		torn += strings.Repeat("1,", (n-len(torn)-len(last))/2) + last
		torn += strings.Repeat(" ", n-len(torn))
		f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": metaLine("crab", "") + old})
		x := f.index(&IndexOptions{Tools: true})
		f.write("crab_user_1.jsonl", metaLine("crab", "")+torn)
		r, err := x.Search(t.Context(), Query{Text: "needle"})
		f.check(err)
		if got := r.Hits[0].Snippet; strings.Contains(got, "needle") != (n > maxText) || len(got) < maxText/2 {
			t.Errorf("line of %d bytes: %q", n, got)
		}
	}
}

// TestFirstLineOfRecords shows the first of two records of a line, which begins
// with a byte order mark or has a key of the meta line.
func TestFirstLineOfRecords(t *testing.T) {
	for _, text := range []string{
		"\xef\xbb\xbf" + `{"content":"needle","role":"user"}{"meta":{"title":"x"}}`,
		"\n" + `{"role":"user","content":"needle","agent":"x"}{"meta":{"title":"x"}}`,
	} {
		f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": text + "\n"})
		x := f.index(nil)
		r, err := x.Search(t.Context(), Query{Text: "needle"})
		f.check(err)
		if len(r.Hits) != 1 || r.Hits[0].Snippet != "needle" {
			t.Errorf("%q: %+v", text, r.Hits)
		}
	}
}
