package daemon

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"crabmem/daemon/cron"
	"crabmem/daemon/op"
	"crabmem/daemon/usage"
)

const (
	// cronLate is how late an entry may run. Later, as after the machine slept,
	// the run counts as missed.
	cronLate = time.Minute
	// cronLook is the interval of reading the table if no entry is due. It
	// detects edits of the file.
	cronLook = time.Minute
)

// schedule is the state of an entry between its runs.
type schedule struct {
	cron     cron.Cron
	due      time.Time
	missed   time.Time // due time of a missed run that is still to start, or when a limit permits the run; or zero
	started  time.Time // the last start
	running  bool
	failures int
}

// scheduler fires the entries of the table, in the goroutine of Serve.
type scheduler struct {
	d    *Daemon
	wake chan struct{} // something was changed

	mu      sync.Mutex
	entries map[uint64]*schedule
	stored  map[uint64]cronStart // of entries that are not in entries yet
	late    bool                 // a missed run is active
	unsaved bool                 // the file of starts lacks an entry
	warned  []cron.Warning       // as logged last
	refused map[uint64]string    // why an entry may not deliver, as logged last
	runs    sync.WaitGroup
}

func newScheduler(d *Daemon) *scheduler {
	s := &scheduler{d: d, wake: make(chan struct{}, 1), entries: make(map[uint64]*schedule), stored: d.readCronStarts()}
	s.warn()
	if all := s.unrestricted(); len(all) > 0 {
		d.log.Warn("cron entries run all commands without approval", "crons", all,
			"fix", `crabmem sessions show lists the commands of an entry's session; to restrict an entry, remove approve = "off" in crons.toml`)
	}
	return s
}

// unrestricted returns the IDs of the entries whose runs need no approval for any
// command.
func (s *scheduler) unrestricted() (ids []uint64) {
	for _, c := range s.d.crons.List() {
		if c.Approve == cron.AnyCommand {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// warn logs unused entries, once per problem.
func (s *scheduler) warn() {
	all := s.d.crons.Warnings()
	for _, w := range all {
		if !slices.Contains(s.warned, w) {
			s.d.log.Warn("ignored an entry of crons.toml", "warning", w.String())
		}
	}
	s.warned = all
}

// changed has the table looked at again.
func (s *scheduler) changed() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// reset restarts entries that were stopped, or that a limit delays.
func (s *scheduler) reset() {
	now := s.wall()
	s.mu.Lock()
	for _, e := range s.entries {
		if s.count(e, 0); e.missed.After(now) {
			e.missed = now
		}
	}
	s.mu.Unlock()
	s.changed()
}

// count sets how often in a row an entry failed, also in its file: a restart does not
// start a stopped entry, unless it is of a workspace. The caller holds mu.
func (s *scheduler) count(e *schedule, n int) {
	if e.failures = n; e.cron.Workspace != "" {
		return
	}
	if err := s.d.crons.SetFailures(e.cron.ID, n); err != nil {
		s.d.log.Warn("store the failures of a cron entry", "cron", e.cron.ID, "error", err)
	}
}

// state adds the state of an entry's runs.
func (s *scheduler) state(c *op.Cron) {
	var entry cron.Cron
	s.mu.Lock()
	if e := s.entries[c.ID]; e != nil {
		c.Failures, entry = e.failures, e.cron
	}
	s.mu.Unlock()
	s.d.delivery(c, &entry)
	c.Stopped = c.Failures >= cron.MaxFailures
}

// run fires entries when they are due, until ctx ends; then it waits for the
// runs, which end with it.
func (s *scheduler) run(ctx context.Context) {
	var last time.Time
	defer func() {
		s.runs.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.store(last)
	}()
	s.recoverCrons(ctx)
	for look := false; ; {
		now := s.wall()
		if now.Before(last.Add(-cronLate)) {
			s.d.log.Warn("clock set back: crons follow the new time", "by", last.Sub(now).Round(time.Second).String())
			s.replan()
		}
		last = now
		s.warn()
		s.checkDeliveries()
		s.plan(now) // entries that were removed do not run
		s.fire(ctx, now)
		if look {
			if err := s.d.crons.Reload(); err != nil {
				s.d.log.Warn("crons.toml", "error", err)
			}
		}
		next := s.plan(now)
		timer := time.NewTimer(min(next.Sub(now), cronLook))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
			timer.Stop()
			look = false
		case <-timer.C:
			look = true
		}
	}
}

// wall returns the wall-clock time, which may be set.
func (s *scheduler) wall() time.Time { return s.d.now().Round(0) }

// replan forgets when entries are due.
func (s *scheduler) replan() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		e.due = time.Time{}
	}
}

// plan brings the entries up to date with the table, and returns when the first
// is due.
func (s *scheduler) plan(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := now.Add(cronLook)
	seen := make(map[uint64]bool)
	for _, c := range append(s.d.crons.List(), s.d.workspaceCrons()...) {
		seen[c.ID] = true
		e := s.entries[c.ID]
		if e == nil {
			e = s.add(c, now)
		} else if e.cron.Schedule != c.Schedule || e.cron.Timezone != c.Timezone {
			*e = schedule{cron: c, running: e.running, started: e.started}
			s.count(e, 0)
			c.Failures = 0
		} else if e.cron.Failures != c.Failures { // the file was edited
			e.failures = c.Failures
		}
		e.cron = c
		if e.due.IsZero() {
			loc, err := c.Location()
			if err == nil {
				e.due, err = cron.Next(c.Schedule, now, loc)
			}
			if err != nil {
				e.due = now.Add(24 * time.Hour) // it was valid when it was read
				s.d.log.Warn("cron entry has no next run", "cron", c.ID, "error", err)
			}
		}
		if e.due.Before(next) {
			next = e.due
		}
	}
	for id := range s.entries {
		if !seen[id] {
			delete(s.entries, id)
		}
	}
	return next
}

// add adds an entry of the table, with the run that it missed while the daemon was
// stopped. The caller holds mu.
func (s *scheduler) add(c cron.Cron, now time.Time) *schedule {
	e := &schedule{cron: c, failures: c.Failures}
	s.entries[c.ID] = e
	if old := s.stored[c.ID]; old.Entry == entryDigest(&c) {
		e.started, e.missed = old.Started, old.Missed
		if e.missed.Before(now.Add(-s.d.setup().config.Cron.CatchUp)) {
			e.missed = s.missed(&c, old.Checked, now)
		}
	} else {
		s.unsaved = true
	}
	return e
}

// missed returns the first run of an entry that was due after a time, until now, if it is
// recent enough to start late; otherwise the zero time. Runs in the quiet hours do
// not count.
func (s *scheduler) missed(c *cron.Cron, after, now time.Time) time.Time {
	first := now.Add(-s.d.setup().config.Cron.CatchUp)
	if after.Before(first) {
		after = first
	}
	if due, err := c.Next(after); err == nil && !due.After(now) {
		return due
	}
	return time.Time{}
}

// store stores the last start of each entry, and until when its runs are not missed. The
// caller holds mu.
func (s *scheduler) store(now time.Time) {
	starts := make(map[uint64]cronStart)
	for id, e := range s.entries {
		starts[id] = cronStart{entryDigest(&e.cron), e.started, now, e.missed}
	}
	s.d.writeCronStarts(starts)
	s.unsaved = false
}

// fire starts the entries that are due, and one that missed a run.
func (s *scheduler) fire(ctx context.Context, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.entries {
		if e.due.After(now) {
			continue
		}
		due := e.due
		e.due = time.Time{}
		log := s.d.log.With("cron", id, "skill", e.cron.Skill, "due", due.Format(time.RFC3339))
		switch {
		case now.Sub(due) > cronLate:
			if e.missed = s.missed(&e.cron, due.Add(-time.Second), now); e.missed.IsZero() {
				log.Warn("skipped a missed run of a cron entry", "late", now.Sub(due).Round(time.Second).String())
			}
			continue
		case e.cron.Quiet(due):
			continue // RFC 0080: silently
		case e.running:
			log.Warn("skipped a cron entry: its previous run is still active")
			continue
		case e.failures >= cron.MaxFailures || e.missed.After(now): // a limit delays it
			continue
		}
		s.start(ctx, e, now, log, false)
	}
	s.catchUp(ctx, now)
	if s.unsaved {
		s.store(now)
	}
}

// catchUp starts the oldest missed run, unless another one is active, or the quiet hours
// of the entry are now. The caller holds mu.
func (s *scheduler) catchUp(ctx context.Context, now time.Time) {
	var first *schedule
	for id, e := range s.entries {
		switch {
		case e.missed.IsZero() || e.missed.After(now):
		case now.Sub(e.missed) > max(s.d.setup().config.Cron.CatchUp, 2*cronLook):
			s.d.log.Warn("skipped a missed run of a cron entry", "cron", id, "skill", e.cron.Skill, "due", e.missed.Format(time.RFC3339))
			e.missed = time.Time{}
		case e.running || e.failures >= cron.MaxFailures || e.cron.Quiet(now):
		case first == nil || e.missed.Before(first.missed) || e.missed.Equal(first.missed) && e.cron.ID < first.cron.ID:
			first = e
		}
	}
	if first == nil || s.late {
		return
	}
	log := s.d.log.With("cron", first.cron.ID, "skill", first.cron.Skill, "missed", first.missed.Format(time.RFC3339))
	s.late = s.start(ctx, first, now, log, true)
}

// start starts a run of an entry. Before that, it stores the start, and removes a
// one-time entry: after a crash, such an entry does not run a second time. The caller
// holds mu.
func (s *scheduler) start(ctx context.Context, e *schedule, now time.Time, log *slog.Logger, late bool) bool {
	c := e.cron
	e.missed = time.Time{}
	if c.Once {
		if err := s.d.crons.Delete(c.ID); err != nil {
			log.Warn("remove one-time cron entry: it does not run", "error", err)
			return false
		}
		delete(s.entries, c.ID)
	}
	e.running, e.started = true, now
	s.store(now)
	s.runs.Go(func() {
		err := s.d.runCron(ctx, c)
		s.ended(c, err, late)
		if limit := usage.Refused(err); limit != nil {
			log.Info("a limit delays a cron entry", "until", limit.Until.Format(time.RFC3339))
		} else if err != nil {
			log.Warn("cron entry failed", "error", err)
		} else {
			log.Info("cron entry ran")
		}
	})
	return true
}

// ended records the result of a run. late is set if it was a missed one: then the next
// may start.
func (s *scheduler) ended(c cron.Cron, err error, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if late {
		s.late = false
		s.changed()
	}
	limit := usage.Refused(err)
	if limit != nil && c.Once { // a crash before this loses the entry
		if c, err = s.d.crons.Create(c); err != nil {
			s.d.log.Warn("restore a one-time cron entry that a limit refused: it does not run", "error", err)
		}
		s.entries[c.ID] = &schedule{cron: c}
	}
	if e := s.entries[c.ID]; e != nil {
		if e.running = false; limit != nil {
			e.missed, s.unsaved = limit.Until, true
			s.changed()
		} else if err == nil {
			s.count(e, 0)
		} else if s.count(e, e.failures+1); e.failures == cron.MaxFailures {
			s.d.log.Warn("stopped a cron entry after repeated failures; reload the configuration to start it again", "cron", c.ID, "failures", e.failures)
		}
	}
}
