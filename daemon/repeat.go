package daemon

import (
	"cmp"
	"encoding/hex"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/memtool"
	"crabmem/daemon/once"
	"crabmem/daemon/space"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// changing are the operations without a row that may be repeated with a key.
var changing = map[protoreflect.Name]bool{
	"remember": true, "forget": true, "alias": true, "apply": true, "undo": true,
}

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

// identified returns the key and the digest of the request.
func (r *request) identified(o *pb.Once) (key, sum string, err error) {
	if n := len(o.GetKey()); n == 0 || n > maxOnce || len(o.GetSum()) == 0 || len(o.GetSum()) > maxOnceSum {
		return "", "", errtable.Invalidf("once: want a key of 1 to %d bytes, and a digest of 1 to %d bytes", maxOnce, maxOnceSum)
	}
	return once.KeyOf(r.as.Name, o.GetKey()), hex.EncodeToString(o.GetSum()), nil
}

var errRepeated = &errtable.Error{HTTP: http.StatusConflict, Kind: "repeated", Exit: errtable.ExitConflict,
	Message: "the request has had its effect", Fix: "read what it did with the operation outcome"}

// doOnce calls answer, unless a request with the same key has had its effect.
func (d *Daemon) doOnce(r *request, m *pb.ClientMessage, answer func() error) error {
	key, sum, err := r.identified(m.GetOnce())
	if err != nil {
		return err
	}
	d.checkRepeats()
	r.by.Op = m.GetOnce().GetKey()
	in := cmp.Or(m.GetSpace(), r.as.Space, space.Main)
	var failed error
	before, err := d.repeats.Do(r.ctx, r.as.Name, key, sum, in, func(before once.Record) (*once.Effect, bool) {
		if e := d.pastEffect(before); e != nil {
			failed = errRepeated
			return e, false
		}
		failed = answer()
		if r.effect != nil && r.effect.Space == "" {
			r.effect.Space = in
		}
		return r.effect, failed != nil && message(failed).Kind == "outcome_unknown"
	})
	if err == nil && before.State == once.Done {
		return errRepeated
	}
	return cmp.Or(err, failed)
}

// wrote records the entry that the request wrote. An ID of 0 is no entry.
func (r *request) wrote(e *crmem.Entry) {
	if e.ID != 0 {
		r.effect = &once.Effect{Entry: e.ID, ETag: memtool.ETag(e)}
	}
}

// removed records the entry that the request removed.
func (r *request) removed(id uint64) {
	if id != 0 {
		r.effect = &once.Effect{Entry: id}
	}
}

// applied records the effect of a batch: the last entry that it wrote or, if it wrote none,
// the last one of its conditions.
func (r *request) applied(ops []crmem.Op, wrote []crmem.Entry) {
	var last crmem.Entry
	changes := false
	for _, op := range ops {
		if u, ok := op.(crmem.Unchanged); ok {
			last = u.Entry
		}
		changes = changes || memtool.Changes(op)
	}
	switch {
	case len(wrote) > 0:
		r.wrote(&wrote[len(wrote)-1])
	case changes:
		r.removed(last.ID)
	default:
		r.wrote(&last)
	}
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
					e.ETag = memtool.ETag(&c.After)
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

// outcome answers with what the request with a key did.
func (d *Daemon) outcome(r *request, m *pb.ClientMessage) error {
	key, sum, err := r.identified(m.GetOnce())
	if err != nil {
		return err
	}
	d.checkRepeats()
	record, err := d.repeats.Find(r.ctx, key, sum)
	if err != nil {
		return err
	}
	if e := d.pastEffect(record); e != nil {
		d.repeats.Complete(record, *e)
		record.State, record.Effect = once.Done, *e
	}
	if record.State != "" && !r.as.Owner && !r.as.Scope.Memory.Reads.Allows(record.Space) {
		return r.as.Refused("read the space %s", record.Space)
	}
	reply := &pb.OutcomeReply{Begun: record.State == once.Begun, Done: record.State == once.Done, Space: record.Space}
	switch {
	case !reply.Done || record.ETag == "":
	case record.Entry == 0:
		reply.Time, err = strconv.ParseInt(record.ETag, 10, 64)
	default:
		err = d.inSpace(record.Space, func(s *crmem.Store) error { return outcomeOf(s, &record, reply) })
	}
	if errors.Is(err, crmem.ErrNoStore) {
		err = once.ErrSpent
	}
	if err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Outcome{Outcome: reply}})
}

// outcomeOf adds the entry after the change of a record: from the history or, if the store
// keeps none, the present entry, if it has not changed.
func outcomeOf(s *crmem.Store, r *once.Record, reply *pb.OutcomeReply) error {
	for c, err := range s.ChangesOfID(r.Entry) {
		if err == nil && isOf(&c, r.Key) && c.Redacted().IsZero() && memtool.ETag(&c.After) == r.ETag {
			reply.Entry, reply.Seq, reply.Time = memtool.Message(c.After, true), c.Seq, nanoseconds(c.Time)
		}
	}
	if reply.Entry != nil {
		return nil
	}
	for e := range s.All() {
		if e.ID == r.Entry && memtool.ETag(&e) == r.ETag {
			reply.Entry = memtool.Message(e, true)
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
			present[memtool.ETag(&e)] = true
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
