package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"crabmem/daemon/model"
	"crabmem/sessionlog/record"
)

// chatNames are the names of notes.
var chatNames = []string{"n1", "n2", "n3"}

// refusedTool begins the result of a call that a run may not make.
const refusedTool = "tool not available"

// runOf returns a request's run. It checks the identities that take part in the run.
func (m *chatModel) runOf(q *model.Request) *chatRun {
	var r *chatRun
	kind := ""
	for _, x := range q.Messages {
		if n, ok := strings.CutPrefix(x.Content, "run#"); ok && x.Role == record.RoleUser {
			i, _ := strconv.Atoi(n)
			r = m.runs[i]
		}
		for _, of := range []string{"branch", "worker"} {
			if x.Role == record.RoleUser && strings.HasPrefix(x.Content, "<"+of+">") {
				kind = of
			}
		}
	}
	texts := strings.Join(chatBlock(q, kind), "\n")
	items := m.itemsIn(chatDo, texts)
	if r.item == nil {
		all := append(slices.Clone(items), m.itemsIn(chatOf, texts)...)
		for i := len(q.Messages) - 1; i >= 0 && len(all) == 0; i-- { // results of work that was interrupted
			all = m.itemsIn(chatDo, q.Messages[i].Content)
		}
		if len(all) == 0 {
			m.fail("run %d: no item in %q", r.number, texts)
			all = m.items[:1]
		}
		r.item, r.kind = all[0], kind
		switch {
		case kind == "" && len(items) == 0:
			r.kind = "wake"
		case kind == "" && items[0].kind == "cron":
			r.kind = "cron"
		}
		r.rights = chatRightsOf(r.item.identity, r.standing[r.item.identity])
		if r.kind != "wake" {
			r.rights = r.rights.within(r.item.bound)
		}
	}
	for _, i := range items {
		if i.seen = true; !i.admitted {
			m.fail("run %d for %s does item %d of %d for %s, which is not accepted", r.number, r.item.conv, i.number, i.person, i.conv)
		}
		if i.conv != r.item.conv || i.identity != r.item.identity {
			m.fail("run %d for %s has item %d for %s", r.number, r.item.conv, i.number, i.conv)
		}
		if !slices.Contains(r.persons, i.person) {
			r.persons = append(r.persons, i.person)
		}
	}
	for _, a := range chatAnswer.FindAllStringSubmatch(texts, -1) {
		if !slices.ContainsFunc(m.asked, func(k *chatAsk) bool { return k.conv == r.item.conv && slices.Contains(k.answers, a[1]) }) {
			m.fail("run %d for %s has the answer %q of another person", r.number, r.item.conv, a[1])
		}
	}
	if m.dead[r.item.identity] > r.began && (r.kind == "branch" || r.kind == "worker") {
		m.fail("run %d: a %s of %s continues after its cancellation", r.number, r.kind, r.item.identity)
	}
	return r
}

// chatBlock returns the user's messages since the last answer, or all of a worker.
func chatBlock(q *model.Request, kind string) (list []string) {
	for _, x := range slices.Backward(q.Messages) {
		switch {
		case x.Role == record.RoleSystem, kind != "worker" && x.Role == record.RoleAssistant && len(x.ToolCalls) == 0:
			return list
		case x.Role != record.RoleUser, strings.HasPrefix(x.Content, "run#"), strings.HasPrefix(x.Content, "<branch>"), strings.HasPrefix(x.Content, "<worker>"), strings.HasPrefix(x.Content, "<status"):
		case kind == "branch":
			return []string{x.Content}
		default:
			list = append([]string{x.Content}, list...)
		}
	}
	return list
}

func (m *chatModel) itemsIn(pattern interface {
	FindAllStringSubmatch(string, int) [][]string
}, text string) (list []*chatItem) {
	for _, found := range pattern.FindAllStringSubmatch(text, -1) {
		if n, _ := strconv.Atoi(found[1]); n < len(m.items) && !slices.Contains(list, m.items[n]) {
			list = append(list, m.items[n])
		}
	}
	return list
}

// view returns whose conversation a run's context is.
func (r *chatRun) view() string {
	if r.item.identity == "user" {
		return "user"
	}
	return r.item.conv
}

func (m *chatModel) show(view string, tokens []string) {
	if m.shown[view] == nil {
		m.shown[view] = make(map[string]bool)
	}
	for _, token := range tokens {
		m.shown[view][token] = true
	}
}

// results checks the results of a run's calls.
func (m *chatModel) results(r *chatRun, q *model.Request) {
	for i, x := range q.Messages {
		for n, c := range x.ToolCalls {
			if check := r.want[c.ID]; check != nil && i+1+n < len(q.Messages) {
				delete(r.want, c.ID)
				if result := q.Messages[i+1+n].Content; !strings.HasPrefix(result, "refused: the same call") {
					check(result)
				}
			}
		}
	}
	for _, x := range q.Messages {
		for _, token := range chatToken.FindAllString(x.Content, -1) {
			if !m.shown[r.view()][token] {
				m.fail("run %d for %s sees %s: %q", r.number, r.view(), token, x.Content)
			}
		}
	}
}

// respond returns the response to a request: the next call, or a text.
func (m *chatModel) respond(r *chatRun, q *model.Request) model.Chunk {
	var offered []string
	for _, t := range q.Tools {
		offered = append(offered, t.Name)
	}
	slices.Sort(offered)
	if r.kind == "wake" && m.cronWork[r.item.conv] && slices.Equal(offered, r.rights.tools(m.w.role, "cron")) {
		r.kind = "cron" // the run is that of an entry
	}
	kind := r.kind
	if want := r.rights.tools(m.w.role, kind); len(offered) > 0 && !slices.Equal(offered, want) {
		m.fail("run %d (%s) of %s, %+v, has the tools %q, want %q", r.number, kind, r.item.identity, r.rights, offered, want)
	}
	call := func(id, name, args string, check func(string)) model.Chunk {
		id = fmt.Sprintf("c%s.%d", id, r.number)
		r.want[id] = check
		return model.Chunk{Finish: "tool_calls", Calls: []model.CallDelta{{ID: id, Name: name, Arguments: args}}}
	}
	if len(offered) > 0 {
		for _, i := range m.itemsIn(chatDo, strings.Join(chatBlock(q, kind), "\n")) {
			if slices.Contains(r.issued, i.number) {
				continue
			}
			r.issued = append(r.issued, i.number)
			args, check := m.call(r, i)
			if !slices.Contains(r.rights.tools(m.w.role, kind), i.tool) {
				m.count["refused "+i.tool]++
				check = func(result string) {
					if !strings.HasPrefix(result, refusedTool) {
						m.fail("run %d (%s) of %s, %+v, may not %s: %q", r.number, kind, r.item.identity, r.rights, i.tool, result)
					}
				}
			}
			return call(fmt.Sprint(i.number), i.tool, args, check)
		}
	}
	text := fmt.Sprintf("of#%d by#%d note %s", r.item.number, r.number, strings.Join(r.saw, " "))
	if kind == "worker" && !r.reported && len(offered) > 0 {
		r.reported = true
		return call("out", "outcome", fmt.Sprintf(`{"text":%q}`, text), func(string) {})
	}
	r.mute = !m.reaches(r.item.conv)
	m.show(r.item.conv, r.saw)
	return model.Chunk{Content: text, Finish: "stop"}
}

// reaches reports whether the channel sends texts to a conversation.
func (m *chatModel) reaches(conv string) bool {
	return strings.Contains(conv, "-") || m.standing[conv] != nil || m.w.lists(chatOfConv(conv))
}

// chatOfConv returns a conversation's chat.
func chatOfConv(conv string) int64 {
	_, id, _ := strings.Cut(conv, ":")
	n, _ := strconv.ParseInt(id, 10, 64)
	return n
}

// call returns the arguments of an item's call, and the check of its result. It changes the notes as
// the call does.
func (m *chatModel) call(r *chatRun, i *chatItem) (args string, check func(string)) {
	may := slices.Contains(r.rights.tools(m.w.role, r.kind), i.tool)
	note := r.rights.space + " " + i.name
	want := func(prefix string) func(string) {
		return func(result string) {
			m.count[i.tool]++
			if !strings.HasPrefix(result, prefix) {
				m.fail("run %d (%s) of %s, %+v: %s says %q, want %q", r.number, r.kind, r.item.identity, r.rights, i.tool, result, prefix)
			}
		}
	}
	switch i.tool {
	case "remember":
		content := fmt.Sprintf("note token%d", i.number)
		if may {
			m.notes[note] = content
			m.show(r.view(), []string{fmt.Sprint("token", i.number)})
		}
		return fmt.Sprintf(`{"name":%q,"content":%q}`, i.name, content), want("remembered: " + i.name)
	case "forget":
		check = want("no entry named: " + i.name)
		if may && m.notes[note] != "" {
			check = want("forgot: " + i.name)
			delete(m.notes, note)
		}
		return fmt.Sprintf(`{"name":%q}`, i.name), check
	case "recall":
		args = `{"query":"note","limit":50}`
		if i.name != "" {
			args = `{"names":["n1","n2","n3"]}`
		}
		return args, m.found(r, i, slices.Sorted(maps.Values(m.notesOf(r.rights.space))))
	case "session_search":
		return `{"query":"note","limit":20}`, m.found(r, i, nil)
	case "bash":
		return fmt.Sprintf(`{"command":"touch of#%d"}`, i.number), m.ask(r, i)
	case "ask_user":
		return fmt.Sprintf(`{"questions":[{"question":"of#%d?","header":"which","options":[{"label":"red","description":"r"},{"label":"blue","description":"b"}],"multi_select":false}]}`, i.number), m.ask(r, i)
	case "reply":
		return fmt.Sprintf(`{"content":"of#%d by#%d now"}`, i.number, r.number), want("said")
	}
	return m.later(r, i, may)
}

// notesOf returns the contents of an identity's notes by name.
func (m *chatModel) notesOf(identity string) map[string]string {
	list := make(map[string]string)
	for _, name := range chatNames {
		if content := m.notes[identity+" "+name]; content != "" {
			list[name] = content
		}
	}
	return list
}

// found returns the check of a search. contents are the only ones that it finds; nil: those that
// the identity has seen.
func (m *chatModel) found(r *chatRun, i *chatItem, contents []string) func(string) {
	return func(result string) {
		m.count[i.tool]++
		tokens := chatToken.FindAllString(result, -1)
		slices.Sort(tokens)
		tokens = slices.Compact(tokens)
		want := chatToken.FindAllString(strings.Join(contents, " "), -1)
		slices.Sort(want)
		if i.tool == "session_search" {
			want = tokens
			for _, token := range tokens {
				if !m.mayFind(r, token) {
					m.fail("run %d of %s, %+v, finds %s: %q", r.number, r.item.identity, r.rights, token, result)
				}
			}
		}
		if !slices.Equal(tokens, want) || strings.HasPrefix(result, refusedTool) {
			m.fail("run %d (%s) of %s, %+v, %s: found %q, want %q: %q", r.number, r.kind, r.item.identity, r.rights, i.tool, tokens, want, result)
		}
		if len(tokens) > 0 {
			m.count["found "+r.rights.level]++
		}
		r.saw = append(r.saw, tokens...)
		m.show(r.view(), tokens)
	}
}

// mayFind reports whether a session that a run may search can contain a token.
func (m *chatModel) mayFind(r *chatRun, token string) bool {
	if r.rights.level != "admin" {
		return m.shown[r.item.identity][token]
	}
	for identity, tokens := range m.shown {
		if tokens[token] && m.rightsOf(identity).level == "admin" {
			return true
		}
	}
	return false
}

// noAnswer are parts of the results of questions without an answer.
var noAnswer = []string{"timed out", "cancelled", "ended", "no reply", "stays open", "only available", "no user is connected", "stopping", "interrupted", "no answer"}

// ask notes a run's question, and returns its answer's check.
func (m *chatModel) ask(r *chatRun, i *chatItem) func(string) {
	a := &chatAsk{conv: r.item.conv, persons: r.persons[:1], of: i.number, approval: i.tool == "bash"}
	if n := slices.IndexFunc(m.asked, func(a *chatAsk) bool { return a.of == i.number }); n >= 0 {
		a = m.asked[n] // a turn that continues asks again, and the earlier answers count
	} else if slices.Contains(r.rights.tools(m.w.role, r.kind), i.tool) {
		m.asked = append(m.asked, a)
	}
	return func(result string) {
		answered := slices.Contains(a.answers, result) || len(a.answers) > 0 && (i.tool == "bash" || result == "the answer is the next message")
		if answered {
			m.count["answered "+i.tool]++
		} else {
			m.count["unanswered "+i.tool]++
		}
		if a.closed = true; !answered && !slices.ContainsFunc(noAnswer, func(part string) bool { return strings.Contains(result, part) }) {
			m.fail("run %d (%s) of %s, %+v: %s says %q, the answers are %q", r.number, r.kind, r.item.identity, r.rights, i.tool, result, a.answers)
		}
	}
}

// later returns a call's arguments and check, for calls that have a later effect.
func (m *chatModel) later(r *chatRun, i *chatItem, may bool) (args string, check func(string)) {
	child := chatItem{}
	if i.child != nil {
		rights := r.rights
		child = *i.child
		child.conv, child.identity, child.person, child.bound, child.admitted = i.conv, i.identity, i.person, &rights, may
	}
	want := func(prefix string, did func(result string)) func(string) {
		return func(result string) {
			if strings.Contains(result, "already") { // a limit
				return
			}
			if m.count[i.tool]++; !strings.HasPrefix(result, prefix) {
				m.fail("run %d (%s) of %s, %+v: %s says %q, want %q", r.number, r.kind, r.item.identity, r.rights, i.tool, result, prefix)
			}
			if did != nil {
				did(result)
			}
		}
	}
	switch {
	case i.tool == "branch":
		return fmt.Sprintf(`{"question":%q}`, m.add(child).text()), want("b", nil)
	case i.tool == "spawn_worker":
		m.cronWork[i.conv] = m.cronWork[i.conv] || r.kind == "cron"
		prefix := "w"
		if now := m.rightsOf(i.identity); may && !slices.Contains(now.tools("channel", ""), i.tool) {
			prefix, child.admitted = "agent 'worker' is not in your members list", false // a change holds at once
		}
		return fmt.Sprintf(`{"task":%q}`, m.add(child).text()), want(prefix, nil)
	case i.id != "":
		c := m.crons[i.id]
		args = fmt.Sprintf(`{"action":"delete","id":%s}`, i.id)
		if c == nil || c.session != r.session || r.rights.level != "admin" && c.item.identity != i.identity {
			return args, want("no entry of this conversation", nil)
		}
		return args, want("removed "+i.id, func(string) { delete(m.crons, i.id) })
	}
	to := m.add(child)
	return fmt.Sprintf(`{"action":"create","schedule":"@every 2m","prompt":%q}`, to.text()), want("added ", func(result string) {
		id, _, _ := strings.Cut(strings.TrimPrefix(result, "added "), ",")
		m.crons[id] = &chatCron{session: r.session, item: to}
	})
}
