package crash

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/refdec"
)

// oracle recovers crash states, checks them, and caches the results.
type oracle struct {
	opts         crmem.Options // open sets FS, Now, and Warn
	recrashEvery uint64        // crash during the recovery of every n-th image, too; 0: never

	scenes       crashtest.Memo[string, scene]
	seen         crashtest.Memo[uint64, result]   // recovered content and past, by image
	seen2        crashtest.Memo[uint64, struct{}] // images of crashes during a recovery
	kills        atomic.Int64                     // checked states after a kill
	torn         atomic.Int64                     // torn tails in quarantine files
	decoded      atomic.Int64                     // recoveries that equal those of the reference decoder
	checkpointed atomic.Int64                     // checkpoints whose snapshot the reference decoder read
	changes      atomic.Int64                     // changes in recovered histories
	purges       atomic.Int64                     // purges that a recovery completed
	compressed   atomic.Int64                     // recovered histories with a compressed segment
	written      atomic.Int64                     // writes after a recovery that survived a second crash
	bad          atomic.Int64                     // violations
}

func newOracle(literal bool) *oracle {
	return &oracle{opts: crmem.Options{Literal: literal, CheckpointOnClose: crmem.CheckpointNever}}
}

const epoch = 1_800_000_000 // start of the clock of stores, in Unix seconds

// open opens the store of m at a given time, in Unix seconds. warn may be nil.
func (j *oracle) open(m *faultfs.Mem, now uint64, warn func(string)) (*crmem.Store, error) {
	if m.Hook == nil {
		m.Hook = crashtest.NoReserve
	}
	o := j.opts
	o.FS = m
	o.Now = func() time.Time { return time.Unix(int64(now), 0) }
	o.Warn = warn
	return crmem.Open(db, &o)
}

// crashed checks a machine after a power cut. The store must recover to a state in
// want. crashed recovers each distinct image once.
func (j *oracle) crashed(m *faultfs.Mem, want []version) error {
	if err := checkGone(m, want[0].gone); err != nil { // acknowledged
		return err
	}
	image := imageOf(m)
	found, ok := j.seen.Get(image)
	if !ok {
		got, err := j.recover(m, image, want)
		if err != nil {
			return err
		}
		found = got.result()
		j.seen.Put(image, found)
		if !among(found, want) {
			return wrong("recovered %v\nwant one of %v", got, want)
		}
	}
	if !among(found, want) {
		return wrong("recovered another state (cached)\nwant one of %v", want)
	}
	return nil
}

// among reports whether want contains a state with this result.
func among(r result, want []version) bool {
	return slices.ContainsFunc(want, func(v version) bool { return v.matches(r) })
}

// recover opens a crash state, checks the rules for every recovery (I3 to I6, I9),
// and returns the recovered state.
func (j *oracle) recover(m *faultfs.Mem, image uint64, want []version) (version, error) {
	before := m.Kill()
	var warnings []string
	deleted := false
	s, err := j.open(m, epoch, func(line string) {
		// A new store writes the identity file before the first log. A crash
		// between the two looks like a removed log.
		switch {
		case strings.Contains(line, "is missing, but the identity file") && read(before, wal) == nil:
		case strings.HasPrefix(line, "completed a purge"):
			j.purges.Add(1)
		case strings.HasPrefix(line, "deleted ") && strings.Contains(line, tornSuffix):
			deleted = true // the torn tail, by a purge
		default:
			warnings = append(warnings, line)
		}
	})
	if err != nil {
		return version{}, wrong("open: %v", err) // I3
	}
	got, err := pastOf(s)
	if err != nil {
		return got, err
	}
	j.changes.Add(int64(len(got.past)))
	if len(crashtest.Files(m, db+"-history", func(name string) bool { return strings.HasSuffix(name, ".log.zst") })) > 0 {
		j.compressed.Add(1)
	}
	if want[1].matches(got.result()) && !want[0].matches(got.result()) {
		if err := checkGone(m, want[1].gone); err != nil { // also after a crash during the purge
			return got, err
		}
	}
	if image%4 == 0 {
		// The reference decoder must find the same state and the same tear.
		ref, verdict, err := reference(before)
		if err != nil {
			return got, wrong("reference decoder: %v", err)
		}
		if got.print != ref.print || verdict == "rotten" || verdict == "foreign" || (verdict == "torn") != (len(warnings) > 0) {
			return got, wrong("the store recovered %v with warnings %q\nthe reference decoder recovered %v (%s)", got, warnings, ref, verdict)
		}
		j.decoded.Add(1)
	}
	// Open must remove temporary files, unless the store is missing.
	if names := strays(m); len(names) > 0 && read(before, db) != nil {
		return got, wrong("unexpected files: %q", names) // I9
	}
	if !deleted {
		if err := j.checkQuarantine(before, m, got, warnings); err != nil {
			return got, err // I4
		}
	}

	// I5: after a recovery, another recovery changes no file. The second link of
	// the log is an exception. It is not synced, so a crash may leave an older
	// link, which the next writer replaces.
	const held = "memory.db-wal.held"
	recovered := m.Crash()
	settled := crashtest.StoreImage(recovered, dir, held)
	s2, err := j.open(recovered, epoch, nil)
	if err != nil {
		return got, wrong("second open: %v", err)
	}
	if now := stateOf(s2); now.print != got.print {
		return got, wrong("recovered %v\na second recovery recovered %v", got, now)
	}
	if read(before, db) != nil && crashtest.StoreImage(recovered.Crash(), dir, held) != settled {
		return got, wrong("a second recovery changed the files")
	}
	switch {
	case image%8 == 0:
		if err := j.writeAgain(s, m, got); err != nil {
			return got, err
		}
	case image%8 == 1:
		if err := j.checkpoint(s, m, got); err != nil {
			return got, err
		}
	}
	if j.recrashEvery > 0 && image%j.recrashEvery == 0 {
		return got, j.crashAgain(before, got)
	}
	return got, nil
}

// pastOf returns the content of a store and its changes. The last change must lead to
// the content.
func pastOf(s *crmem.Store) (version, error) {
	got := stateOf(s)
	var past []change
	var last uint64
	for c, err := range s.Changes() {
		if err != nil {
			return got, wrong("history after change %d: %v", last, err)
		}
		one := newChange(c.Time.Unix(), c.Before, c.After)
		one.redacted = !c.BeforeRedacted.IsZero()
		past = append(past, one)
		last = c.Seq
	}
	got = got.then(got.next, got.entries, past)
	if last == 0 {
		return got, nil
	}
	sn, err := s.At(crmem.Point{Seq: last})
	if err != nil {
		return got, wrong("history at change %d: %v", last, err)
	}
	if then := newVersion(got.next, slices.Collect(sn.All())); then.print != got.print {
		return got, wrong("the history leads to %v\nthe store has %v", then, got)
	}
	return got, nil
}

// checkGone checks that no file contains one of the texts.
func checkGone(m *faultfs.Mem, texts []string) error {
	if len(texts) == 0 {
		return nil
	}
	paths, err := crashtest.Paths(m, dir)
	if err != nil {
		return nil // the directory does not exist
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "/") {
			continue
		}
		b, err := vfs.ReadFile(m, path, 1<<30)
		if err != nil {
			return err
		}
		if strings.Contains(path, ".log.zst") {
			b = append(b, crashtest.Decompress(b)...)
		}
		for _, text := range texts {
			if bytes.Contains(b, []byte(text)) {
				return wrong("%s contains the purged %q", path, text)
			}
		}
	}
	return nil
}

// reference returns the state of an image and the verdict of the reference decoder.
func reference(m *faultfs.Mem) (version, string, error) {
	file, log := read(m, db), read(m, wal)
	if file == nil {
		if log != nil {
			return version{}, "", errors.New("log without a snapshot")
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

// fromReference converts a store of the reference decoder.
func fromReference(s *refdec.Store) version {
	var entries []crmem.Entry
	for _, e := range s.Entries {
		entries = append(entries, crmem.Entry{ID: e.ID, Name: e.Name, Kind: crmem.Kind(e.Kind), CreatedAt: crmem.UnixTime(e.CreatedAt), Content: e.Content, Aliases: e.Aliases})
	}
	return newVersion(s.NextID, entries)
}

// checkQuarantine checks that each byte that recovery removed is reported and in a
// durable quarantine file, and that no other bytes are.
func (j *oracle) checkQuarantine(before, after *faultfs.Mem, got version, warnings []string) error {
	had, has := torn(before), torn(after)
	log := read(before, wal)
	if len(warnings) == 0 {
		if !maps.Equal(had, has) {
			return wrong("new quarantine file without a warning")
		}
		return nil
	}
	var name, rest string
	var n, at int
	if _, err := fmt.Sscanf(warnings[0], "%s moved a torn tail of %d bytes at offset %d %s", &name, &n, &at, &rest); err != nil || len(warnings) > 1 {
		return wrong("unexpected warnings %q: %v", warnings, err)
	}
	if at+n != len(log) || n == 0 {
		return wrong("reported a torn tail of %d bytes at %d, but the log has %d bytes", n, at, len(log))
	}
	if !slices.Contains(slices.Collect(maps.Values(has)), string(log[at:])) || len(has) > len(had)+1 {
		return wrong("torn tail of %d bytes is not in one new quarantine file; found %d files", n, len(has))
	}
	if !maps.Equal(torn(after.Crash()), has) {
		return wrong("the quarantine file is not durable")
	}
	j.torn.Add(1)
	return nil
}

// writeAgain writes to a recovered store, cuts the power, and checks the next
// recovery.
func (j *oracle) writeAgain(s *crmem.Store, m *faultfs.Mem, got version) error {
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
		return wrong("open after a recovery, a write, and a crash: %v", err)
	}
	if now := stateOf(s); now.print != want.print {
		return wrong("after a recovery, a write, and a crash: %v\nwant %v", now, want)
	}
	j.written.Add(1)
	return nil
}

// checkpoint checkpoints a recovered store. The snapshot alone must then contain the
// state.
func (j *oracle) checkpoint(s *crmem.Store, m *faultfs.Mem, got version) error {
	if err := s.Checkpoint(); err != nil {
		return wrong("checkpoint after a recovery: %v", err)
	}
	file := read(m.Crash(), db)
	if file == nil && got.print == newVersion(1, nil).print {
		return nil // the store is empty and has no file
	}
	ref, err := refdec.Snapshot(file)
	if err != nil {
		return wrong("reference decoder after a checkpoint: %v", err)
	}
	if now := fromReference(ref); now.print != got.print {
		return wrong("the snapshot has %v\nthe store has %v", now, got)
	}
	j.checkpointed.Add(1)
	return nil
}

// crashAgain recovers an image and crashes at each call of the recovery. Each next
// recovery must return the same state.
func (j *oracle) crashAgain(image *faultfs.Mem, want version) error {
	m := image.Kill()
	crash := crashtest.Recovery{Limit: 6, Idle: idle, Image: imageOf, Seen: &j.seen2,
		Check: func(m *faultfs.Mem, image uint64) error {
			before := m.Kill()
			s, err := j.open(m, epoch, nil)
			if err != nil {
				return fmt.Errorf("open: %w", err)
			}
			if got, err := pastOf(s); err != nil || got.result() != want.result() {
				return fmt.Errorf("%v (%v)\nwant %v", got, err, want)
			}
			if names := strays(m); len(names) > 0 && read(before, db) != nil {
				return fmt.Errorf("unexpected files: %q", names)
			}
			if image%16 != 0 {
				return nil
			}
			if _, verdict, err := reference(before); err != nil || verdict == "rotten" || verdict == "foreign" {
				return fmt.Errorf("reference decoder: %s, %v", verdict, err)
			}
			return nil
		}}
	m.Hook = func(c faultfs.Call) error {
		crash.Hook(m, c)
		return crashtest.NoReserve(c)
	}
	if _, err := j.open(m, epoch, nil); err != nil {
		return wrong("open: %v", err)
	}
	return crash.Err
}

// killed checks a machine after a kill, which the page cache survives.
func (j *oracle) killed(m *faultfs.Mem, want []version) error {
	if err := checkGone(m, want[0].gone); err != nil {
		return err
	}
	s, err := j.open(m, epoch, nil)
	if err != nil {
		return wrong("open after a kill: %v", err)
	}
	got, err := pastOf(s)
	if err != nil {
		return err
	}
	if !among(got.result(), want) {
		return wrong("after a kill: %v\nwant one of %v", got, want)
	}
	j.kills.Add(1)
	if got.find("after") >= 0 {
		return nil
	}
	return j.writeAgain(s, m, got)
}
