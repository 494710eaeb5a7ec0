package daemoncrash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"crabmem/crmem"
	"crabmem/daemon"
	"crabmem/daemon/agent"
	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
	"crabmem/fuzz/internal/model"
)

// send sends a request and passes each response to see. It returns the error that
// the daemon reports.
func send(d *daemon.Daemon, m *pb.ClientMessage, see func(*pb.ServerMessage)) error {
	var err error
	d.Handle(context.Background(), m, func(r *pb.ServerMessage) error {
		if e := r.GetError(); e != nil {
			err = fmt.Errorf("%d %s: %s", e.Code, e.Kind, e.Message)
			return nil
		}
		if body := r.GetResult().GetError(); len(body) > 0 {
			var e op.Error
			err = cmp.Or(op.Decode(body, &e), error(&e))
			return nil
		}
		if text := r.GetStream().GetEnd().GetError(); text != "" {
			err = errors.New(text)
		}
		see(r)
		return nil
	})
	return err
}

// client sends requests as one sender.
type client struct {
	who   string // sender
	d     *daemon.Daemon
	rng   *rand.Rand
	mu    *sync.Mutex // guards *l and the ledger
	l     **ledger
	n     int               // number in the last text of next
	crons map[string]uint64 // IDs of the client's cron entries, by arguments
}

// locked calls f with the ledger while it holds mu.
func (c *client) locked(f func(l *ledger)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(*c.l)
}

// next returns a text that this client has not sent yet.
func (c *client) next(what string) string {
	c.n++
	return fmt.Sprintf("%s of %s, number %d", what, c.who, c.n)
}

// belongs reports whether a text contains a result of next of the client who.
func belongs(text, who string) bool { return strings.Contains(text, " of "+who+", number ") }

// set sends a request that sets a cell, and records the request and the
// acknowledgment.
func (c *client) set(key, value string, m *pb.ClientMessage) error {
	c.locked(func(l *ledger) { l.begin(key, value) })
	return send(c.d, m, func(*pb.ServerMessage) { c.locked(func(l *ledger) { l.ack(key, value) }) })
}

// title sets the title of a session.
func (c *client) title(id string) error {
	title, key := c.next("title"), "title crab/"+c.who
	c.locked(func(l *ledger) { l.begin(key, title) })
	_, err := op.TitleSession.Do(context.Background(), caller{c.d}, op.SessionTitle{Session: id, Title: title})
	if err == nil {
		c.locked(func(l *ledger) { l.ack(key, title) })
	}
	return err
}

// do sends the request of a symbol. If the request needs an item that does not
// exist, do sends a message or a new entry instead.
func (c *client) do(symbol string) error {
	var entries []string
	chat, exists := "", false
	c.locked(func(l *ledger) {
		for key, e := range l.cells {
			if name, ok := strings.CutPrefix(key, "entry "); ok && len(e.maybe) == 0 && strings.HasPrefix(e.now, "note ") && belongs(name, c.who) {
				entries = append(entries, name)
			}
		}
		slices.Sort(entries)
		t := l.session("crab/" + c.who)
		chat, exists = t.id, len(t.lines) > 0
	})
	switch {
	case symbol == "checkpoint":
		return send(c.d, call("store.checkpoint", op.None{}), func(*pb.ServerMessage) {})
	case symbol == "say" || !exists && symbol != "remember":
		return c.say("crab", c.next("hello"))
	case symbol == "brief":
		return c.say("brief", c.next("hello"))
	case symbol == "short":
		err := c.say("short", c.next("endless recall"))
		if err != nil && strings.Contains(err.Error(), noSteps) {
			return nil
		}
		return err
	case symbol == "cut":
		err := c.say("crab", c.next("cut off"))
		if err != nil && strings.Contains(err.Error(), cutOff) {
			return nil
		}
		return err
	case symbol == "note":
		return c.say("crab", "note "+c.next("fact"))
	case symbol == "compact":
		return c.compact(chat)
	case symbol == "title":
		return c.title(chat)
	case symbol == "cron":
		return c.addCron(chat)
	case symbol == "uncron" && len(c.crons) > 0:
		return c.removeCron()
	case symbol == "config":
		mark := fmt.Sprint(c.rng.Uint32())
		return c.set("config", mark, &pb.ClientMessage{Msg: &pb.ClientMessage_SetConfig{SetConfig: &pb.SetConfigMsg{Config: `{"env":{"MARK":"` + mark + `"}}`}}})
	case symbol == "update" && len(entries) > 0:
		return c.remember(entries[c.rng.IntN(len(entries))])
	case symbol == "forget" && len(entries) > 0:
		name := entries[c.rng.IntN(len(entries))]
		return c.set("entry "+name, "", call("entries.forget", op.Removal{Name: name}))
	}
	return c.remember(c.next("entry"))
}

// remember sends a new content for an entry.
func (c *client) remember(name string) error {
	text := c.next("text") + strings.Repeat(" and more", c.rng.IntN(100))
	return c.set("entry "+name, "note "+text, call("entries.remember", op.Note{Remember: crmem.Remember{Name: name, Content: text}}))
}

// noSteps is part of the error with which each run of the agent short ends.
const noSteps = "step limit reached before a response"

// cutOff is part of the error of a run whose response is cut.
const cutOff = "unexpected EOF"

// say sends a message to an agent. It issues the lines that the session then gets,
// and acknowledges them at the end of the response.
func (c *client) say(to, text string) error {
	key := to + "/" + c.who
	texts := []string{"user " + text, "assistant " + model.Answer(text)}
	name, noted := strings.CutPrefix(text, "note ")
	if noted {
		texts = slices.Insert(texts, 1, "assistant+ ", "tool *")
	}
	switch to {
	case "brief":
		texts = append(texts, "marker *")
	case "short":
		texts = []string{texts[0], "assistant+ ", "tool *", "failed exhausted"}
	}
	cut := strings.HasPrefix(text, "cut ")
	if cut {
		texts = []string{texts[0], "piece *", "failed *"}
	}
	var lines []*line
	untitled := false
	c.locked(func(l *ledger) {
		if untitled = l.cells["title "+key] == nil; untitled {
			l.begin("title "+key, text)
		}
		l.session(key).issueHalf()
		lines = l.session(key).issue(texts...)
		if noted {
			l.begin("entry "+name, "note "+model.Answer(name))
		}
	})
	err := op.StreamMessage.Each(context.Background(), caller{c.d}, op.Message{Agent: to, Content: text, Sender: c.who}, func(e agent.Event) error {
		c.locked(func(l *ledger) {
			switch {
			case e.Kind == agent.Start:
				l.session(key).id = e.Session
				if untitled { // the new session has its title from the beginning
					l.ack("title "+key, text)
				}
			case e.Kind == agent.ToolResult && !e.Failed && noted:
				l.ack("entry "+name, "note "+model.Answer(name))
			case e.Kind == agent.Compacted:
				lines[len(lines)-1].text = "marker " + e.Summary
				l.ack("entry "+e.Archive, "archive "+e.Summary)
			}
		})
		return nil
	})
	if err == nil || to == "short" && strings.Contains(err.Error(), noSteps) || cut && strings.Contains(err.Error(), cutOff) {
		c.locked(func(*ledger) {
			if cut {
				lines[1].text = "piece " + model.Half(text)
			}
			for _, x := range lines {
				x.acked = true
			}
		})
	}
	return err
}

// compact compacts a session.
func (c *client) compact(id string) error {
	var lines []*line
	c.locked(func(l *ledger) { lines = l.session("crab/" + c.who).issue("marker *") })
	r, err := op.CompactSession.Do(context.Background(), caller{c.d}, op.Compaction{Session: id})
	if err != nil {
		return err
	}
	c.locked(func(l *ledger) {
		*lines[0] = line{"marker " + r.Summary, true}
		l.ack("entry "+r.Archive, "archive "+r.Summary)
	})
	return nil
}

// call returns the message that carries out an operation.
func call(name string, in any) *pb.ClientMessage {
	body, err := op.Encode(in)
	if err != nil {
		panic(err) // a request of this test
	}
	return &pb.ClientMessage{Msg: &pb.ClientMessage_Call{Call: &pb.Call{Op: name, Body: body}}}
}

// addCron creates a cron entry for a session.
func (c *client) addCron(session string) error {
	args := c.next("job")
	value := "0 3 * * * tidy " + session
	c.locked(func(l *ledger) { l.begin("cron "+args, value) })
	cron, err := op.AddCron.Do(context.Background(), caller{c.d}, op.NewCron{Schedule: "0 3 * * *", Skill: "tidy", Args: args, Session: session})
	if err != nil {
		return err
	}
	c.crons[args] = cron.ID
	c.locked(func(l *ledger) { l.ack("cron "+args, value) })
	return nil
}

// removeCron deletes one of the client's cron entries.
func (c *client) removeCron() error {
	var all []string
	for args := range c.crons {
		all = append(all, args)
	}
	slices.Sort(all)
	args := all[c.rng.IntN(len(all))]
	id := c.crons[args]
	delete(c.crons, args)
	return c.set("cron "+args, "", &pb.ClientMessage{Msg: &pb.ClientMessage_DeleteCron{DeleteCron: &pb.DeleteCronMsg{Id: id}}})
}
