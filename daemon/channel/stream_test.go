package channel_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/channel"
	"crabmem/daemon/channel/telegram"
	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/op"
)

// writes makes the daemon write texts, with some time after each.
func (r *rig) writes(pause time.Duration, texts ...string) {
	r.d.reply = func(ctx context.Context, m *op.Message) (string, error) {
		emit := ctx.Value(emitKey{}).(func(agent.Event) error)
		for _, text := range texts {
			kind := agent.TextDelta
			if text == "" {
				kind = agent.ToolsComplete
			}
			if err := emit(agent.Event{Kind: kind, Content: text}); err != nil {
				return "", err
			}
			time.Sleep(pause)
		}
		return ".", nil
	}
}

// TestNoDraftInGroup: a group has no drafts, also if all senders count.
func TestNoDraftInGroup(t *testing.T) {
	bubble(t, func(r *rig) {
		r.groups = []telegram.Group{{ID: -100, Senders: "all"}}
		r.start()
		r.writes(5*time.Second, "one", " two")
		r.group(7, "x", reply(123456, 3))
		time.Sleep(time.Minute)
		if got := r.api.Drafts(); len(got) > 0 {
			t.Errorf("drafts %+v", got)
		}
	})
}

// drafts returns the texts that the bot showed. All must have one ID.
func (r *rig) drafts() (list []string) {
	synctest.Wait()
	all := r.api.Drafts()
	for _, s := range all {
		list = append(list, s.Text)
		if s.ID != all[0].ID || s.Chat != 7 {
			r.t.Errorf("draft %+v", s)
		}
	}
	return list
}

// TestDraft: the person sees the text while the agent writes it, at most every 1.5 seconds, and
// again after 20 seconds without a change. The answer is one message, without the text before
// calls of tools.
func TestDraft(t *testing.T) {
	bubble(t, func(r *rig) {
		r.writes(1100*time.Millisecond, "let me look", "", "one", " two", " three")
		r.start()
		r.api.Text(7, "x")
		time.Sleep(time.Minute)
		if got := r.drafts(); !slices.Equal(got, []string{"let me look", "one", "one two three"}) {
			t.Errorf("drafts %q", got)
		}
		r.want("one two three.")
	})
	bubble(t, func(r *rig) {
		r.writes(50*time.Second, "one")
		r.start()
		r.api.Text(7, "x")
		time.Sleep(time.Minute)
		if got := r.drafts(); !slices.Equal(got, []string{"one", "one", "one"}) {
			t.Errorf("drafts %q", got)
		}
	})
}

// TestLongDraft: a draft shows the end of a long text.
func TestLongDraft(t *testing.T) {
	bubble(t, func(r *rig) {
		r.writes(2*time.Second, strings.Repeat("a", 3000)+"\n\n"+strings.Repeat("b", 3000))
		r.start()
		r.api.Text(7, "x")
		time.Sleep(time.Minute)
		if got := r.drafts(); len(got) != 1 || got[0] != strings.Repeat("b", 3000) {
			t.Errorf("drafts %.9q", got)
		}
		if got := r.sent(); len(got) != 2 {
			t.Errorf("sent %.9q", got)
		}
	})
}

// TestNoDraftsInGroups: groups have no drafts, also those with all senders.
func TestNoDraftsInGroups(t *testing.T) {
	for _, senders := range []string{"", "all"} {
		bubble(t, func(r *rig) {
			r.ignores, r.groups = true, []telegram.Group{{ID: -100, Senders: senders}}
			r.writes(5*time.Second, "one")
			r.start()
			r.group(7, "hi @crab_bot", entityOf("mention", "hi @crab_bot", "@crab_bot"))
			time.Sleep(20 * time.Second)
			if n := r.api.Count("sendMessageDraft"); n > 0 || len(r.sent()) != 1 {
				t.Errorf("%d drafts, sent %q", n, r.sent())
			}
		})
	}
}

// TestNoDrafts: streaming may be off.
func TestNoDrafts(t *testing.T) {
	bubble(t, func(r *rig) {
		r.change = func(p *channel.Platform) { p.Draft, p.EditTime = nil, 0 }
		r.writes(time.Minute, "one")
		r.start()
		r.api.Text(7, "x")
		time.Sleep(2 * time.Minute)
		if got := r.drafts(); got != nil {
			t.Errorf("drafts %q", got)
		}
		r.want("one.")
	})
}

// TestDraftFaults: the answer is sent once after each fault of a draft, and a server without
// drafts is asked once.
func TestDraftFaults(t *testing.T) {
	for fault, want := range map[telegramtest.Fault]int{
		telegramtest.NoConnection: 4, telegramtest.CutBefore: 4, telegramtest.CutAfter: 4, telegramtest.BadGateway: 4, telegramtest.ServerError: 4,
		telegramtest.Flood: 3, telegramtest.FloodNoTime: 4, telegramtest.BadRequest: 3, telegramtest.Blocked: 3, telegramtest.UnknownMethod: 1,
	} {
		t.Run(string(fault), func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.writes(10100*time.Millisecond, "one", " two") // ends between two drafts
				r.api.Queue("sendMessageDraft", fault)
				r.start()
				for range 2 {
					r.api.Text(7, "x")
					time.Sleep(time.Minute)
				}
				r.want("one two.", "one two.")
				if n := r.api.Count("sendMessageDraft"); n != want {
					t.Errorf("%d drafts, want %d", n, want)
				}
			})
		})
	}
}
