package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"crabmem/daemon/box"
	messenger "crabmem/daemon/channel"
	"crabmem/daemon/op"
)

// chatMessage is a person's message that the channel has not received.
type chatMessage struct {
	item  *chatItem
	group bool
}

// chatSteps is a random sequence.
type chatSteps struct {
	*chatWorld
	waiting []chatMessage // while the channel is stopped
	checked int           // texts of the bot
	admins  []int64       // after the step before
	steps   []string
}

func (s *chatSteps) logf(format string, args ...any) {
	s.steps = append(s.steps, fmt.Sprintf("%s %s", time.Now().UTC().Format("15:04:05"), fmt.Sprintf(format, args...)))
}

// pick returns a random element.
func pick[T any](s *chatSteps, list ...T) T { return list[s.rand.IntN(len(list))] }

// memoryItem returns an item that uses memory.
func (s *chatSteps) memoryItem(kind string) chatItem {
	i := chatItem{kind: kind, tool: pick(s, "remember", "remember", "recall", "recall", "forget", "session_search"), name: pick(s, chatNames...)}
	if kind == "cron" && s.role == "channel" && s.rand.IntN(4) == 0 {
		i.tool, i.child = "spawn_worker", &chatItem{kind: "worker", tool: "bash"}
	}
	return i
}

// action returns an item for the agent.
func (s *chatSteps) action() chatItem {
	i := s.memoryItem("")
	if s.role == "channel" {
		i.tool = pick(s, "branch", "branch", "branch", "spawn_worker", "cron", "cron", "ask_user", "reply", "recall", "remember", "bash")
	} else if s.rand.IntN(4) == 0 {
		i.tool = pick(s, "bash", "ask_user", "ask_user", "branch", "cron")
	}
	switch i.tool {
	case "recall":
		i.name = pick(s, "", "n1")
	case "branch":
		child := s.memoryItem("branch")
		i.child = &child
	case "spawn_worker":
		child := s.memoryItem("worker")
		child.tool, child.wait = pick(s, "bash", "bash", "recall", "remember"), time.Duration(pick(s, 0, 20, 400))*time.Second
		i.child = &child
	case "cron":
		child := s.memoryItem("cron")
		i.child = &child
		if ids := slices.Sorted(maps.Keys(s.model.crons)); len(ids) > 0 && s.rand.IntN(2) == 0 {
			i.id = pick(s, ids...)
		}
	}
	return i
}

// isUser reports whether a person may write to the bot, by the table.
func (s *chatSteps) isUser(person int64) bool {
	return s.model.standing[fmt.Sprint("tg:", person)] != nil || slices.Contains(s.listed, person)
}

// say sends a person's text to the bot.
func (s *chatSteps) say(person int64, group bool, text string) {
	if !group {
		s.api.Text(person, text)
		return
	}
	s.api.Message(map[string]any{"from": map[string]any{"id": person, "first_name": "Mia"}, "chat": map[string]any{"id": int64(chatGroup), "type": "supergroup"}, "text": text + " @crab_bot",
		"entities": []any{map[string]any{"type": "mention", "offset": len(text) + 1, "length": 9}}})
}

// receive notes that the channel receives a message.
func (s *chatSteps) receive(m chatMessage) {
	m.item.admitted = s.isUser(m.item.person) || m.group && s.open
}

// talk has a person write to the bot.
func (s *chatSteps) talk() {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	person, group := pick[int64](s, 7, 7, 8, 8, 9), s.rand.IntN(3) == 0
	i := s.action()
	i.conv, i.person = fmt.Sprint("tg:", person), person
	if group {
		i.conv = s.groupName()
	}
	i.identity = i.conv
	m := chatMessage{s.model.add(i), group}
	text := m.item.text()
	s.logf("%d in %s: %s %+v", person, i.conv, text, i.child)
	if s.stopAdapter == nil {
		s.waiting = append(s.waiting, m)
	} else {
		s.receive(m)
	}
	s.answered(person, group, text, false)
	s.say(person, group, text)
}

// answered notes that a text or a button of a person may answer the open questions of a chat.
func (s *chatSteps) answered(person int64, group bool, text string, press bool) {
	for _, a := range s.model.asked {
		if s.mayAnswer(a, person, group) || press && s.decides(a, person, group) {
			a.answers = append(a.answers, text, strings.TrimSpace(text+" @crab_bot"))
		}
	}
}

// mayAnswer reports whether a person may answer a question in a chat.
func (s *chatSteps) mayAnswer(a *chatAsk, person int64, group bool) bool {
	switch {
	case a.closed || group != (chatOfConv(a.conv) < 0):
		return false
	case !group:
		return chatOfConv(a.conv) == person
	case a.approval:
		return s.isAdmin(person)
	}
	return slices.Contains(a.persons, person)
}

// isAdmin reports whether a person is an admin among the users.
func (s *chatSteps) isAdmin(person int64) bool {
	return s.isUser(person) && s.model.rightsOf(fmt.Sprint("tg:", person)).level == "admin"
}

// decides reports whether a person may answer a question of another conversation with a button.
func (s *chatSteps) decides(a *chatAsk, person int64, group bool) bool {
	return !a.closed && a.approval && !group && s.isAdmin(person)
}

// answer has a person answer in a chat, perhaps without a question, or press a button.
func (s *chatSteps) answer() {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	person, group := pick[int64](s, 7, 7, 8, 8, 9), s.rand.IntN(3) == 0
	chat := person
	if group {
		chat = chatGroup
	}
	if s.rand.IntN(2) == 0 {
		for _, sent := range slices.Backward(s.api.Sent()) {
			if len(sent.Buttons) > 0 && sent.Chat == chat {
				b := sent.Buttons[len(sent.Buttons)-1]
				_, label, _ := strings.Cut(b.Label, ". ")
				s.logf("%d in %d presses %q", person, chat, label)
				s.answered(person, group, label, true)
				s.api.Press(person, sent.ID, b.Data)
				return
			}
		}
	}
	if s.stopAdapter == nil {
		return
	}
	i := s.model.add(chatItem{conv: fmt.Sprint("tg:", person), identity: fmt.Sprint("tg:", person), person: person, tool: "recall"})
	if group {
		i.conv, i.identity = s.groupName(), s.groupName()
	}
	s.receive(chatMessage{i, group})
	text := pick(s, i.text(), "n", "2")
	if !slices.ContainsFunc(s.model.asked, func(a *chatAsk) bool { return s.mayAnswer(a, person, group) }) {
		text = i.text() // a message
	}
	switch text {
	case "2":
		s.answered(person, group, "blue", false)
		fallthrough
	case "n":
		i.kind = "none" // the item is not sent
	}
	s.logf("%d in %d answers %q", person, chat, text)
	s.answered(person, group, text, false)
	s.say(person, group, text)
}

// pairs opens a pairing, and has a person send its code, or another one.
func (s *chatSteps) pairs() {
	if s.stopAdapter == nil || s.d.Load() == nil {
		return
	}
	person := pick[int64](s, 7, 7, 8, 8, 8)
	words := "admin"
	if person == 8 {
		words = pick(s, "trusted", "trusted", "trusted delegate:worker", "untrusted recall remember", "admin", "admin")
	}
	if s.isUser(person) && s.rand.IntN(2) == 0 {
		s.remove(person)
		time.Sleep(time.Second)
	}
	rule := []byte(fmt.Sprintf(`{"trust":%q`, strings.Fields(words)[0]))
	if allow := strings.Fields(words)[1:]; len(allow) > 0 {
		rule = fmt.Appendf(rule, `,"allow":%s`, quotedList(allow))
	}
	code, err := messenger.Pair(s.fs, deliverHome, box.Telegram, append(rule, '}'), time.Now())
	s.check(err)
	if s.rand.IntN(5) == 0 {
		s.logf("%d sends a wrong code", person)
		s.api.Text(9, "ABCD-EFGH")
	} else if !s.isUser(person) {
		s.logf("%d is paired as %s", person, words)
		s.pairing = strings.Fields(words)
		s.api.Text(person, code)
	}
}

// change changes the words of an identity's rule; nil removes it.
func (m *chatModel) change(identity string, words []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes++
	if m.standing[identity] = words; words == nil {
		delete(m.standing, identity)
		m.dead[identity] = m.changes
	}
}

// unpairs removes a user.
func (s *chatSteps) unpairs() {
	person := pick[int64](s, 7, 8, 8)
	if s.d.Load() == nil || !s.isUser(person) {
		return
	}
	s.remove(person)
}

func (s *chatSteps) remove(person int64) {
	s.logf("%d is unpaired", person)
	s.unpair(person)
	if identity := fmt.Sprint("tg:", person); s.model.standing[identity] != nil {
		s.model.change(identity, nil) // a mistake keeps the rule
	}
}

// addCron adds an entry as the owner, or tries it as another identity.
func (s *chatSteps) addCron() {
	if s.d.Load() == nil {
		return
	}
	as, to := pick(s, "", "", "tg:7", "tg:8"), pick(s, "tg:7", "tg:8", "tg:9", s.groupName())
	i := s.memoryItem("cron")
	i.conv, i.identity = to, "user"
	s.model.mu.Lock()
	item := s.model.add(i)
	s.model.mu.Unlock()
	c, err := op.AddCron.Do(context.Background(), chatCaller{s.chatWorld, as}, op.NewCron{Schedule: "@every 3m", Prompt: item.text(), Deliver: to, Wake: s.rand.IntN(3) == 0})
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	want := s.model.reaches(to) && s.model.rightsOf(as).level == "admin"
	s.logf("%q adds a cron %d for %s, do#%d: %v", as, c.ID, to, item.number, err)
	if (err == nil) != want {
		s.model.fail("%q adds a cron for %s: %v", as, to, err)
	}
	if item.admitted = err == nil; err == nil {
		s.model.crons[fmt.Sprint(c.ID)] = &chatCron{item: item}
	}
}

// restart stops or starts a process.
func (s *chatSteps) restart() {
	switch d := s.d.Load(); {
	case s.rand.IntN(2) == 0 && d != nil:
		s.logf("the daemon stops")
		s.stopDaemon()
	case d == nil:
		s.logf("the daemon starts")
		s.startDaemon()
	case s.stopAdapter == nil:
		s.logf("the channel starts")
		s.model.mu.Lock()
		for _, m := range s.waiting {
			s.receive(m)
		}
		s.waiting = nil
		s.model.mu.Unlock()
		s.startAdapter()
	default:
		s.logf("the channel stops")
		s.stopAdapter()
	}
}

// step makes a random step.
func (s *chatSteps) step() {
	wait := time.Duration(4+s.rand.IntN(5)) * time.Second
	switch s.rand.IntN(16) {
	case 0, 1:
		s.pairs()
	case 2:
		s.unpairs()
	case 3, 4:
		s.restart()
	case 5:
		s.addCron()
	case 6, 7:
		s.answer()
	case 8:
		wait = time.Duration(1+s.rand.IntN(6)) * time.Minute
		s.logf("wait %s", wait)
	default:
		s.talk()
	}
	time.Sleep(wait)
	synctest.Wait()
	s.compare()
}

// compare compares the notes and the bot's texts with the model.
func (s *chatSteps) compare() {
	m := s.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.d.Load() != nil {
		want := []string{}
		for at, content := range m.notes {
			want = append(want, at+" "+content)
		}
		slices.Sort(want)
		if got := s.notes(); !slices.Equal(got, want) {
			m.fail("notes %q, want %q", got, want)
		}
	}
	sent := s.api.Sent()
	for _, t := range sent[s.checked:] {
		for _, i := range m.itemsIn(chatOf, t.Text) {
			approval := i.tool == "bash" && strings.HasPrefix(t.Text, "In the session ") && (s.isAdmin(t.Chat) || slices.Contains(s.admins, t.Chat))
			if chatOfConv(i.conv) != t.Chat && !approval {
				m.fail("chat %d receives %q of %s", t.Chat, t.Text, i.conv)
			}
		}
		if by := chatBy.FindStringSubmatch(t.Text); by != nil {
			n, _ := strconv.Atoi(by[1])
			if r := m.runs[n]; r.mute && (r.kind == "cron" || r.kind == "wake") {
				m.fail("chat %d receives %q of a run after it was unpaired", t.Chat, t.Text)
			}
		} else if chatToken.MatchString(t.Text) {
			m.fail("chat %d receives %q", t.Chat, t.Text)
		}
		m.count["texts"]++
	}
	s.checked, s.admins = len(sent), nil
	for _, person := range []int64{7, 8, 9} {
		if s.isAdmin(person) {
			s.admins = append(s.admins, person)
		}
	}
}

// finish starts what is stopped. Each message that the channel accepted then reaches the model.
func (s *chatSteps) finish() {
	for s.d.Load() == nil || s.stopAdapter == nil {
		s.restart()
	}
	time.Sleep(3 * time.Minute)
	synctest.Wait()
	s.compare()
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	for _, i := range s.model.items {
		answers := slices.ContainsFunc(s.model.asked, func(a *chatAsk) bool {
			return slices.Contains(a.answers, i.text()) || !a.closed && a.conv == i.conv // the run waits
		})
		if i.person != 0 && i.kind == "" && i.admitted && !i.seen && !answers {
			s.model.fail("the model does not see item %d of %d in %s", i.number, i.person, i.conv)
		}
	}
}
