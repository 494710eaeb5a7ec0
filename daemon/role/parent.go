package role

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"crabmem/bm25/clip"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/session"
	"crabmem/daemon/trust"
	"crabmem/daemon/usage"
	"crabmem/daemon/work"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// parent is a session with open work.
type parent struct {
	*work.Parent
	r     *Roles
	users int // of use; guarded by Roles.opening

	// Guarded by Roles.mu.
	timer *time.Timer // of the next wake, or nil
	first time.Time   // when the first outcome asked for that wake
	owed  []string    // senders of what was delivered before the start and has no answer
}

func newParent(r *Roles, p *work.Parent) *parent {
	return &parent{Parent: p, r: r}
}

// open returns the parent with a stored ID if it has open work, or nil. The caller calls
// done.
func (r *Roles) open(id string) *parent {
	r.opening.Lock()
	defer r.opening.Unlock()
	p := r.parents[id]
	if p != nil {
		p.users++
	}
	return p
}

// use returns the parent with a stored ID. The caller calls done.
func (r *Roles) use(id string) (*parent, error) {
	r.opening.Lock()
	defer r.opening.Unlock()
	p := r.parents[id]
	if p == nil {
		opened, _, err := r.o.Work.Open(id)
		if err != nil {
			return nil, err
		}
		p = newParent(r, opened)
		r.parents[id] = p
	}
	p.users++
	return p, nil
}

// done ends a use. It closes a parent without open work or a wake.
func (r *Roles) done(p *parent) {
	r.opening.Lock()
	defer r.opening.Unlock()
	r.mu.Lock()
	waits := p.timer != nil || r.stopped
	r.mu.Unlock()
	if p.users--; p.users > 0 || waits || p.Inbox() > 0 || len(p.Items()) > 0 || r.parents[p.ID()] != p {
		return
	}
	delete(r.parents, p.ID())
	p.Tidy()
	if err := p.Close(); err != nil {
		r.o.Log.Warn("close work", "session", p.ID(), "error", err)
	}
}

// quit stops the next wake's timer.
func (p *parent) quit() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// publish sends an event of the parent's session.
func (p *parent) publish(kind agent.Kind, id, text, note string) {
	m := p.Meta()
	p.r.o.Publish(p.ID(), m.Agent, m.CreatedBy, agent.Event{Kind: kind, ID: id, Content: text, Note: note})
}

// maxResult limits the text of an outcome in a delivery, in bytes.
const maxResult = 8 << 10

// deliver writes the inbox to the parent's session, as one message. The
// caller has the parent's run slot.
func (p *parent) deliver() ([]sessionlog.Message, error) {
	m := sessionlog.Message{Role: record.RoleUser}
	out, err := p.Deliver(func(list []work.Outcome) string {
		m.Content = results(list)
		return m.Content
	})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	for i := range out {
		m.Work = append(m.Work, out[i].Key())
	}
	p.publish(agent.Delivered, "", m.Content, display.Plural(len(out), "result", "results")+" delivered")
	return []sessionlog.Message{m}, nil
}

// results returns outcomes as a message for the model.
func results(list []work.Outcome) string {
	var b strings.Builder
	for i := range list {
		o := &list[i]
		state := o.State
		if o.State == record.Failed {
			state += " (" + o.Reason + ")"
		}
		fmt.Fprintf(&b, "## %s %s %s, %s%s\n%s\n", o.ID, o.Kind, display.OneLine(o.Agent), display.OneLine(state), took(o.Started, o.At), strings.TrimSpace(clip.Marked(o.Text, maxResult)))
	}
	return display.FenceResults(b.String())
}

// took returns " in" and the time between two times of session files, or "".
func took(from, to string) string {
	a, err := time.Parse(time.RFC3339, from)
	b, err2 := time.Parse(time.RFC3339, to)
	if errors.Join(err, err2) != nil {
		return ""
	}
	return " in " + age(b.Sub(a))
}

func age(d time.Duration) string { return max(d, 0).Round(time.Second).String() }

// ended has a parent woken for an outcome: after a pause without another outcome, at the
// latest some seconds after the first.
func (p *parent) ended() {
	roles := &p.r.o.Setup().Config.Roles
	p.r.wakeAfter(p, roles.WakeDelay, roles.WakeMaxDelay)
}

func (r *Roles) wakeAfter(p *parent, delay, most time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	now := r.o.Now()
	if p.timer == nil {
		p.first = now
		id := p.ID()
		p.timer = time.AfterFunc(min(delay, most), func() { r.goes(func() { r.wake(id) }) })
		return
	}
	p.timer.Reset(max(min(delay, p.first.Add(most).Sub(now)), 0))
}

// wake delivers a parent's outcomes without a user, and runs the parent's agent on
// them, unless the limit of such runs is reached.
func (r *Roles) wake(id string) {
	p := r.open(id)
	if p == nil {
		return
	}
	defer r.done(p)
	p.quit()
	l, err := r.o.Sessions.Open(r.ctx, id, "")
	if err != nil {
		r.o.Log.Warn("wake", "session", id, "error", err)
		return
	}
	c := r.setupOf(l.Workspace()).Config
	sender, stale := p.sender(l.CreatedBy()), false // stale: others gave out work before the wake had the run slot
	unowed := false                                 // the wake's texts would not be delivered
	run := session.Run{Session: l, Sender: sender,
		Begin: func(s *agent.Session) (bool, error) {
			if stale = p.sender(l.CreatedBy()) != sender; stale {
				return false, nil
			}
			ms, err := p.deliver()
			s.Messages = append(s.Messages, ms...)
			n := deliveries(s.Messages)
			if of, _ := c.Agent(l.Agent()); err != nil || n == 0 || !s.Unanswered() || of.Role == "" {
				return false, err
			}
			if n > c.Roles.Wakes {
				p.publish(agent.Notice, "", "", "results wait in the conversation: send a message to go on")
				return false, nil
			}
			if err := r.o.Owe(id, l.CreatedBy(), lastKey(s.Messages)); err != nil {
				unowed = true
				return false, err
			}
			r.mu.Lock()
			r.wakes[id] = true
			r.mu.Unlock()
			p.publish(agent.Wake, "", "", "")
			return true, nil
		},
		Adapt: func(a *agent.Agent) { a.MaxIterations = min(a.MaxIterations, c.Roles.WakeSteps) },
	}
	err = r.o.Sessions.Run(r.ctx, &run)
	r.mu.Lock()
	woke := r.wakes[id]
	delete(r.wakes, id)
	if err == nil && !stale {
		p.owed = nil
	}
	r.mu.Unlock()
	if stale && err == nil {
		r.wakeAfter(p, 0, 0)
	}
	if woke {
		r.settle(id, l.CreatedBy())
	}
	if l := usage.Refused(err); l != nil { // the outcomes wait until runs are permitted
		r.wakeAfter(p, l.Until.Sub(r.o.Now()), never)
	} else if err != nil && r.ctx.Err() == nil {
		r.o.Log.Warn("wake", "session", id, "error", err)
		if p.Inbox() > 0 || unowed { // the disk is full
			r.wakeAfter(p, wakeRetry, wakeRetry)
		}
	}
}

// settle delivers a wake's texts, and tries again until that is done or the daemon stops:
// then the next start does it.
func (r *Roles) settle(id, creator string) {
	for r.ctx.Err() == nil {
		err := r.o.Settle(id, creator)
		if err == nil {
			return
		}
		r.o.Log.Error("deliver the texts of a wake", "session", id, "error", err)
		select {
		case <-time.After(endRetry):
		case <-r.ctx.Done():
		}
	}
}

// lastKey returns a key of the newest delivery.
func lastKey(ms []sessionlog.Message) string {
	for _, m := range slices.Backward(ms) {
		if len(m.Work) > 0 {
			return m.Work[len(m.Work)-1]
		}
	}
	return ""
}

// wakeRetry is the pause after a wake without a delivery.
const wakeRetry = 5 * time.Minute

// owes stores who gave out the delivered work, and who answered the questions, for the next
// wake.
func (p *parent) owes(list []record.Work) {
	var senders []string
	for _, w := range list {
		sender := cmp.Or(w.To, unknownSender)
		if i, _ := p.Item(w.ID); i != nil {
			if g, err := grantOf(i); err == nil {
				sender = g.Sender
			}
		}
		senders = append(senders, sender)
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.owed = senders
}

// unknownSender is the sender of work without a grant: no rule is for it.
const unknownSender = ":"

// sender returns a wake's sender: who gave out the work, and not the session's
// creator, who may have more permissions.
func (p *parent) sender(creator string) string {
	p.r.mu.Lock()
	senders := slices.Clone(p.owed)
	p.r.mu.Unlock()
	if q := p.Question(); q != nil && q.Answer != "" {
		senders = append(senders, q.To)
	}
	for _, i := range p.Items() {
		g, err := grantOf(i)
		if err != nil {
			g.Sender = unknownSender
		}
		senders = append(senders, g.Sender)
	}
	slices.Sort(senders)
	sender := ""
	for _, s := range slices.Compact(senders) {
		switch {
		case s == creator: // takes part in each run
		case sender == "":
			sender = s
		default:
			sender = trust.Delegate("", sender, s)
		}
	}
	return cmp.Or(sender, creator)
}

// deliveries returns the number of deliveries since the user's last message.
func deliveries(ms []sessionlog.Message) (n int) {
	for _, m := range slices.Backward(ms) {
		if m.Role == record.RoleUser && len(m.Work) == 0 {
			break
		}
		if m.Role == record.RoleUser {
			n++
		}
		if slices.ContainsFunc(m.Work, record.IsAnswer) { // the user wrote it
			break
		}
	}
	return n
}
