package crmem_test

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// readStore returns a function that writes an index of the present state of a store,
// with its secrets, as a process that read the store now would do later.
func (p *past) readStore(secret secrets) (write func() bool) {
	p.t.Helper()
	isCurrent, err := crmem.ReadBasis(p.m, "/m.db")
	p.must(err)
	return func() bool {
		written, err := crmem.WriteDerived(p.m, "/m.db", "-index-standard", 10, isCurrent, func(w io.Writer) error {
			for text := range secret {
				if _, err := io.WriteString(w, text); err != nil {
					return err
				}
			}
			return nil
		})
		p.must(err)
		return written
	}
}

// TestPurgeDerived purges an entry of a store with derived files and temporary ones.
func TestPurgeDerived(t *testing.T) {
	p, secret := secretStore(t)
	for _, name := range []string{"/m.db-usage", "/m.db-index-standard", "/.m.db-index-plain12", "/.m.db-usage12"} {
		p.put(name, "third secret")
	}
	p.must(p.m.Mkdir("/m.db-index-plain", 0o700)) // of another program
	if deleted, err := p.s.Purge("a"); err != nil || len(deleted) > 0 {
		t.Fatalf("purge: deleted %q, %v", deleted, err)
	}
	p.wantAbsent(secret)
	p.m = p.m.Crash()
	p.wantAbsent(secret)
}

// TestPurgeExcludesWriters runs, before each call of a purge, a process that read the
// store before the purge and writes its index. It also does so after the purge.
func TestPurgeExcludesWriters(t *testing.T) {
	writes, refused := 0, 0
	for at, hit := 1, true; hit; at++ {
		p, secret := secretStore(t)
		write := p.readStore(secret)
		calls, nested := 0, false
		hit = false
		p.m.Hook = func(faultfs.Call) error {
			if nested {
				return nil
			}
			if calls++; calls == at {
				hit, nested = true, true
				if write() {
					writes++
				} else {
					refused++
				}
				nested = false
			}
			return nil
		}
		_, err := p.s.Purge("a")
		p.m.Hook = nil
		p.must(err)
		if write() {
			t.Errorf("call %d: a process wrote the index of a state before the purge", at)
		}
		p.wantAbsent(secret)
	}
	if writes < 5 || refused < 20 {
		t.Errorf("%d indexes were written during a purge, %d were not", writes, refused)
	}
}

// TestPurgeDuringWrite purges before each call of a process that read the store before
// the purge and writes its index. The purge waits for the writer, here for no time.
func TestPurgeDuringWrite(t *testing.T) {
	defer crmem.SetDerivedWait(0)()
	purged, waited := 0, 0
	for at, hit := 1, true; hit; at++ {
		p, secret := secretStore(t)
		write := p.readStore(secret)
		calls := 0
		hit = false
		p.m.Hook = func(c faultfs.Call) error {
			if calls++; calls != at {
				return nil
			}
			hit = true
			switch _, err := p.s.Purge("a"); {
			case err == nil:
				purged++
				p.wantAbsent(secret)
			case errors.Is(err, vfs.ErrLocked):
				t.Errorf("call %d, %s: a removed entry is reported as not removed: %v", at, c.Op, err)
			default:
				waited++
			}
			return nil
		}
		written := write()
		p.m.Hook = nil
		if _, err := p.s.Purge("a"); err != nil && !errors.Is(err, crmem.ErrNotFound) {
			t.Errorf("the next purge: %v", err)
		}
		if p.wantAbsent(secret); write() {
			t.Errorf("call %d: written after the purge; before: %v", at, written)
		}
		if _, err := p.m.Lstat("/m.db-purge"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("call %d: the purge is not complete: %v", at, err)
		}
	}
	if purged < 1 || waited < 8 {
		t.Errorf("%d purges were complete, %d had to wait", purged, waited)
	}
}
