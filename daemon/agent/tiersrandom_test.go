package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/model"
	"crabmem/daemon/tool"
	"crabmem/fuzz/seed"
	"crabmem/sessionlog/record"
)

// conversations of TestTierConversations, and the messages of each. The environment
// variable CRABMEM_TIER_CONVERSATIONS sets the first, and 2,000 messages.
const (
	someConversations = 20
	someMessages      = 300
	mostMessages      = 2_000
)

// conversation is a random conversation, with the messages that the session had.
type conversation struct {
	*tierRig
	rand   *rand.Rand
	later  *rand.Rand // of summaries; under mu, as covers
	window int
	all    []saidOne
	step   int                 // index in all of the newest message with calls
	covers map[string][]string // the messages of each summary
	done   map[string]bool     // messages of summaries in a marker

	background, emergency, cut int
}

type saidOne struct {
	id   string
	size int
	step int // index of the message with which the step begins
}

// text returns a text with a new ID, for the next message of the session.
func (c *conversation) text(n int) string {
	id := fmt.Sprintf("#%d", len(c.all))
	s := id + strings.Repeat(".", max(1, n-len(id)))
	c.all = append(c.all, saidOne{id, len(s), len(c.all)})
	return s
}

// size returns the size of a text, sometimes a large one.
func (c *conversation) size() int {
	n := 1 + c.rand.IntN(c.window/20)
	if c.rand.IntN(20) == 0 {
		n = c.rand.IntN(c.window * 3)
	}
	return min(n, 2*maxResult)
}

var idOf = regexp.MustCompile(`^#\d+`)

var summaryName = regexp.MustCompile(`digest \d+`)

// check returns an error for a request that breaks a promise.
func (c *conversation) check(q *model.Request) error {
	if n := Estimate(q.Messages); n > c.window {
		return fmt.Errorf("a request of %d tokens", n)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	has := make(map[string]bool)
	var open []string
	for _, m := range q.Messages {
		switch {
		case m.Role != record.RoleTool && len(open) > 0:
			return fmt.Errorf("calls without a result: %q", open)
		case m.Role == record.RoleTool && (len(open) == 0 || open[0] != m.ToolCallID):
			return fmt.Errorf("a result without its call: %q", m.ToolCallID)
		case m.Role == record.RoleTool:
			open = open[1:]
		}
		for _, call := range m.ToolCalls {
			open = append(open, call.ID)
		}
		if id := idOf.FindString(m.Content); id != "" {
			has[id] = true
			if strings.HasSuffix(m.Content, cutNote) {
				c.cut++
			}
		}
		if strings.HasPrefix(m.Content, stackBegins) {
			for _, name := range summaryName.FindAllString(m.Content, -1) {
				for _, id := range c.covers[name] {
					c.done[id] = true
				}
			}
		}
	}
	room := share(min(c.window, c.agent.CompactThreshold*5/4), keptNewest)
	for end := len(c.all); end > 0; end = c.all[end-1].step { // complete steps
		step := c.all[c.all[end-1].step:end]
		for _, m := range step {
			room -= m.size
		}
		if room < 0 {
			break
		}
		for _, m := range step {
			if !has[m.id] && !c.done[m.id] {
				return fmt.Errorf("message %s of the newest 40 %% is lost; the request has %q", m.id, names(q.Messages))
			}
		}
	}
	return nil
}

// play runs the turns of a conversation.
func (c *conversation) play(messages int) error {
	var broken error
	steps := 0
	c.stream = func(q *model.Request) (model.Chunk, error) {
		if err := c.check(q); err != nil && broken == nil {
			broken = err
		}
		if steps--; steps <= 0 {
			return model.Chunk{Content: c.text(c.size()), Finish: "stop"}, nil
		}
		calls := callsOf(1+c.rand.IntN(3), "blob")
		for i := range calls {
			calls[i].ID = fmt.Sprint("c", len(c.all), "-", i)
		}
		text := c.text(1)
		c.step = len(c.all) - 1
		c.all[c.step].size += len(calls) * len("blob{}")
		return model.Chunk{Content: text, Calls: calls, Finish: "tool_calls"}, nil
	}
	c.summarize = func(q *model.Request) (time.Duration, string, error) {
		wait := time.Duration(c.later.IntN([]int{10, 400}[c.later.IntN(2)])) * time.Second
		if c.later.IntN(5) == 0 {
			return wait, "", errors.New("down")
		}
		name := fmt.Sprint("digest ", len(c.summaries))
		for _, m := range q.Messages {
			if id := idOf.FindString(m.Content); id != "" {
				c.covers[name] = append(c.covers[name], id)
			}
		}
		return wait, name + strings.Repeat(" and", c.later.IntN(500)), nil
	}
	for len(c.all) < messages && broken == nil {
		time.Sleep(time.Duration(c.rand.IntN(30)) * time.Second)
		synctest.Wait()
		steps = 1 + c.rand.IntN(10)
		err := c.say(c.text(c.size()))
		if broken == nil {
			broken = err
		}
		for _, e := range c.events {
			if strings.HasPrefix(e, "notice compact") && broken == nil {
				broken = errors.New(e)
			}
			if strings.HasPrefix(e, "compacted") {
				if text, _ := NewestSummary(c.s.summary()); strings.HasPrefix(text, "There is no summary") {
					c.emergency++
				} else {
					c.background++
				}
			}
		}
	}
	return broken
}

// TestTierConversations runs random conversations with windows of 8,192 to 200,000 tokens,
// and summaries that are late or fail. No request exceeds the window or has a call without
// its result, no run waits for a summary, and of the newest 40 % of the window each message
// is in the request, or in a summary of the model.
func TestTierConversations(t *testing.T) {
	count, most := someConversations, someMessages
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_TIER_CONVERSATIONS")); err == nil {
		count, most = n, mostMessages
	}
	r := seed.Random(t)
	messages, background, emergency, cut, late := 0, 0, 0, 0, 0
	for i := range count {
		window := 8_192 << r.IntN(3)
		if r.IntN(4) == 0 {
			window = 8_192 + r.IntN(200_000-8_192)
		}
		from := r.Uint64()
		synctest.Test(t, func(t *testing.T) {
			c := &conversation{tierRig: newTierRig(t, window), rand: rand.New(rand.NewPCG(from, 1)), later: rand.New(rand.NewPCG(from, 2)), window: window, covers: make(map[string][]string), done: make(map[string]bool)}
			c.agent.MaxIterations = 100
			if c.rand.IntN(3) == 0 {
				c.agent.CompactThreshold = max(8_000, window/2)
			}
			c.Tools.Add(tool.New("blob", "", func(context.Context, tool.Call, struct{}) (string, error) {
				text := c.text(c.size())
				c.all[len(c.all)-1].step = c.step
				return text, nil
			}))
			if err := c.play(most); err != nil {
				t.Errorf("conversation %d, window %d, %d messages: %v", i, window, len(c.all), err)
			}
			c.Background.Stop()
			messages, background, emergency, cut = messages+len(c.all), background+c.background, emergency+c.emergency, cut+c.cut
			for _, a := range c.archived {
				if a.Late {
					late++
				}
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d conversations, %d messages, %d background summaries, %d emergencies, %d late, %d texts cut", count, messages, background, emergency, late, cut)
	if background == 0 || emergency == 0 || late == 0 {
		t.Error("a counter is 0")
	}
}
