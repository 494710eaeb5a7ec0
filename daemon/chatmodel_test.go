package daemon

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/model"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// The table of trust in a channel (DESIGN.md, Trust), written a second time.

// chatRights are an identity's or a run's permissions.
type chatRights struct {
	level string   // admin, trusted, or untrusted
	allow []string // words of the rule
	space string   // the identity whose notes it changes; "": no space
	reads bool     // of that space
}

// chatRightsOf returns an identity's rights by its rule's words.
func chatRightsOf(identity string, words []string) chatRights {
	switch {
	case !strings.Contains(identity, ":") || len(words) > 0 && words[0] == "admin":
		return chatRights{level: "admin", space: "user", reads: true}
	case len(words) == 0 || words[0] == "untrusted":
		r := chatRights{level: "untrusted", reads: slices.Contains(words, "recall")}
		if len(words) > 0 {
			r.allow = words[1:]
		}
		if r.reads || slices.Contains(words, "remember") {
			r.space = identity
		}
		return r
	}
	return chatRights{level: words[0], allow: words[1:], space: identity, reads: true}
}

// within returns the rights that both have.
func (r chatRights) within(o *chatRights) chatRights {
	switch {
	case o == nil || o.level == "admin":
		return r
	case r.level == "admin":
		return *o
	case r.level == "untrusted" && o.level == "trusted":
		return r
	case o.level == "untrusted" && r.level == "trusted":
		return *o
	}
	r.allow = slices.DeleteFunc(slices.Clone(r.allow), func(word string) bool { return !slices.Contains(o.allow, word) })
	return r
}

func (r *chatRights) has(word string) bool { return slices.Contains(r.allow, word) }

// tools returns the names of a run's tools.
func (r *chatRights) tools(role, kind string) (list []string) {
	memory := map[string][]string{"admin": {"forget", "recall", "remember", "session_search"}, "trusted": {"forget", "recall", "remember", "session_search"}}[r.level]
	if r.level == "untrusted" {
		for _, name := range []string{"recall", "remember"} {
			if r.has(name) {
				memory = append(memory, name)
			}
		}
	}
	works := r.level == "admin" || r.level == "trusted" && r.has("delegate:worker")
	branch := memory
	if r.level != "untrusted" {
		branch = append(branch, "channel_recall", "docs", "task_create", "task_list", "task_update")
	}
	switch {
	case kind == "worker":
		list = []string{"outcome", "set_status"}
		if r.level == "admin" {
			list = append(list, "bash", "edit", "list", "read", "write")
		}
	case kind == "branch":
		if list = branch; works {
			list = append(list, "spawn_worker")
		}
	case role == "channel":
		list = []string{"ask_user", "reply", "skip"}
		if works {
			list = append(list, "cancel", "route", "spawn_worker")
		}
		if r.level != "untrusted" {
			list = append(list, "branch", "cron")
		} else if r.has("branch") {
			list = append(list, "branch")
		}
		if kind == "cron" {
			list = append(list, branch...)
		}
	default:
		list = append(memory, "ask_user")
		if r.level == "admin" {
			list = append(list, "bash", "delegate", "edit", "mcp", "read", "skill")
		} else if works {
			list = append(list, "delegate")
		}
	}
	slices.Sort(list)
	return list
}

// chatItem is a text that tells the model to make a call.
type chatItem struct {
	number   int
	conv     string      // the conversation that receives the results
	identity string      // that it is done for
	person   int64       // who wrote it; 0: no person
	kind     string      // of the runs that do it: "", cron, branch, or worker
	bound    *chatRights // of the run that gave it, or nil
	tool     string
	name     string        // of a note
	id       string        // of a cron entry
	child    *chatItem     // what a branch, a worker, or a cron entry does
	wait     time.Duration // before the first response
	admitted bool          // the channel accepts it
	seen     bool
}

// chatRun is a run.
type chatRun struct {
	number   int
	session  string
	began    int                 // the number of changes of the rules before it
	standing map[string][]string // when it began
	kind     string              // "", cron, branch, worker, or wake
	item     *chatItem           // the first, or that of the first result; nil before the first request
	persons  []int64             // who wrote the items
	rights   chatRights
	issued   []int                   // numbers of items
	want     map[string]func(string) // checks of the results of calls, by ID
	saw      []string                // tokens in the results
	reported bool                    // outcome
	mute     bool                    // at its end, the conversation accepted no texts
}

// chatModel makes each call that an item names, forbidden calls included. It checks the tools and the
// texts that it receives.
type chatModel struct {
	w *chatWorld

	mu       sync.Mutex
	next     time.Time
	standing map[string][]string // words of the rules, by identity
	changes  int                 // of rules
	dead     map[string]int      // the number of changes at which the work of an identity was canceled
	items    []*chatItem
	runs     []*chatRun
	notes    map[string]string          // content, by identity and name
	shown    map[string]map[string]bool // tokens that a conversation has seen
	crons    map[string]*chatCron       // by ID
	cronWork map[string]bool            // entries gave out work for the conversation
	asked    []*chatAsk
	wrong    []string
	count    map[string]int // of checked calls, by tool and outcome
}

// chatCron is an entry.
type chatCron struct {
	session string // "": another one for each run
	item    *chatItem
}

// chatAsk is a question.
type chatAsk struct {
	conv     string
	persons  []int64
	approval bool     // in a group, admins answer
	answers  []string // of those who may answer
	of       int      // item
	closed   bool
}

func newChatModel(w *chatWorld) *chatModel {
	return &chatModel{w: w, standing: make(map[string][]string), dead: make(map[string]int), notes: make(map[string]string), shown: make(map[string]map[string]bool),
		crons: make(map[string]*chatCron), cronWork: make(map[string]bool), count: make(map[string]int)}
}

func (m *chatModel) fail(format string, args ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

// add adds an item.
func (m *chatModel) add(i chatItem) *chatItem {
	i.number = len(m.items)
	m.items = append(m.items, &i)
	return &i
}

// text returns the item's text.
func (i *chatItem) text() string { return fmt.Sprintf("do#%d %s", i.number, i.tool) }

// rightsOf returns an identity's present rights.
func (m *chatModel) rightsOf(identity string) chatRights {
	return chatRightsOf(identity, m.standing[identity])
}

// begin notes a run's number in its first request. It is a hook.
func (m *chatModel) begin(_ context.Context, t *agent.Turn) []sessionlog.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &chatRun{number: len(m.runs), began: m.changes, standing: maps.Clone(m.standing), want: make(map[string]func(string))}
	if t.Session.Log != nil {
		r.session = t.Session.Log.ID()
	}
	m.runs = append(m.runs, r)
	return []sessionlog.Message{{Role: record.RoleUser, Content: fmt.Sprintf("run#%d", r.number)}}
}

// Send is a method of [model.Backend].
func (m *chatModel) Send(context.Context, model.Request) (*model.Response, error) {
	return nil, errors.New("no summaries here")
}

var (
	chatDo     = regexp.MustCompile(`do#(\d+)`)
	chatOf     = regexp.MustCompile(`of#(\d+)`)
	chatBy     = regexp.MustCompile(`by#(\d+)`)
	chatToken  = regexp.MustCompile(`token\d+`)
	chatAnswer = regexp.MustCompile(`## q\d+ answer [^\n]*\n([^\n]+)`)
)

// Stream is a method of [model.Backend]. Each response has an instant of its own, so that calls of
// several runs have an order.
func (m *chatModel) Stream(ctx context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		m.mu.Lock()
		r := m.runOf(&q)
		m.results(r, &q)
		wait := r.item.wait
		if len(r.issued) > 0 || r.kind == "wake" {
			wait = 0
		}
		m.mu.Unlock()
		if !sleepUntil(ctx, time.Now().Add(wait)) {
			yield(model.Chunk{}, ctx.Err())
			return
		}
		m.mu.Lock()
		if now := time.Now().Truncate(time.Millisecond).Add(500 * time.Microsecond); m.next.Before(now) {
			m.next = now
		}
		m.next = m.next.Add(time.Millisecond)
		at := m.next
		m.mu.Unlock()
		if !sleepUntil(ctx, at) {
			yield(model.Chunk{}, ctx.Err())
			return
		}
		m.mu.Lock()
		c := m.respond(r, &q)
		m.mu.Unlock()
		yield(c, nil)
	}
}

// sleepUntil waits for a time, and returns false if ctx ends.
func sleepUntil(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
