package role

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/session"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// The rights of origins in roles, written a second time.

// originRules are the configured rules, and originStandings say the same.
var (
	originRules = trust.Rules{
		{Prefix: "tg:1", Level: trust.Trusted, Allow: []string{tool.Delegate + ":worker"}},
		{Prefix: "tg:2", Level: trust.Trusted},
		{Prefix: "tg:3", Level: trust.Trusted, Allow: []string{tool.Delegate}},
		{Prefix: "gh:2", Level: trust.Untrusted, Allow: []string{Branch}},
		{Prefix: "gh:3", Level: trust.Untrusted, Allow: []string{Branch, tool.Recall}},
		{Prefix: "ops:1", Level: trust.Admin},
	}
	originStandings = map[string]string{
		"user": "admin", "ops:1": "admin", "tg:1": "trusted delegate:worker", "tg:2": "trusted", "tg:3": "trusted delegate", "gh:1": "", "gh:2": "branch", "gh:3": "branch recall",
	}
	originSenders = []string{"user", "tg:1", "tg:2", "tg:3", "gh:1", "gh:2", "gh:3", "ops:1"}
)

// mayCall reports whether a run in which some identities take part may call a tool. Each of
// them must permit it.
func mayCall(ids []string, name, worker string) bool {
	return !slices.ContainsFunc(ids, func(id string) bool {
		standing := strings.Fields(originStandings[id])
		has := func(word string) bool { return slices.Contains(standing, word) }
		switch name {
		case Reply, Skip, tool.AskUser, SetStatus, Outcome:
			return false
		case Branch:
			return !has("admin") && !has("trusted") && !has("branch")
		case SpawnWorker:
			return !has("admin") && !(has("trusted") && (has("delegate") || worker != "" && has("delegate:"+worker) || worker == "" && has("delegate:worker")))
		case Route, Cancel, Cron, ChannelRecall, Docs, TaskCreate, TaskList, TaskUpdate:
			return !has("admin") && !has("trusted")
		case tool.Recall:
			return !has("admin") && !has("trusted") && !has("recall")
		case tool.SessionSearch, tool.Forget, tool.Remember:
			return !has("admin") && !has("trusted")
		}
		return !has("admin")
	})
}

// origins runs a random history of several identities, in conversations of their own and of
// others. Each text says on whose behalf it was written, as at[tg:1 user].
type origins struct {
	*rig
	rand      *rand.Rand
	runs      int
	at        map[int][]string // by the run
	calls     int
	forbidden map[string]string // tools of forbidden calls, by the call's number
	wrong     []string
	spawned   int // works that others than admins gave out
	denied    int
}

var (
	atText   = regexp.MustCompile(`at\[([^\]]*)\]`)
	runText  = regexp.MustCompile(`run\[(\d+) ([^\]]*)\]`)
	callText = regexp.MustCompile(`call#(\d+)`)
)

// behalf returns the identities that texts name.
func behalf(texts ...string) (ids []string) {
	for _, text := range texts {
		for _, m := range atText.FindAllStringSubmatch(text, -1) {
			for id := range strings.FieldsSeq(m[1]) {
				if !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// begins returns a run's identities from its first request: the creator of the
// session, and those of the messages that began it.
func (o *origins) begins(q *request, creator string) []string {
	texts := []string{"at[" + creator + "]"}
	if strings.HasPrefix(creator, "work-") {
		texts = nil
	}
	for _, m := range slices.Backward(q.Messages) {
		if runText.MatchString(m.Content) || m.Role == record.RoleSystem || strings.HasPrefix(m.Content, "<status") || m.Content == wakePrompt {
			continue
		}
		if m.Role != record.RoleUser {
			break
		}
		texts = append(texts, m.Content)
	}
	return behalf(texts...)
}

// model is a random model's response. It checks the results of the calls so far.
func (o *origins) model(q *request) answer {
	run := ""
	for _, m := range q.Messages {
		if found := runText.FindString(m.Content); found != "" {
			run = found
		}
	}
	if run == "" {
		return say("no run") // a title or a summary
	}
	found := runText.FindStringSubmatch(run)
	number, _ := strconv.Atoi(found[1])
	if o.at[number] == nil {
		o.at[number] = o.begins(q, found[2])
	}
	ids := o.at[number]
	here := "at[" + strings.Join(ids, " ") + "]"
	for _, t := range q.Tools {
		worker := ""
		if t.Name == SpawnWorker { // who may be given work is checked by the call
			worker = "worker"
		}
		if !mayCall(ids, t.Name, worker) && !(t.Name == SpawnWorker && mayCall(ids, t.Name, "coder")) {
			o.wrong = append(o.wrong, fmt.Sprintf("%s of %s: %s is offered", q.of, here, t.Name))
		}
	}
	o.results(q, here)
	a := answer{after: time.Duration(o.rand.IntN(3)) * time.Second, text: here}
	if o.rand.IntN(3) == 0 {
		if q.of == record.Worker {
			a.calls = []string{fmt.Sprintf(`%s {"text":"end %s"}`, Outcome, here)}
		}
		return a
	}
	for range 1 + o.rand.IntN(2) {
		o.calls++
		tag := fmt.Sprintf("call#%d %s", o.calls, here)
		worker := []string{"", "worker", "coder", "plain"}[o.rand.IntN(4)]
		id := fmt.Sprint([]string{"w", "b"}[o.rand.IntN(2)], 1+o.rand.IntN(4))
		name, args := "", ""
		switch o.rand.IntN(11) {
		case 9:
			name, args = ChannelRecall, fmt.Sprintf(`{"session":%q}`, tag)
		case 10:
			name, args = Docs, fmt.Sprintf(`{"action":"list","query":%q}`, tag)
		case 8:
			name, args = Cron, fmt.Sprintf(`{"action":"list","prompt":%q}`, tag)
		case 0, 1:
			name, args = SpawnWorker, fmt.Sprintf(`{"task":"do %s","agent":%q,"interactive":%v}`, tag, worker, o.rand.IntN(2) == 0)
		case 2:
			name, args = Branch, fmt.Sprintf(`{"question":"why %s"}`, tag)
		case 3:
			name, args = Route, fmt.Sprintf(`{"id":%q,"message":"more %s"}`, id, tag)
		case 4:
			name, args = Cancel, fmt.Sprintf(`{"id":%q,"reason":%q}`, id, tag)
		case 5:
			name, args = tool.Recall, `{}`
		default:
			name, args = tool.Bash, fmt.Sprintf(`{"command":%q}`, tag)
		}
		if !mayCall(ids, name, worker) {
			o.denied++
			o.forbidden[fmt.Sprint(o.calls)] = name
		} else if name == SpawnWorker && !mayCall(ids, tool.Bash, "") {
			o.spawned++
		}
		a.calls = append(a.calls, name+" "+args)
	}
	return a
}

// results checks that no call did what it must not do. A call is found by the arguments
// of the assistant, and its result by its ID.
func (o *origins) results(q *request, here string) {
	for i, m := range q.Messages {
		for n, c := range m.ToolCalls {
			tag := callText.FindStringSubmatch(c.Function.Arguments)
			if tag == nil || i+1+n >= len(q.Messages) {
				continue
			}
			result := q.Messages[i+1+n].Content
			if what := o.forbidden[tag[1]]; what != "" && !strings.HasPrefix(result, "tool not available") && !strings.Contains(result, "is not in your members list") && !strings.Contains(result, "no such") && !strings.Contains(result, "is not available") {
				o.wrong = append(o.wrong, fmt.Sprintf("%s: %s of %s said %q", here, what, c.Function.Arguments, result))
			}
		}
	}
}

// into sends a message of one identity to the conversation of another. If the sender is a
// cron, maker is who made it.
func (o *origins) into(creator, sender, maker string) {
	l, err := o.sessions.Resolve(o.t.Context(), &session.Request{Agent: "crab", Sender: creator})
	o.check(err)
	_ = o.sessions.Run(o.t.Context(), &session.Run{Session: l, Content: "go at[" + cmp.Or(maker, sender) + "]", Sender: sender})
	synctest.Wait()
}

// originHistory runs one history, and returns what was wrong.
func originHistory(t *testing.T, seed uint64) (wrong []string, spawned, denied int) {
	bubble(t, func(r *rig) {
		o := &origins{rig: r, rand: rand.New(rand.NewPCG(seed, 2)), at: make(map[int][]string), forbidden: make(map[string]string)}
		r.config.Origins = originRules
		r.config.Agents[1].Members = []string{"coder", "plain"}
		r.reply = o.model
		open := func() {
			run := r.o.Setup().Runner
			run.Hooks = run.Hooks.Then(agent.Hooks{BeforeRun: func(_ context.Context, t *agent.Turn) []sessionlog.Message {
				o.turn.Lock()
				defer o.turn.Unlock()
				o.runs++
				return []sessionlog.Message{{Role: record.RoleUser, Content: fmt.Sprintf("run[%d %s]", o.runs, t.Session.CreatedBy)}}
			}})
		}
		open()
		for range 4 + o.rand.IntN(8) {
			creator := originSenders[o.rand.IntN(len(originSenders))]
			switch o.rand.IntN(8) {
			case 0:
				o.restart()
				open()
			case 1:
				maker := originSenders[o.rand.IntN(len(originSenders))]
				o.into(creator, trust.CronOf(maker), maker)
			case 2, 3:
				o.into(creator, originSenders[o.rand.IntN(len(originSenders))], "")
			case 4:
				o.settle(time.Duration(o.rand.IntN(600)) * time.Second)
			default:
				o.into(creator, creator, "")
			}
		}
		o.settle(30 * time.Hour)
		if len(o.wrong) > 0 {
			t.Log(r.took())
			list, _ := r.logs.List()
			for _, i := range list {
				t.Log(i.ID, r.lines(i.ID))
			}
		}
		wrong, spawned, denied = o.wrong, o.spawned, o.denied
	})
	return wrong, spawned, denied
}

// TestOriginsModel runs random histories of several identities with a random model, and
// compares each offered tool and each call with the rights of those who take part.
// CRABMEM_ORIGINS sets the number of histories.
func TestOriginsModel(t *testing.T) {
	count, first := 40, uint64(1)
	if testing.Short() {
		count = 10
	}
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_ORIGINS")); err == nil {
		count, first = n, uint64(time.Now().UnixNano())
	}
	if n, err := strconv.ParseUint(os.Getenv("CRABMEM_ROLE_SEED"), 10, 64); err == nil {
		count, first = 1, n
	}
	spawned, denied := 0, 0
	for n := range count {
		wrong, some, more := originHistory(t, first+uint64(n))
		if len(wrong) > 0 {
			t.Fatalf("seed %d: %d escapes, such as\n%s", first+uint64(n), len(wrong), strings.Join(wrong[:min(len(wrong), 3)], "\n"))
		}
		spawned, denied = spawned+some, denied+more
	}
	t.Logf("%d histories: %d works for identities of other services, %d calls refused", count, spawned, denied)
	if spawned == 0 || denied == 0 {
		t.Error("the histories try nothing")
	}
}
