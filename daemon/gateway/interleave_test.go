package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"crabmem/daemon/model/modeltest"
	"crabmem/fuzz/seed"
)

// users are the secret words of the users of one key. Each user has a note with it.
var users = []string{"alphatok", "bravotok", "charlietok", "deltatok"}

// chatModel is what the gateway should do: which session had which conversation, and
// which conversation each session has now.
type chatModel struct {
	had map[string]map[string]bool
	now map[string]string
}

// continues returns the session that continues a conversation, or "".
func (m *chatModel) continues(seen string) string {
	if had := m.had[seen]; len(had) == 1 {
		for session := range had {
			if m.now[session] == seen {
				return session
			}
		}
	}
	return ""
}

func (m *chatModel) saw(session, seen string) {
	if m.had[seen] == nil {
		m.had[seen] = make(map[string]bool)
	}
	m.had[seen][session] = true
	m.now[session] = seen
}

// oneChat is a conversation in a front end.
type oneChat struct {
	user, header string // header: its ID
	messages     []chatMessage
	session      string // of the last answer
}

// textOf returns the conversation as text.
func textOf(messages []chatMessage, header string) string {
	b, _ := json.Marshal(messages) // texts
	return header + string(b)
}

// world is an interleaving of chats.
type world struct {
	r     *rig
	rng   *rand.Rand
	what  string // names the interleaving in errors
	chats []*oneChat
	model chatModel
	n     int

	mu      sync.Mutex
	user    string // of the request that runs, if its text does not tell
	failing bool
	cancel  context.CancelFunc // of the client, when the model answers
	asked   map[string][]chatMessage
	counts  map[string]int
}

// reply is the provider: it checks a request, and calls a tool that returns a text of the
// user, or answers.
func (w *world) reply(q modeltest.Request) modeltest.Reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := q.LastUser()
	user := w.user
	for _, one := range users {
		if strings.Contains(last, one) {
			user = one
		}
	}
	w.counts["requests to the provider"]++
	for _, m := range q.Messages {
		text := m.Content
		for _, c := range m.ToolCalls {
			text += c.Function.Arguments
		}
		for _, other := range users {
			if other != user && strings.Contains(text, other) {
				w.r.t.Errorf("%s: a request of %s contains %q", w.what, user, text)
			}
		}
	}
	w.n++
	if strings.HasSuffix(last, "Write the summary now.") {
		return modeltest.Say(fmt.Sprintf("summary %d of %s", w.n, user))
	}
	at := len(q.Messages) - 1
	if q.Messages[at].Role == "user" {
		w.visible(q)
		switch {
		case w.failing:
			return modeltest.Status(500, "no answer")
		case w.cancel != nil:
			w.cancel()
		case w.rng.IntN(3) == 0:
			return modeltest.Call("recall", fmt.Sprintf(`{"query":%q}`, user))
		}
	} else {
		w.counts["tool results"]++
		if !strings.Contains(q.Messages[at].Content, user) {
			w.r.t.Errorf("%s: the tool of %s returned %q", w.what, user, q.Messages[at].Content)
		}
	}
	if strings.Contains(last, "tok") {
		return modeltest.Say(fmt.Sprintf("noted %d for %s", w.n, user))
	}
	return modeltest.Say([]string{"Hello!", " ok ", "sure\n"}[w.rng.IntN(3)])
}

// visible checks that the texts of a request are those of one conversation that a client
// sent: in the session of its beginning, or quoted.
func (w *world) visible(q modeltest.Request) {
	var got []chatMessage
	summarized := false
	for _, m := range q.Messages[:len(q.Messages)-1] {
		switch {
		case m.Role == "user" && strings.HasPrefix(m.Content, "summary "):
			summarized = true
			w.counts["summaries"]++
		case m.Role == "system" || m.Role == "tool" || len(m.ToolCalls) > 0 || strings.Contains(m.Content, "<environment>"):
		default:
			got = append(got, chatMessage{m.Role, chatContent(strings.TrimSpace(m.Content))})
		}
	}
	got = append(got, chatMessage{"user", chatContent(q.LastUser())})
	if strings.HasPrefix(q.Messages[len(q.Messages)-1].Content, "summary ") { // joined with the newest message
		summarized = true
		w.counts["summaries"]++
	}
	for _, sent := range w.asked {
		if matchesChat(got, sent, summarized) {
			return
		}
	}
	w.r.t.Errorf("%s: the provider received %q as %q, want one of %q", w.what, q.Messages, got, slices.Collect(maps.Values(w.asked)))
}

// matchesChat reports whether got is sent, whose beginning may be quoted or, with a
// summary, absent.
func matchesChat(got, sent []chatMessage, summarized bool) bool {
	for k := range sent {
		want := slices.Clone(sent[k:])
		if k > 0 && !summarized {
			want[0].Content = chatContent(quoted(sent[:k])) + "\n" + want[0].Content
		}
		if len(got) == len(want) && slices.EqualFunc(got, want, func(a, b chatMessage) bool {
			return a.Role == b.Role && strings.TrimSpace(string(a.Content)) == strings.TrimSpace(string(b.Content))
		}) {
			return true
		}
	}
	return false
}

// send sends a conversation. It returns the answer as the client received it, and false if
// there was none.
func (w *world) send(ctx context.Context, c *oneChat, messages []chatMessage, named string) (answer, session string, status int) {
	w.mu.Lock()
	stream := w.rng.IntN(2) == 0
	w.mu.Unlock()
	body := object{"model": "crab", "messages": messages}
	if stream {
		body["stream"] = true
	}
	b, _ := json.Marshal(body)
	q, err := http.NewRequestWithContext(ctx, "POST", w.r.url+"/v1/chat/completions", strings.NewReader(string(b)))
	if err != nil {
		w.r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+w.r.keys["ann"])
	q.Header.Set("Content-Type", "application/json")
	if c.header != "" {
		q.Header.Set("X-OpenWebUI-Chat-Id", c.header)
	}
	if named != "" {
		q.Header.Set("X-Crabmem-Session", named)
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		return "", "", 0
	}
	defer p.Body.Close()
	b, err = io.ReadAll(p.Body)
	if err != nil {
		return "", "", 0
	}
	out := &response{p, b}
	if session = p.Header.Get("X-Crabmem-Session"); p.StatusCode != 200 || !stream {
		answer, _ = out.field("choices.0.message.content").(string)
		return answer, session, p.StatusCode
	}
	ended := false
	for _, e := range eventsOf(b) {
		one := &response{body: []byte(e.data)}
		text, _ := one.field("choices.0.delta.content").(string)
		answer += text
		ended = ended || e.data == "[DONE]"
	}
	if !ended {
		return "", "", 0
	}
	return answer, session, 200
}

// begin records what a chat sends. It returns the session that should continue it.
func (w *world) begin(c *oneChat, messages []chatMessage) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[c.header+c.user+fmt.Sprint(len(w.asked))] = messages
	return w.model.continues(textOf(trimmed(messages[:len(messages)-1]), c.header))
}

func trimmed(list []chatMessage) []chatMessage {
	list = slices.Clone(list)
	for i := range list {
		list[i].Content = chatContent(strings.TrimSpace(string(list[i].Content)))
	}
	return list
}

// end records an answer.
func (w *world) end(c *oneChat, messages []chatMessage, answer, session string) {
	c.messages = append(slices.Clone(messages), chatMessage{"assistant", chatContent(answer)})
	c.session = session
	w.model.saw(session, textOf(trimmed(c.messages), c.header))
}

// TestInterleavedChats interleaves eight chats by four users of one key: messages, edits,
// regenerations, concurrent messages, failures, clients that disconnect, and compactions.
// No request to the provider contains a message, a tool result, or a summary of another
// user, or of a message that its chat does not contain. CRABMEM_CHATS is the number of
// interleavings.
func TestInterleavedChats(t *testing.T) {
	runs := 20
	if testing.Short() {
		runs = 3
	}
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_CHATS")); err == nil {
		runs = n
	}
	first := seed.Of(t)
	counts := make(map[string]int)
	for from := 0; from < runs && !t.Failed(); from += 100 {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			for i, w := from, newWorld(t, counts); i < min(from+100, runs) && !t.Failed(); i++ {
				w.interleave(first, i)
			}
		})
	}
	for _, what := range []string{"continued", "sessions", "tool results", "regenerations", "edits", "failed runs", "canceled runs", "concurrent messages", "named sessions", "summaries"} {
		if counts[what] == 0 && !testing.Short() {
			t.Errorf("no %s", what)
		}
	}
	t.Logf("%d interleavings: %v", runs, counts)
}

func newWorld(t *testing.T, counts map[string]int) *world {
	w := &world{counts: counts, asked: make(map[string][]chatMessage)}
	w.r = newRig(t, withOpenAI, func(c *Config) { c.Limits.RunsPerKey = 16 })
	w.r.model.Discard = true
	w.r.model.Func(w.reply)
	for i, word := range users {
		w.r.create("ann", fmt.Sprint("note ", i), "the secret of its user is "+word)
	}
	return w
}

// interleave does an interleaving. Its number is in each first message.
func (w *world) interleave(first uint64, number int) {
	w.rng = rand.New(rand.NewPCG(first, uint64(number)))
	w.what = fmt.Sprint("interleaving ", number)
	w.model = chatModel{had: make(map[string]map[string]bool), now: make(map[string]string)}
	ids := w.rng.IntN(3)
	w.chats = nil
	for i := range 8 {
		c := &oneChat{user: users[i%len(users)], messages: []chatMessage{{"system", chatContent(w.what)}}}
		switch ids {
		case 1:
			c.header = "constant"
		case 2:
			c.header = fmt.Sprint("chat ", i)
		}
		w.chats = append(w.chats, c)
	}
	for range 16 + w.rng.IntN(16) {
		if w.step(); w.r.t.Failed() {
			return
		}
	}
}
