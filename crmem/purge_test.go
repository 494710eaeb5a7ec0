package crmem_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// secrets are texts that no file may contain.
type secrets map[string]bool

// keep records the content of every entry, and the digest of the present state, for
// entries with an id.
func (p *past) keep(of map[uint64]secrets) {
	p.t.Helper()
	var dig format.Digest
	_, err := p.s.Snapshot().WriteTo(&dig)
	p.must(err)
	for e := range p.s.All() {
		if of[e.ID] == nil {
			of[e.ID] = secrets{}
		}
		of[e.ID][e.Content] = true
		of[e.ID][string(dig.Append(nil))] = true
	}
}

// wantAbsent checks that no file has a secret.
func (p *past) wantAbsent(list ...secrets) bool {
	p.t.Helper()
	for name, b := range p.copyFiles() {
		if strings.Contains(name, ".log.zst") {
			b += decompressed(b)
		}
		for _, s := range list {
			for secret := range s {
				if secret != "" && strings.Contains(b, secret) {
					p.t.Errorf("%s contains the purged %q", name, secret)
					return false
				}
			}
		}
	}
	return true
}

// wantSums checks that the headers of segments have the record checksums of the
// operations before them.
func (p *past) wantSums() {
	p.t.Helper()
	type place struct {
		epoch format.ID
		seq   uint64
	}
	sums, heads := map[place]uint32{}, map[string]format.Place{}
	for name, b := range p.copyFiles() {
		if !strings.HasPrefix(name, "/m.db-history/") || !strings.Contains(name, ".log") {
			continue
		}
		if strings.HasSuffix(name, ".zst") {
			b = decompressed(b)
		}
		scan, err := format.ScanPrefix([]byte(b))
		p.must(err)
		heads[name] = scan.Before
		for i := range scan.Frames {
			sums[place{scan.Epoch, scan.Frames[i].Seq}] = scan.Frames[i].RecordCRC()
		}
	}
	for name, before := range heads {
		if want, ok := sums[place{before.Epoch, before.Seq}]; ok && want != before.CRC {
			p.t.Errorf("%s: prev_crc of operation %d is %x, want %x", name, before.Seq, before.CRC, want)
		}
	}
}

// otherChanges returns the changes of other entries than those of ids.
func (p *past) otherChanges(ids ...uint64) string {
	p.t.Helper()
	var b strings.Builder
	for c, err := range p.s.Changes() {
		p.must(err)
		if !slices.Contains(ids, c.Entry().ID) {
			fmt.Fprintf(&b, "%d %v %s %s %s>%s", c.Seq, c.Time, c.By.Client, c.Type, stateText(c.Before), stateText(c.After))
		}
	}
	return b.String()
}

// TestPurge purges notes of random histories. Afterwards no file of the store has a
// text of the entries or a digest of a state with them, and the changes of all
// other entries are the same as before.
func TestPurge(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	synctest.Test(t, testPurge)
}

func testPurge(t *testing.T) {
	purged, removed := 0, 0
	for seed := range uint64(histories()) {
		r := rand.New(rand.NewPCG(seed, 3))
		p := newSegmented(t, seed)
		of := map[uint64]secrets{}
		for range 3 + r.IntN(20) {
			if r.IntN(10) == 0 && p.s.Len() > 0 {
				p.must(p.s.NewIdentity())
			}
			p.random(r)
			p.keep(of)
		}
		name := []string{"a", "b", "c", "d", "new"}[r.IntN(5)]
		var ids []uint64
		for c, err := range p.s.Changes() {
			p.must(err)
			if e := c.Entry(); c.Type == crmem.ChangeRemove && e.Name == name {
				ids = append(ids, e.ID)
				removed++
			} else if i := slices.Index(ids, e.ID); i >= 0 {
				ids = slices.Delete(ids, i, i+1) // it was restored
			}
		}
		if e, err := p.s.Get(name); err == nil && e.Name == name { // not an alias
			ids = append(ids, e.ID)
		}
		want := p.otherChanges(ids...)
		state := slices.DeleteFunc(slices.Collect(p.s.All()), func(e crmem.Entry) bool { return e.Name == name })
		if deleted, err := p.s.Purge(name); len(ids) == 0 != errors.Is(err, crmem.ErrNotFound) || len(ids) > 0 && err != nil || len(deleted) > 0 {
			t.Fatalf("seed %d: purge %s of %d: %v, deleted %q", seed, name, ids, err, deleted)
		}
		var gone []secrets
		for _, id := range ids {
			gone = append(gone, of[id])
			purged++
		}
		ok := p.wantAbsent(gone...)
		for range 2 {
			if got := p.otherChanges(ids...); got != want {
				t.Fatalf("seed %d: changes after the purge of %d\n%s\nwant\n%s", seed, ids, got, want)
			}
			if got := stateText(slices.Collect(p.s.All())...); got != stateText(state...) {
				t.Fatalf("seed %d: state\n%s\nwant\n%s", seed, got, stateText(state...))
			}
			p.reopen()
		}
		p.wantSums()
		report, err := crmem.Check(p.m, "/m.db", 0)
		if !ok || err == nil && len(report.Problems) > 0 {
			t.Fatalf("seed %d: %+v %v", seed, report, err)
		}
		if len(p.warn) > 0 {
			t.Fatalf("seed %d: warnings %q", seed, p.warn)
		}
	}
	if purged < histories()/3 || removed < histories()/30 {
		t.Errorf("%d entries purged, %d of them removed before", purged, removed)
	}
}

// secretStore returns a store with a purged-to-be note, whose texts are in the
// history, a base, and the log, and its secrets.
func secretStore(t *testing.T) (*past, secrets) {
	p := newPast(t)
	of := map[uint64]secrets{}
	p.do(crmem.Add{Name: "a", Content: "first secret"}, crmem.Add{Name: "b", Content: "known"})
	p.keep(of)
	p.must(p.s.Checkpoint())
	p.forgetHistory()
	p.do(crmem.Update{Name: "a", Content: "second secret"})
	p.keep(of)
	p.must(p.s.Checkpoint())
	p.do(crmem.Update{Name: "a", Content: "third secret"})
	p.keep(of)
	p.warn = nil
	return p, of[1]
}

// forgetHistory removes the files of the history, so that the next fold begins with a
// base of the present snapshot.
func (p *past) forgetHistory() {
	p.t.Helper()
	for _, name := range p.files() {
		p.must(p.m.Remove("/m.db-history/" + name))
	}
}

// TestPurgeFails fails each call of a purge, once or from then on. The answer is then
// an error, and the next open completes the purge if the entry is removed.
func TestPurgeFails(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	synctest.Test(t, testPurgeFails)
}

func testPurgeFails(t *testing.T) {
	failed, resumed := 0, 0
	for i, disk := range []error{syscall.ENOSPC, syscall.EIO} {
		for _, forever := range []bool{false, true} {
			for fail := 1 + i%every(3); ; fail += every(3) {
				p, secret := secretStore(t)
				calls, hit := 0, false
				p.m.Hook = func(faultfs.Call) error {
					calls++
					if hit && !forever || calls < fail {
						return nil
					}
					hit = true
					return disk
				}
				_, err := p.s.Purge("a")
				p.m.Hook = nil
				if err == nil {
					p.wantAbsent(secret)
				} else {
					failed++
				}
				_ = p.s.Close() // the store may have stopped
				p.m = p.m.Crash()
				p.m.Now = func() time.Time { return time.Unix(p.now, 0) }
				p.open()
				_, gone := p.s.Get("a")
				if err == nil && gone == nil {
					t.Errorf("%v at call %d: the purged entry exists", disk, fail)
				}
				if gone != nil && err != nil {
					resumed++
				}
				if gone != nil && !p.wantAbsent(secret) {
					t.Errorf("%v at call %d, %v: the purge said %v", disk, fail, forever, err)
				}
				if _, err := p.s.Get("b"); err != nil {
					t.Errorf("%v at call %d: %v", disk, fail, err)
				}
				if !hit {
					break
				}
			}
		}
	}
	if least := 50 / every(3); failed < least || resumed < least {
		t.Errorf("%d purges failed, %d were completed by the next open", failed, resumed)
	}
}

// TestPurgeFiles purges an entry while other files of the store have its text, or may
// have it.
func TestPurgeFiles(t *testing.T) {
	p, secret := secretStore(t)
	old := p.copyFiles()
	damaged := bytes.Replace([]byte(old["/m.db-history/00000001.log"]), []byte("second"), []byte("sfcond"), 1)
	for name, text := range map[string]string{
		"/m.db.own-1": old["/m.db"], "/m.db-wal.rejoined-0": old["/m.db-wal"], "/m.db-wal.torn-2": "a part of a secret", "/m.db.damaged-0": "x",
		"/.m.db12": old["/m.db"], "/m.db-history/.00000001.log7": old["/m.db-wal"], "/m.db-history/00000002.log": string(damaged),
		"/m.db-history/00000003.log": "no segment", "/other.db.own-1": "other", "/m.db-notes": "other",
	} {
		p.put(name, text)
	}
	deleted, err := p.s.Purge("a")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(deleted)
	want := []string{"/m.db-history/00000002.log from offset", "/m.db-history/00000003.log", "/m.db-wal.rejoined-0", "/m.db-wal.torn-2", "/m.db.damaged-0", "/m.db.own-1"}
	if !slices.EqualFunc(deleted, want, strings.HasPrefix) {
		t.Errorf("deleted %q, want %q", deleted, want)
	}
	p.wantAbsent(secret, secrets{"a part of a secret": true})
	for _, name := range []string{"/other.db.own-1", "/m.db-notes"} {
		if _, err := p.m.Lstat(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.m.Lstat("/m.db-purge"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("file of the purge: %v", err)
	}
}
