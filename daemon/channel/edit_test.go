package channel_test

import (
	"context"
	"fmt"
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
	"crabmem/fuzz/race"
)

// streams starts a channel in the group -100 whose agent writes texts, with some time after each.
func (r *rig) streams(pause time.Duration, texts ...string) {
	r.groups, r.spaced = []telegram.Group{{ID: -100}}, true
	r.writes(pause, texts...)
	r.start()
}

// history returns the texts that each message had, but not the first one if edits followed.
func (r *rig) history() (list []string) {
	synctest.Wait()
	for _, s := range r.api.Sent() {
		list = append(list, strings.Join(append(s.Edits, s.Text)[:max(1, len(s.Edits))], " > "))
	}
	return list
}

// TestEdits: in a group, a message shows the text 1.5 seconds after its beginning, and then at most
// every 1.5 seconds. The last edit has the answer, without the text before calls of tools.
func TestEdits(t *testing.T) {
	bubble(t, func(r *rig) {
		r.streams(1100*time.Millisecond, "let me look", "", "one", " two", " three")
		id := r.group(7, "x", reply(123456, 3))
		time.Sleep(1500*time.Millisecond - 1)
		r.want()
		time.Sleep(time.Nanosecond)
		r.want("let me look")
		time.Sleep(2200*time.Millisecond + 1)
		r.want("one two") // its first text was at 2.2 s
		time.Sleep(time.Minute)
		r.want("one two three.")
		s := r.api.Sent()[0]
		if want := []string{"one two", "one two three", "one two three."}; !slices.Equal(s.Edits, want) || s.ReplyTo != id || r.api.Count("editMessageText") != 3 {
			t.Errorf("%+v, want the edits %q", s, want)
		}
		if a := files(r.m)[0].Answers; len(a) != 1 || a[0].State != "sent" || a[0].Remote != fmt.Sprint(s.ID) || a[0].Content != "" {
			t.Errorf("answers %+v", a)
		}
		r.writes(time.Second, "short")
		r.group(7, "x", reply(123456, 3))
		time.Sleep(time.Minute)
		r.want("one two three.", "short.")
		if n := r.api.Count("editMessageText"); n != 3 {
			t.Errorf("%d edits", n)
		}
	})
}

// TestEditModes: streaming = "edit" shows a message in a private chat, too, and a server without
// drafts has one.
func TestEditModes(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"edit":      func(r *rig) { r.change = func(p *channel.Platform) { p.Draft = nil } },
		"no drafts": func(r *rig) { r.api.Queue("sendMessageDraft", telegramtest.UnknownMethod) },
		"off":       func(r *rig) { r.change = func(p *channel.Platform) { p.Draft, p.EditTime = nil, 0 } },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				change(r)
				r.streams(5*time.Second, "one", " two")
				r.api.Text(7, "x")
				time.Sleep(4 * time.Second)
				if got := r.sent(); (name == "off") == slices.Equal(got, []string{"one"}) {
					t.Errorf("sent %q", got)
				}
				time.Sleep(time.Minute)
				r.want("one two.")
				if n := r.api.Count("editMessageText"); n != 2 && name != "off" {
					t.Errorf("%d edits", n)
				}
			})
		})
	}
}

// TestLongEdits: a message that is full is complete, and the next one follows. If the text before
// calls of tools was longer than the answer, its first message stays.
func TestLongEdits(t *testing.T) {
	a, b := strings.Repeat("a", 3000), strings.Repeat("b", 3000)
	bubble(t, func(r *rig) {
		r.streams(2*time.Second, a[:2000], a[2000:], "\n\n"+b[:2000], b[2000:])
		r.group(7, "x", reply(123456, 3))
		time.Sleep(5 * time.Second)
		r.want(a, b[:2000])
		time.Sleep(time.Minute)
		r.want(a, b+".")
	})
	bubble(t, func(r *rig) {
		r.streams(4*time.Second, a+"\n\n"+b, "", "end")
		r.group(7, "x", reply(123456, 3))
		time.Sleep(time.Minute)
		r.want(a, "end.")
	})
}

// TestEditFaults: an edit is repeated until it has an outcome. A fault before the last edit has no
// effect. If the platform refuses the last edit, a notice says so.
func TestEditFaults(t *testing.T) {
	race.Skip(t)
	const done = "one two."
	for fault, want := range map[telegramtest.Fault]string{ // after a fault of the last edit
		telegramtest.NoConnection: done, telegramtest.CutBefore: done, telegramtest.CutAfter: done, telegramtest.BadGateway: done, telegramtest.ServerError: done,
		telegramtest.Flood: done, telegramtest.FloodNoTime: done, telegramtest.WrongToken: done, telegramtest.NotModified: "one two",
		telegramtest.BadRequest: "one two|" + missing, telegramtest.Blocked: "one two",
	} {
		for _, before := range []int{0, 1} {
			t.Run(fmt.Sprint(fault, before), func(t *testing.T) {
				bubble(t, func(r *rig) {
					r.streams(2*time.Second, "one", " two")
					r.api.Queue("editMessageText", append(make([]telegramtest.Fault, before), fault)...)
					r.group(7, "x", reply(123456, 3))
					time.Sleep(time.Hour)
					r.want(strings.Split([]string{done, want}[before], "|")...)
					for _, a := range files(r.m)[0].Answers {
						if a.State == "pending" || a.Content != "" || a.Live {
							t.Errorf("answer %+v", a)
						}
					}
				})
			})
		}
	}
}

// TestStreamFaults: if the outcome of a streamed message is unknown, the answer is a new message,
// unless it is the text of that message: then a notice follows.
func TestStreamFaults(t *testing.T) {
	race.Skip(t)
	for name, c := range map[string]struct {
		texts []string // the answer ends with a period
		fault telegramtest.Fault
		want  string
	}{
		"another text, not sent": {[]string{"one", " two"}, telegramtest.CutBefore, "one two."},
		"another text, sent":     {[]string{"one", " two"}, telegramtest.CutAfter, "one|one two."},
		"same text, not sent":    {[]string{"one."}, telegramtest.CutBefore, missing},
		"same text, sent":        {[]string{"one."}, telegramtest.CutAfter, "one.|" + missing},
		"refused":                {[]string{"one", " two"}, telegramtest.BadRequest, "one two."},
		"later":                  {[]string{"one", " two"}, telegramtest.FloodNoTime, "one two."},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.streams(4*time.Second, c.texts...)
				if strings.HasSuffix(c.texts[0], ".") {
					r.d.reply = withoutEnd(r.d.reply)
				}
				r.api.Queue("sendMessage", c.fault)
				r.group(7, "x", reply(123456, 3))
				time.Sleep(time.Hour)
				r.want(strings.Split(c.want, "|")...)
				r.restart()
				time.Sleep(time.Hour)
				r.want(strings.Split(c.want, "|")...)
			})
		})
	}
}

// withoutEnd makes an agent write no text at its end.
func withoutEnd(reply func(context.Context, *op.Message) (string, error)) func(context.Context, *op.Message) (string, error) {
	return func(ctx context.Context, m *op.Message) (string, error) {
		_, err := reply(ctx, m)
		return "", err
	}
}

// TestRemoved: the answer is a new message if a person removed the one that shows it.
func TestRemoved(t *testing.T) {
	bubble(t, func(r *rig) {
		r.streams(4*time.Second, "one", " two")
		r.group(7, "x", reply(123456, 3))
		time.Sleep(2 * time.Second)
		r.want("one")
		r.api.Remove()
		time.Sleep(time.Minute)
		r.want("one", "one two.")
	})
}

// events makes an agent send events, each two seconds after the one before, and then a text.
func (r *rig) events(text string, list ...agent.Event) {
	r.d.reply = func(ctx context.Context, m *op.Message) (string, error) {
		for _, e := range list {
			if err := ctx.Value(emitKey{}).(func(agent.Event) error)(e); err != nil {
				return "", err
			}
			channel.Pause(ctx, 2*time.Second)
		}
		return text, ctx.Err()
	}
}

// TestEndText: a text of the tool reply comes after the text before it, which is complete and is
// not sent again, also after a restart, or if its message was not confirmed yet. The text after it
// is a new message, also if it is equal.
func TestEndText(t *testing.T) {
	look, ing := agent.Event{Kind: agent.TextDelta, Content: "look"}, agent.Event{Kind: agent.TextDelta, Content: "ing"}
	early, tools := agent.Event{Kind: agent.Reply, Content: "early"}, agent.Event{Kind: agent.ToolsComplete}
	for name, c := range map[string]struct {
		text  string
		after []agent.Event
		want  []string
	}{
		"text":       {"end", nil, []string{"looking", "early", "end"}},
		"no text":    {"", nil, []string{"looking", "early"}},
		"equal text": {"ly", []agent.Event{{Kind: agent.TextDelta, Content: "ear"}}, []string{"looking", "early", "early"}},
		"restart":    {"", []agent.Event{tools, tools, tools}, []string{"looking", "early"}},
		"slow":       {"end", nil, []string{"looking", "early", "end"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.streams(0)
				r.events(c.text, append([]agent.Event{look, ing, early, tools}, c.after...)...)
				if name == "slow" {
					r.api.Do = func(method string) {
						if method == "sendMessage" {
							time.Sleep(4 * time.Second)
						}
					}
				}
				r.group(7, "x", reply(123456, 3))
				time.Sleep(9 * time.Second)
				if name == "restart" {
					r.events("looking")
					r.restart()
				}
				time.Sleep(time.Minute)
				r.want(c.want...)
				for _, a := range files(r.m)[0].Answers {
					if a.State != "sent" || a.Live {
						t.Errorf("answer %+v", a)
					}
				}
			})
		})
	}
}

// TestStopStream: after a command to stop, the message keeps its text.
func TestStopStream(t *testing.T) {
	for wait, want := range map[time.Duration]string{time.Second: "Stopped.", 3 * time.Second: "one|Stopped."} {
		bubble(t, func(r *rig) {
			r.streams(time.Minute, "one")
			r.api.Queue("sendMessage", "")
			r.group(7, "x", reply(123456, 3))
			time.Sleep(wait)
			r.group(7, "/stop@crab_bot", entityOf("bot_command", "/stop@crab_bot", "/stop@crab_bot"))
			time.Sleep(2 * time.Minute)
			r.want(strings.Split(want, "|")...)
			for _, a := range files(r.m)[0].Answers {
				if a.State == "pending" || a.Live {
					t.Errorf("answer %+v", a)
				}
			}
		})
	}
}

// streamed is two messages in a group. The first answer is longer than the text that a message shows
// first. The second one is that text: a run ends later.
var streamed = script{func(r *rig) {
	r.ignores = true
	r.streams(2*time.Second, "one", " two")
	write := r.d.reply
	r.d.reply = func(ctx context.Context, m *op.Message) (string, error) {
		if !strings.Contains(m.Content, "second") {
			return write(ctx, m)
		}
		err := ctx.Value(emitKey{}).(func(agent.Event) error)(agent.Event{Kind: agent.TextDelta, Content: "same"})
		channel.Pause(ctx, 4*time.Second)
		return "", err
	}
	r.group(7, "first", reply(123456, 3))
	time.Sleep(7 * time.Second)
	r.group(7, "second", reply(123456, 3))
	time.Sleep(7 * time.Second)
}, (*rig).checkStreamed, nil}

// checkStreamed returns an error unless each answer is in one message, or a notice is in its place.
// One message may show the beginning of an answer.
func (r *rig) checkStreamed() (bad []string) {
	counts := make(map[string]int)
	for _, text := range r.sent() {
		counts[text]++
	}
	if len(r.d.texts) == 0 {
		bad = append(bad, "no turn")
	}
	for _, answer := range r.d.texts { // one, if the messages are one turn after the crash
		if n := counts[answer]; n > 1 || n == 0 && counts[missing] == 0 {
			bad = append(bad, fmt.Sprintf("the answer %q is in %d messages: %q", answer, n, r.history()))
		}
	}
	if n := counts["one"] + counts["one two"]; n > 1 || counts[missing] > 1 || len(counts) > 4 {
		bad = append(bad, fmt.Sprintf("%d messages without an answer: %q", n, r.history()))
	}
	return bad
}

// TestCrashesStreamed is TestCrashes for streamed messages.
func TestCrashesStreamed(t *testing.T) { crashes(t, streamed) }
