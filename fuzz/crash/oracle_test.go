package crash

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/checkpoint"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/refdec"
)

// judge opens crash states and caches the results.
type judge struct {
	opts  crmem.Options // FS, Now and Warn are set by open
	again uint64        // crash during the recovery of every so-manieth image, too; 0 = of none

	seen    crashtest.Memo[uint64, uint64]   // fingerprint of the recovered state, by image
	seen2   crashtest.Memo[uint64, struct{}] // images of crashes during recovery
	deaths  atomic.Int64                     // killed processes, whose page cache lives on
	torn    atomic.Int64                     // torn tails that were kept
	decoded atomic.Int64                     // recoveries that the other decoder agreed to
	folded  atomic.Int64                     // snapshots that the other decoder read after a checkpoint
	written atomic.Int64                     // writes after a recovery that survived a second crash
	bad     atomic.Int64
}

func newJudge(literal bool) *judge {
	return &judge{opts: crmem.Options{Literal: literal, CheckpointOnClose: checkpoint.Never}}
}

const epoch = 1_800_000_000 // of the clock that stores see, in seconds

func (j *judge) open(m *vfs.Mem, now uint64, warn func(string)) (*crmem.Store, error) {
	if m.Hook == nil {
		m.Hook = crashtest.NoReserve
	}
	o := j.opts
	o.FS = m
	o.Now = func() time.Time { return time.Unix(int64(now), 0) }
	o.Warn = warn
	return crmem.Open(db, &o)
}

// crashed judges a machine after a power cut: it must recover to one of the
// states. An image that was seen before is not recovered again.
func (j *judge) crashed(m *vfs.Mem, want []version) error {
	image := imageOf(m)
	print, ok := j.seen.Get(image)
	if !ok {
		got, err := j.recover(m, image)
		if err != nil {
			return err
		}
		print = got.print
		j.seen.Put(image, print)
		if !among(got.print, want) {
			return wrong("recovered %v\nwant one of %v", got, want)
		}
	}
	if !among(print, want) {
		return wrong("recovered another state (seen before)\nwant one of %v", want)
	}
	return nil
}

func among(print uint64, want []version) bool {
	return slices.ContainsFunc(want, func(v version) bool { return v.print == print })
}

// recover opens the image of a crash, and checks the rules that hold for every
// recovery (I3 to I6, I9).
func (j *judge) recover(m *vfs.Mem, image uint64) (version, error) {
	before := m.Kill()
	var warnings []string
	s, err := j.open(m, epoch, func(line string) {
		// The first log of a store follows its identity. A crash between the two
		// leaves what the removal of a log leaves.
		if !strings.Contains(line, "is missing, but the identity file") || read(before, wal) != nil {
			warnings = append(warnings, line)
		}
	})
	if err != nil {
		return version{}, wrong("open: %v", err) // I3
	}
	got := stateOf(s)
	if image%4 == 0 {
		// The other decoder reads the same, and finds the same tear.
		ref, verdict, err := reference(before)
		if err != nil {
			return got, wrong("the other decoder: %v", err)
		}
		if got.print != ref.print || verdict == "rotten" || verdict == "foreign" || (verdict == "torn") != (len(warnings) > 0) {
			return got, wrong("the store recovered %v, telling %q\nthe other decoder %v (%s)", got, warnings, ref, verdict)
		}
		j.decoded.Add(1)
	}
	// Opening creates no missing store, and removes no other files.
	if names := strays(m); len(names) > 0 && read(before, db) != nil {
		return got, wrong("unexpected files: %q", names) // I9
	}
	if err := j.loud(before, m, got, warnings); err != nil {
		return got, err // I4
	}

	// I5: after a recovery no recovery is needed. The second link of the log is
	// not synced, so a crash may leave an older one, which the next writer
	// replaces.
	const held = "memory.db-wal.held"
	recovered := m.Crash()
	settled := imageWithout(recovered, held)
	s2, err := j.open(recovered, epoch, nil)
	if err != nil {
		return got, wrong("second open: %v", err)
	}
	if now := stateOf(s2); now.print != got.print {
		return got, wrong("recovered %v\nand then %v", got, now)
	}
	if read(before, db) != nil && imageWithout(recovered.Crash(), held) != settled {
		return got, wrong("a second recovery changed the files")
	}
	switch {
	case image%8 == 0:
		if err := j.goesOn(s, m, got); err != nil {
			return got, err
		}
	case image%8 == 1:
		if err := j.readable(s, m, got); err != nil {
			return got, err
		}
	}
	if j.again > 0 && image%j.again == 0 {
		return got, j.crashAgain(before, got)
	}
	return got, nil
}

// reference reads an image with the other decoder.
func reference(m *vfs.Mem) (version, string, error) {
	file, log := read(m, db), read(m, wal)
	if file == nil {
		if log != nil {
			return version{}, "", errors.New("a log without its snapshot")
		}
		return newVersion(1, nil), "clean", nil
	}
	verdict := "clean"
	var s *refdec.Store
	var err error
	if log == nil {
		s, err = refdec.Snapshot(file)
	} else {
		s, verdict, _, err = refdec.Recover(file, log)
	}
	if err != nil {
		return version{}, verdict, err
	}
	return fromReference(s), verdict, nil
}

func fromReference(s *refdec.Store) version {
	var entries []crmem.Entry
	for _, e := range s.Entries {
		entries = append(entries, crmem.Entry{ID: e.ID, Name: e.Name, Kind: crmem.Kind(e.Kind), CreatedAt: e.CreatedAt, Content: e.Content, Aliases: e.Aliases})
	}
	return newVersion(s.NextID, entries)
}

// loud checks that removed bytes are reported and kept, that no other bytes
// are, and that the rest is the complete recovered state.
func (j *judge) loud(before, after *vfs.Mem, got version, warnings []string) error {
	had, has := torn(before), torn(after)
	log := read(before, wal)
	if len(warnings) == 0 {
		if !maps.Equal(had, has) {
			return wrong("kept bytes without a report")
		}
		return nil
	}
	var name, rest string
	var n, at int
	if _, err := fmt.Sscanf(warnings[0], "%s moved a torn tail of %d bytes at offset %d %s", &name, &n, &at, &rest); err != nil || len(warnings) > 1 {
		return wrong("told %q: %v", warnings, err)
	}
	if at+n != len(log) || n == 0 {
		return wrong("reported %d bytes at %d, the log has %d", n, at, len(log))
	}
	if !slices.Contains(slices.Collect(maps.Values(has)), string(log[at:])) || len(has) > len(had)+1 {
		return wrong("%d bytes were cut, kept are %d files", n, len(has))
	}
	if !maps.Equal(torn(after.Crash()), has) {
		return wrong("the kept bytes are not durable")
	}
	j.torn.Add(1)
	return nil
}

// goesOn writes to a recovered store and crashes again.
func (j *judge) goesOn(s *crmem.Store, m *vfs.Mem, got version) error {
	op := crmem.Add{Name: "after", Content: text(20, 0)}
	want, err := got.apply(epoch, op)
	if err != nil {
		return wrong("model: %v", err)
	}
	if err := s.Apply(op); err != nil {
		return wrong("write after a recovery: %v", err)
	}
	c := m.Crash()
	s, err = j.open(c, epoch, nil)
	if err != nil {
		return wrong("open after a recovery, a write and a crash: %v", err)
	}
	if now := stateOf(s); now.print != want.print {
		return wrong("after a recovery, a write and a crash: %v\nwant %v", now, want)
	}
	j.written.Add(1)
	return nil
}

// readable checkpoints a recovered store: then the file alone is the store.
func (j *judge) readable(s *crmem.Store, m *vfs.Mem, got version) error {
	if err := s.Checkpoint(); err != nil {
		return wrong("checkpoint after a recovery: %v", err)
	}
	file := read(m.Crash(), db)
	if file == nil && got.print == newVersion(1, nil).print {
		return nil // nothing was ever written
	}
	ref, err := refdec.Snapshot(file)
	if err != nil {
		return wrong("the other decoder, after a checkpoint: %v", err)
	}
	if now := fromReference(ref); now.print != got.print {
		return wrong("the file has %v\nthe store %v", now, got)
	}
	j.folded.Add(1)
	return nil
}

// crashAgain recovers an image and crashes at each call of the recovery. The
// next recovery must give the same state.
func (j *judge) crashAgain(image *vfs.Mem, want version) error {
	m := image.Kill()
	crash := crashtest.Recovery{Limit: 6, Idle: idle, Image: imageOf, Seen: &j.seen2,
		Check: func(m *vfs.Mem, image uint64) error {
			before := m.Kill()
			s, err := j.open(m, epoch, nil)
			if err != nil {
				return fmt.Errorf("open: %w", err)
			}
			if got := stateOf(s); got.print != want.print {
				return fmt.Errorf("%v\nwant %v", got, want)
			}
			if names := strays(m); len(names) > 0 && read(before, db) != nil {
				return fmt.Errorf("unexpected files: %q", names)
			}
			if image%16 != 0 {
				return nil
			}
			if _, verdict, err := reference(before); err != nil || verdict == "rotten" || verdict == "foreign" {
				return fmt.Errorf("the other decoder: %s, %v", verdict, err)
			}
			return nil
		}}
	m.Hook = func(c vfs.Call) error {
		crash.Hook(m, c)
		return crashtest.NoReserve(c)
	}
	if _, err := j.open(m, epoch, nil); err != nil {
		return wrong("open: %v", err)
	}
	return crash.Err
}

// killed checks a machine whose process died: the page cache survives.
func (j *judge) killed(m *vfs.Mem, want []version) error {
	s, err := j.open(m, epoch, nil)
	if err != nil {
		return wrong("open after a kill: %v", err)
	}
	got := stateOf(s)
	if !among(got.print, want) {
		return wrong("after a kill: %v\nwant one of %v", got, want)
	}
	j.deaths.Add(1)
	if got.find("after") >= 0 {
		return nil
	}
	return j.goesOn(s, m, got)
}
