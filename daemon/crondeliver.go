package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"crabmem/daemon/agent"
	"crabmem/daemon/box"
	"crabmem/daemon/cron"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/daemon/trust"
	"crabmem/daemon/usage"
)

// checkDeliver returns an error if an entry may not deliver to its target. The owner's entries
// may deliver to each conversation of a channel, another maker's entries to the maker's own.
func (d *Daemon) checkDeliver(c *cron.Cron) error {
	if c.Deliver == "" {
		return nil
	}
	return d.mayDeliver(c.Deliver, c.Sender)
}

// mayDeliver returns an error unless a channel delivers to a conversation, and a text of some
// identities may go there: an admin's to each conversation, another one's to its own.
func (d *Daemon) mayDeliver(conversation string, makers ...string) error {
	if err := d.reaches(conversation); err != nil {
		return errtable.Invalidf("deliver: %v", err)
	}
	for _, maker := range makers {
		maker = trust.Origin(maker)
		if d.setup().config.Origins.Level(maker) != trust.Admin && box.Identity(conversation) != maker {
			return &errtable.Error{HTTP: http.StatusForbidden, Kind: "scope", Exit: errtable.ExitPermission, Message: fmt.Sprintf("deliver: %s may not deliver to %s", maker, conversation),
				Fix: "deliver to a conversation of " + maker}
		}
	}
	return nil
}

func sourceOf(c *cron.Cron) string { return fmt.Sprint(cronSource, c.ID, "/", entryDigest(c)) }

// deliverCron runs an entry and delivers the text. The delivery is owed before the run, and
// its state is apart from the run's. Without a target, the text stays in its session.
func (d *Daemon) deliverCron(ctx context.Context, c *cron.Cron, run *session.Run) error {
	if err := d.checkDeliver(c); err != nil {
		return errors.Join(d.loaded.Run(ctx, run), err)
	}
	owed := box.Delivery{Source: sourceOf(c), Key: fmt.Sprintf("c%d.%d", c.ID, d.now().Unix()), Session: run.Session.StoredID(), Tell: c.Wake}
	err := d.finish(c.Deliver, owed.Source, true) // an earlier run's work may not have ended
	if err == nil {
		err = d.changeBox(c.Deliver, func(f *box.File) bool {
			f.Owe(owed)
			return true
		})
	}
	if err != nil {
		return err
	}
	run.Request = owed.Key
	err = d.loaded.Run(ctx, run)
	if usage.Refused(err) != nil {
		return errors.Join(err, d.changeBox(c.Deliver, func(f *box.File) bool { return f.EndDelivery(&owed, box.Empty, "") }))
	}
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, d.finishCron(ctx, c.Deliver, owed), d.reaches(c.Deliver))
}

// recoverCrons delivers the texts of cron runs that ended, or were interrupted, when the daemon
// stopped.
func (s *scheduler) recoverCrons(ctx context.Context) {
	for conversation, list := range s.d.owed() {
		for _, o := range list {
			if !strings.HasPrefix(o.Source, cronSource) {
				continue
			}
			s.runs.Go(func() { // until the session's work has ended, or ctx ends
				if err := s.d.finishCron(ctx, conversation, o); err != nil && ctx.Err() == nil {
					s.d.log.Error("deliver the text of a cron entry", "session", o.Session, "conversation", conversation, "error", err)
				}
			})
		}
	}
}

// delivery adds the state of an entry's newest delivery.
func (d *Daemon) delivery(out *op.Cron, c *cron.Cron) {
	if box.DirOf(c.Deliver) == "" {
		return
	}
	f, _ := d.readBox(c.Deliver) // a file that cannot be read has no state
	if o := f.Delivery(sourceOf(c)); o != nil {
		out.Delivery = &op.Delivery{State: string(o.State), Reason: o.Reason, Session: o.Session}
	}
}

// ownConversation returns a session's conversation, to which a sender's entries deliver, or "".
func (d *Daemon) ownConversation(t *agent.Turn, sender string) string {
	c := cron.Cron{Sender: sender, Deliver: d.conversationOf(t.Session.Log.ID(), t.Session.CreatedBy)}
	if d.checkDeliver(&c) != nil {
		return ""
	}
	return c.Deliver
}

// checkDeliveries logs the entries that may not deliver, once per problem: a person may have edited
// the file.
func (s *scheduler) checkDeliveries() {
	refused := make(map[uint64]string)
	for _, c := range s.d.crons.List() {
		if err := s.d.checkDeliver(&c); err != nil {
			if refused[c.ID] = err.Error(); s.refused[c.ID] != err.Error() {
				s.d.log.Warn("a cron entry cannot deliver: its texts stay in their sessions", "cron", c.ID, "error", err)
			}
		}
	}
	s.refused = refused
}
