package role

import (
	"fmt"
	"strings"
	"testing"

	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// branchCalls has a branch of an identity's conversation call a tool, once for each list of
// arguments, and returns the results. "" stands for a branch that is refused the tool.
func (r *rig) branchCalls(sender, name string, args ...string) (results []string) {
	r.t.Helper()
	r.reply = func(q *request) answer {
		switch {
		case q.of == Channel && q.Messages[len(q.Messages)-1].Role == record.RoleUser && strings.HasPrefix(q.last(), "look"):
			return call(Branch, `{"question":"look it up"}`)
		case q.of == record.Branch || q.of == "end" && q.has("look it up"): // an untrusted branch has no workers
			if q.Messages[len(q.Messages)-1].Role == record.RoleTool {
				results = append(results, q.last())
			}
			if len(results) < len(args) {
				return call(name, args[len(results)])
			}
			return say("seen")
		}
		return say("fine")
	}
	r.send(sender, "look")
	r.settle(0)
	return results
}

// written creates a session with some messages, and compacts them with a summary.
func (r *rig) written(agent, creator string, count int, text string) string {
	r.t.Helper()
	l, err := r.logs.Create(sessionlog.Meta{Agent: agent, CreatedBy: creator, Title: "about <tea>"})
	r.check(err)
	for i := range count {
		err = l.Append(sessionlog.Message{Role: record.RoleUser, Content: fmt.Sprintf("%s %d\nend", text, i+1)})
		r.check(err)
	}
	r.check(l.Compact("the summary"))
	err = l.Append(sessionlog.Message{Role: record.RoleAssistant, Content: "after it"})
	r.check(err)
	id := l.ID()
	r.check(l.Close())
	return id
}

// TestChannelRecall reads transcripts: of the own conversation, of another one, and of what an
// archive summarizes.
func TestChannelRecall(t *testing.T) {
	bubble(t, func(r *rig) {
		own := r.written("crab", "user", 150, "tea")
		other := r.written("crab", "tg:7", 1, "secret of tg:7")
		agent := r.written("plain", "user", 1, "of another agent")
		big := r.written("crab", "user", 60, strings.Repeat("x", 3000))
		for _, x := range []struct{ args, want, not string }{
			{`{"session":"` + own + `"}`, "50 lines of crab_user_1; 102 earlier: use before_line or after_line\nBetween", "tea 101"},
			{`{"session":"` + own + `"}`, "\n151 user: tea 150 end\n152 summary: the summary\n154 assistant: after it\n>>>", ""},
			{`{"session":"` + own + `","limit":2,"oldest_first":true}`, "2 lines of crab_user_1; 150 later: use before_line or after_line\n", "tea 3"},
			{`{"session":"` + own + `","limit":2,"before_line":10}`, "\n8 user: tea 7 end\n9 user: tea 8 end\n>>>", "tea 9"},
			{`{"session":"` + own + `","limit":2,"after_line":10,"oldest_first":true}`, "\n11 user: tea 10 end\n12 user: tea 11 end\n>>>", "tea 9"},
			{`{"archive":"` + own + `-1","limit":1}`, "\n151 user: tea 150 end\n>>>", "after it"},
			{`{"archive":"` + own + `-1.2","limit":1,"oldest_first":true}`, "\n2 user: tea 1 end\n>>>", ""},
			{`{"archive":"` + own + `-2"}`, "no archive 2 of crab_user_1", ""},
			{`{"archive":"deploy"}`, "archive: want the name of the archive of a conversation, and no session", ""},
			{`{"archive":"` + own + `-1","session":"` + own + `"}`, "archive: want the name", ""},
			{`{"session":"` + own + `","limit":101}`, "limit: want 1 to 100", ""},
			{`{"session":"` + other + `"}`, "not a session of yours", "secret"},
			{`{"session":"` + agent + `"}`, "not a session of yours", "another agent"},
			{`{"session":"missing"}`, "not a session of yours", ""},
			{`{"session":"../sessions/` + own + `"}`, "not a session of yours", ""},
			{`{"session":"` + big + `","limit":100}`, "lines of crab_user_2; ", "\n100 lines of"},
			{`{}`, "messages: about <tea>", other},
		} {
			got := strings.Join(r.branchCalls("user", ChannelRecall, x.args), "")
			if !strings.Contains(got, x.want) || x.not != "" && strings.Contains("\n"+got, x.not) || len(got) > 16<<10 {
				t.Errorf("%s: %d bytes: %.300s … %s, want %s", x.args, len(got), got, got[max(0, len(got)-200):], x.want)
			}
		}
		if got := strings.Join(r.branchCalls("user", ChannelRecall, `{}`), ""); strings.Contains(got, other) || strings.Contains(got, agent) || !strings.Contains(got, "(this conversation)") {
			t.Errorf("conversations: %s", got)
		}
	})
}

// TestRecallOrigins has other identities read transcripts. A trusted one sees its own
// sessions, and an untrusted one has no such tool.
func TestRecallOrigins(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Origins[1].Allow = []string{Branch, tool.Recall} // tg:9, untrusted
		owner, tg7, tg9 := r.written("crab", "user", 1, "of the owner"), r.written("crab", "tg:7", 1, "of tg:7"), r.written("crab", "tg:9", 1, "of tg:9")
		for _, x := range []struct{ sender, session, want string }{
			{"tg:7", tg7, "of tg:7 1 end"}, {"tg:7", owner, "not a session of yours"}, {"tg:7", tg9, "not a session of yours"},
			{"user", owner, "of the owner 1 end"}, {"user", tg7, "not a session of yours"},
			{"tg:9", tg9, "tool not available"}, {"tg:9", owner, "tool not available"},
		} {
			if got := strings.Join(r.branchCalls(x.sender, ChannelRecall, `{"session":"`+x.session+`"}`), ""); !strings.Contains(got, x.want) {
				t.Errorf("%s of %s: %s, want %s", x.sender, x.session, got, x.want)
			}
		}
		if got := strings.Join(r.branchCalls("tg:7", ChannelRecall, `{}`), ""); !strings.Contains(got, tg7) || strings.Contains(got, owner) || strings.Contains(got, tg9) {
			t.Errorf("conversations of tg:7: %s", got)
		}
		if got := strings.Join(r.branchCalls("tg:9", Docs, `{"action":"list"}`), ""); !strings.Contains(got, "tool not available") {
			t.Errorf("docs of tg:9: %s", got)
		}
	})
}

// TestDocs lists, searches, and reads the manual.
func TestDocs(t *testing.T) {
	bubble(t, func(r *rig) {
		for args, want := range map[string]string{
			`{"action":"list"}`:                                             "2 pages\nrecall: search the store\nremember: write a note",
			`{"action":"list","query":"searching"}`:                         "1 page\nrecall: search the store",
			`{"action":"list","query":"nothing"}`:                           "0 pages",
			`{"action":"list","query":"` + strings.Repeat("x", 1025) + `"}`: "query has 1025 bytes, want at most 1024",
			`{"action":"read","id":"recall"}`:                               "lines 1 to 3 of 3\n1 search the store\n2 \n3 Search names and texts.\n",
			`{"action":"read","id":"remember","start":500,"lines":2}`:       "lines 500 to 501 of 501\n500 line\n501 line\n",
			`{"action":"read","id":"remember","start":502}`:                 "start: want 1 to 501; lines: want 1 to 400",
			`{"action":"read","id":"remember","lines":401}`:                 "start: want 1 to 501; lines: want 1 to 400",
			`{"action":"read","id":"nosuch"}`:                               "no such page: list prints the pages",
			`{"action":"write"}`:                                            "no such action: write: want list or read",
		} {
			if got := strings.Join(r.branchCalls("user", Docs, args), ""); got != want {
				t.Errorf("%s: %q, want %q", args, got, want)
			}
		}
		if got := strings.Join(r.branchCalls("user", Docs, `{"action":"read","id":"remember"}`), ""); strings.Count(got, "\n") != 201 {
			t.Errorf("%d lines without a limit", strings.Count(got, "\n"))
		}
	})
}
