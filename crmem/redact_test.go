package crmem_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// texts are the expected changes, a line each. The entry of an ID has no content where
// it was text.
func (p *past) texts(id uint64, text string) string {
	p.t.Helper()
	var b strings.Builder
	for c, err := range p.s.Changes() {
		p.must(err)
		redacted := c.Redacted()
		for _, e := range []*crmem.Entry{&c.Before, &c.After} {
			if e.ID == id && e.Content == text && text != "" {
				e.Content = ""
				if e == c.Entry() {
					redacted = time.Unix(p.now, 0)
				}
			}
		}
		fmt.Fprintf(&b, "%d %v %s %s %s>%s%v\n", c.Seq, c.Time, c.By.Client, c.Type, stateText(c.Before), stateText(c.After), redacted.Unix())
	}
	return b.String()
}

// TestRedact redacts texts of random histories. Afterwards no file of the store has the
// text or a digest of a state with it, and every change is as before, without the text.
func TestRedact(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	synctest.Test(t, testRedact)
}

func testRedact(t *testing.T) {
	redacted, current := 0, 0
	for seed := range uint64(histories()) {
		r := rand.New(rand.NewPCG(seed, 7))
		p := newSegmented(t, seed)
		of := map[uint64]secrets{}
		for range 3 + r.IntN(20) {
			if r.IntN(10) == 0 && p.s.Len() > 0 {
				p.must(p.s.NewIdentity())
			}
			p.random(r)
			p.keep(of)
		}
		for range 2 {
			var list []crmem.Change
			for c, err := range p.s.Changes() {
				p.must(err)
				if c.Seq > 0 && c.After.ID != 0 && c.After.Content != "" {
					list = append(list, c)
				}
			}
			isCurrent := func(c crmem.Change) bool {
				return slices.ContainsFunc(slices.Collect(p.s.All()), func(e crmem.Entry) bool { return e.ID == c.After.ID && e.Content == c.After.Content })
			}
			if old := slices.DeleteFunc(slices.Clone(list), isCurrent); len(old) > 0 && r.IntN(4) > 0 {
				list = old
			}
			if len(list) == 0 {
				continue
			}
			c := list[r.IntN(len(list))]
			id, text := c.After.ID, c.After.Content
			state := stateText(slices.Collect(p.s.All())...)
			if isCurrent(c) {
				current++
				if _, err := p.s.Redact(id, c.Seq); !errors.Is(err, crmem.ErrCurrent) {
					t.Fatalf("seed %d: redact the current text: %v", seed, err)
				}
				continue
			}
			redacted++
			p.now++
			want := p.texts(id, text)
			if deleted, err := p.s.Redact(id, c.Seq); err != nil || len(deleted) > 0 {
				t.Fatalf("seed %d: redact change %d: %v, deleted %q", seed, c.Seq, err, deleted)
			}
			for range 2 {
				if got := p.texts(0, ""); got != want {
					t.Fatalf("seed %d: changes after the redaction of %q of entry %d\n%s\nwant\n%s", seed, text, id, got, want)
				}
				if got := stateText(slices.Collect(p.s.All())...); got != state {
					t.Fatalf("seed %d: state\n%s\nwant\n%s", seed, got, state)
				}
				p.reopen()
			}
			alone := true // a batch gives a text to several entries, and a text may begin with another
			for c, err := range p.s.Changes() {
				p.must(err)
				alone = alone && !strings.Contains(c.Before.Content, text) && !strings.Contains(c.After.Content, text) &&
					!slices.Contains(c.Before.Aliases, text) && !slices.Contains(c.After.Aliases, text)
			}
			if alone && !p.wantAbsent(secrets{text: true}) {
				t.Fatalf("seed %d", seed)
			}
			if _, err := p.s.Redact(id, c.Seq); err != nil || p.texts(0, "") != want {
				t.Fatalf("seed %d: redact again: %v", seed, err)
			}
		}
		p.wantSums()
		report, err := crmem.Check(p.m, "/m.db", 0)
		if err == nil && len(report.Problems) > 0 {
			t.Fatalf("seed %d: %+v %v", seed, report, err)
		}
		if len(p.warn) > 0 {
			t.Fatalf("seed %d: warnings %q", seed, p.warn)
		}
	}
	t.Logf("%d texts redacted, %d refused", redacted, current)
	if redacted < histories()/2 || current < histories()/10 {
		t.Errorf("%d texts redacted, %d refused", redacted, current)
	}
}

// TestRedactDigests: no header has the digest of a state with the text, which would
// confirm a guess.
func TestRedactDigests(t *testing.T) {
	p := newPast(t)
	of := map[uint64]secrets{}
	p.do(crmem.Add{Name: "a", Content: "first secret"}, crmem.Add{Name: "b", Content: "known"})
	for i := range 3 {
		p.keep(of)
		p.must(p.s.Checkpoint())
		p.do(crmem.Update{Name: "a", Content: fmt.Sprint("secret ", i)})
	}
	for _, seq := range []uint64{1, 3, 4} {
		if _, err := p.s.Redact(1, seq); err != nil {
			t.Fatal(err)
		}
	}
	if len(of[1]) != 6 {
		t.Fatalf("%d secrets", len(of[1]))
	}
	p.wantAbsent(of[1])
}

// TestRedactRefusals covers the errors of Redact, and of Undo for a redacted text.
func TestRedactRefusals(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a", Content: "one"})
	p.do(crmem.Update{Name: "a", Content: "two"})
	p.do(crmem.Remove{Name: "a"})
	for _, c := range []struct {
		id, seq uint64
		want    error
	}{{1, 0, crmem.ErrNotFound}, {1, 3, crmem.ErrNotFound}, {1, 4, crmem.ErrNotFound}, {2, 1, crmem.ErrNotFound}, {1, 1, nil}, {1, 1, nil}, {1, 2, nil}} {
		if _, err := p.s.Redact(c.id, c.seq); !errors.Is(err, c.want) {
			t.Errorf("redact %d of %d: %v, want %v", c.seq, c.id, err, c.want)
		}
	}
	if _, err := p.s.Undo(3); !errors.Is(err, crmem.ErrNotFound) || !strings.Contains(err.Error(), "redacted") {
		t.Errorf("undo: %v", err)
	}
	m := crmem.New(nil)
	if _, err := m.Redact(1, 1); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("in RAM: %v", err)
	}
}

// repeatedStore returns a store that has a secret in a base, in several segments, and in
// the log, and not in its entry. It returns the secret and the digests of the states
// with it.
func repeatedStore(t *testing.T) (*past, secrets) {
	p := newSegmented(t, 1)
	of := map[uint64]secrets{}
	p.do(crmem.Add{Name: "a", Content: "first"}, crmem.Add{Name: "b", Content: "known"})
	p.do(crmem.Update{Name: "a", Content: "second secret"})
	p.keep(of)
	p.must(p.s.Checkpoint())
	p.forgetHistory()
	p.do(crmem.Update{Name: "b", Content: "known, too"})
	p.keep(of)
	p.must(p.s.Checkpoint())
	for _, name := range []string{"x", "y", "a"} {
		p.do(crmem.Rename{Name: map[string]string{"x": "a", "y": "x", "a": "y"}[name], To: name})
		p.keep(of)
		if name != "a" {
			p.must(p.s.Checkpoint())
		}
	}
	p.do(crmem.Update{Name: "a", Content: "third secret"})
	p.warn = nil
	return p, of[1]
}

// TestRedactFails fails each call of a redaction, once or from then on. After an error
// that is not ErrNotApplied, the next open completes the redaction if it had begun.
func TestRedactFails(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	synctest.Test(t, testRedactFails)
}

func testRedactFails(t *testing.T) {
	failed, refused, resumed := 0, 0, 0
	for i, disk := range []error{syscall.ENOSPC, syscall.EIO} {
		for _, forever := range []bool{false, true} {
			for fail := 1 + i%every(3); ; fail += every(3) {
				p, secret := repeatedStore(t)
				calls, hit := 0, false
				p.m.Hook = func(faultfs.Call) error {
					calls++
					if hit && !forever || calls < fail {
						return nil
					}
					hit = true
					return disk
				}
				_, err := p.s.Redact(1, 6) // the first rename
				p.m.Hook = nil
				if err != nil {
					failed++
				}
				if err != nil && !forever {
					_, again := p.s.Redact(1, 6)
					switch {
					case again == nil:
						err = nil // the texts are gone also after a crash
					case errors.Is(again, crmem.ErrNotApplied) || errors.Is(again, crmem.ErrStopped):
						refused++
					default:
						t.Errorf("%v at call %d: %v, again: %v", disk, fail, err, again)
					}
				}
				if err == nil {
					p.wantAbsent(secret)
				}
				_ = p.s.Close() // the store may have stopped
				p.m = p.m.Crash()
				p.m.Now = func() time.Time { return time.Unix(p.now, 0) }
				p.open()
				where := fmt.Sprintf("%v at call %d, %v: %v", disk, fail, forever, err)
				contents, renames := map[string]bool{}, 0
				for c, err := range p.s.ChangesOfID(1) {
					p.must(err)
					if c.Type == crmem.ChangeRename {
						contents[c.After.Content] = true
						renames++
					}
				}
				if len(contents) != 1 || renames != 3 {
					t.Errorf("%s: %d renames with the texts %v", where, renames, contents)
				}
				switch done := contents[""]; {
				case done && err != nil:
					resumed++
					p.wantAbsent(secret)
				case !done && err == nil, done && errors.Is(err, crmem.ErrNotApplied):
					t.Errorf("%s: redacted %v", where, done)
				case !done && !errors.Is(err, crmem.ErrNotApplied) && !errors.Is(err, crmem.ErrUnknown) && !errors.Is(err, crmem.ErrNotFound):
					t.Errorf("%s: the next open did not complete it", where)
				}
				if e, err := p.s.Get("a"); err != nil || e.Content != "third secret" {
					t.Errorf("%s: %v %v", where, e, err)
				}
				if _, err := p.m.Lstat("/m.db-purge"); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s: file of the redaction: %v", where, err)
				}
				if !hit {
					break
				}
			}
		}
	}
	if least := 50 / every(3); failed < least || resumed < least/2 || refused < least/4 {
		t.Errorf("%d redactions failed, %d second calls were refused, and %d redactions were completed by the next open", failed, refused, resumed)
	}
}

// TestRedactRestored: a redaction that the next open completes keeps a text that the
// entry has again.
func TestRedactRestored(t *testing.T) {
	p, _ := secretStore(t)
	p.m.Hook = func(c faultfs.Call) error {
		if strings.HasPrefix(c.Name, "/m.db-history/") && c.Op == "create" {
			return syscall.EIO
		}
		return nil
	}
	if _, err := p.s.Redact(1, 3); err == nil {
		t.Fatal("no error")
	}
	p.m.Hook = nil
	p.do(crmem.Update{Name: "a", Content: "second secret"})
	p.reopen()
	if e, err := p.s.Get("a"); err != nil || e.Content != "second secret" {
		t.Errorf("%v %v", e, err)
	}
	if _, err := p.m.Lstat("/m.db-purge"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("file of the redaction: %v", err)
	}
}
