package daemon

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/once"
	"crabmem/daemon/op"
)

const (
	maxOnce    = 255 // bytes of a key
	maxOnceSum = 64  // bytes of the digest of a request
)

// openRepeats opens the table of requests that may be repeated.
func (d *Daemon) openRepeats() {
	var err error
	if d.repeats, err = once.Open(d.fs, filepath.Join(d.home, "run", "once.jsonl"), d.now); err != nil {
		d.log.Warn("read the requests that may be repeated: they are forgotten", "error", err)
	}
}

// checkRepeats forgets, once, the records of entries that were purged while no daemon ran,
// or when the daemon continued a purge.
func (d *Daemon) checkRepeats() {
	d.repeatsChecked.Do(func() {
		for _, name := range d.repeats.Spaces() {
			err := d.inSpace(name, func(s *crmem.Store) error { return d.forgetPurged(s, name) })
			if errors.Is(err, crmem.ErrNoStore) {
				err = d.repeats.PurgeSpace(name)
			}
			if err != nil {
				d.log.Warn("check the requests that may be repeated", "space", name, "error", err)
			}
		}
	})
}

// identified returns the key and the digest of a request of an identity.
func identified(as *op.Identity, k *op.OnceKey) (key, sum string, err error) {
	if n := len(k.Key); n == 0 || n > maxOnce || len(k.Sum) == 0 || len(k.Sum) > maxOnceSum {
		return "", "", errtable.Invalidf("once: want a key of 1 to %d bytes, and a digest of 1 to %d bytes", maxOnce, maxOnceSum)
	}
	return once.KeyOf(as.Name, k.Key), hex.EncodeToString(k.Sum), nil
}

var errRepeated = &errtable.Error{HTTP: http.StatusConflict, Kind: "repeated", Exit: errtable.ExitConflict,
	Message: "the request has had its effect", Fix: "read what it did with the operation outcome"}

// doOnce calls answer, unless a request with the same key has had its effect.
func (d *Daemon) doOnce(r *request, answer func() error) error {
	key, sum, err := identified(&r.as, r.Once)
	if err != nil {
		return err
	}
	d.checkRepeats()
	r.By.Op = r.Once.Key
	var failed error
	before, err := d.repeats.Do(r.ctx, r.as.Name, key, sum, r.Space, func(before once.Record) (*once.Effect, bool) {
		if e := d.pastEffect(before); e != nil {
			failed = errRepeated
			return e, false
		}
		failed = answer()
		if r.effect != nil && r.effect.Space == "" {
			r.effect.Space = r.Space
		}
		return r.effect, failed != nil && reported(failed).Kind == "outcome_unknown"
	})
	if err == nil && before.State == once.Done {
		return errRepeated
	}
	return cmp.Or(err, failed)
}

// isOf reports whether a request with a key made a change.
func isOf(c *crmem.Change, key string) bool {
	return c.By.Op != "" && once.KeyOf(c.By.Origin, c.By.Op) == key
}

// pastEffect returns what a request did whose process ended before it recorded that, or
// nil if the history does not contain its change.
func (d *Daemon) pastEffect(r once.Record) (e *once.Effect) {
	if r.State != once.Begun {
		return nil
	}
	err := d.inSpace(r.Space, func(s *crmem.Store) error {
		for c, err := range s.Changes() {
			if err == nil && isOf(&c, r.Key) {
				e = &once.Effect{Space: r.Space, Entry: c.Entry().ID}
				if c.Type != crmem.ChangeRemove {
					e.ETag = op.ETag(&c.After)
				}
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, crmem.ErrNoStore) {
		d.log.Warn("read the history for a repeated request", "space", r.Space, "error", err)
	}
	return e
}

// outcome returns what the request with a key did.
func (d *Daemon) outcome(ctx context.Context, as *op.Identity, in *op.OnceKey) (o op.Outcome, err error) {
	key, sum, err := identified(as, in)
	if err != nil {
		return o, err
	}
	d.checkRepeats()
	record, err := d.repeats.Find(ctx, key, sum)
	if err != nil {
		return o, err
	}
	if e := d.pastEffect(record); e != nil {
		d.repeats.Complete(record, *e)
		record.State, record.Effect = once.Done, *e
	}
	if record.State != "" && !as.Owner && !as.Scope.Memory.Reads.Allows(record.Space) {
		return o, as.Refused("read the space %s", record.Space)
	}
	o = op.Outcome{Begun: record.State == once.Begun, Done: record.State == once.Done, Space: record.Space}
	switch {
	case !o.Done || record.ETag == "" && record.Entry == 0:
	case record.Entry == 0:
		var nanoseconds int64
		nanoseconds, err = strconv.ParseInt(record.ETag, 10, 64)
		o.Time = time.Unix(0, nanoseconds).UTC()
	default:
		err = d.inSpace(record.Space, func(s *crmem.Store) error { return outcomeOf(s, &record, &o) })
	}
	if errors.Is(err, crmem.ErrNoStore) {
		err = once.ErrSpent
	}
	return o, err
}

// outcomeOf adds the entry after the change of a record: from the history or, if the store
// keeps none, the present entry, if it has not changed. A removal has no entry after it.
func outcomeOf(s *crmem.Store, r *once.Record, o *op.Outcome) error {
	for c, err := range s.ChangesOfID(r.Entry) {
		removed := r.ETag == "" && c.Type == crmem.ChangeRemove
		if err == nil && isOf(&c, r.Key) && c.Redacted().IsZero() && (removed || op.ETag(&c.After) == r.ETag) {
			o.Seq, o.Time = c.Seq, c.Time.UTC()
			if !removed {
				o.Entry = &c.After
			}
			if c.Before.ID != 0 {
				o.Before = &c.Before
			}
		}
	}
	if o.Entry != nil || r.ETag == "" {
		return nil
	}
	for e := range s.All() {
		if e.ID == r.Entry && op.ETag(&e) == r.ETag {
			o.Entry = &e
			return nil
		}
	}
	return once.ErrSpent
}

// forgetPurged removes the records of changes that a store no longer contains.
func (d *Daemon) forgetPurged(s *crmem.Store, in string) error {
	records := d.repeats.Records(in)
	if len(records) == 0 {
		return nil
	}
	ids, kept := make([]uint64, len(records)), make(map[string]bool)
	for i := range records {
		ids[i] = records[i].Entry
	}
	for c, err := range s.ChangesOfID(ids...) {
		if err == nil && c.By.Op != "" && c.Redacted().IsZero() {
			kept[once.KeyOf(c.By.Origin, c.By.Op)] = true
		}
	}
	present := make(map[string]bool)
	for e := range s.All() {
		if slices.Contains(ids, e.ID) {
			present[op.ETag(&e)] = true
		}
	}
	var gone []string
	for _, r := range records {
		if !kept[r.Key] && !present[r.ETag] {
			gone = append(gone, r.Key)
		}
	}
	return d.repeats.Purge(gone...)
}
