package box

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

const (
	home = "/home/crab"
	keep = 24 * time.Hour
)

// rig is a Box in a file system with faults.
type rig struct {
	*Box
	t   *testing.T
	m   *faultfs.Mem
	now time.Time
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, m: faultfs.NewMem(), now: time.Date(2026, 4, 14, 10, 0, 0, 0, time.UTC)}
	if err := vfs.MkdirAll(r.m, home, 0o700); err != nil {
		t.Fatal(err)
	}
	r.open()
	return r
}

func (r *rig) options() Options {
	return Options{FS: r.m, Home: home, Dir: Webhook, Keep: keep, Now: func() time.Time { return r.now }}
}

// open opens the box again.
func (r *rig) open() {
	r.t.Helper()
	var err error
	if r.Box, err = Open(r.options()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) add(conversation, once, content string) string {
	r.t.Helper()
	id, err := r.Add("k/", conversation, once, Message{Agent: "crab", Content: content})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// next returns the content of the next message and its ID.
func (r *rig) next(conversation string) (string, string) {
	r.t.Helper()
	m, ok, err := r.Next(conversation)
	if err != nil || ok == (m.ID == "") {
		r.t.Fatalf("next: %+v, %v, %v", m, ok, err)
	}
	return m.Content, m.ID
}

// answers returns the contents of answers, and the largest number.
func (r *rig) answers(conversation string, after uint64, drain bool) (list []string, last uint64) {
	r.t.Helper()
	found, _, err := r.Read(conversation, after, drain)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, a := range found {
		if a.Seq <= last {
			r.t.Errorf("answer %d follows %d", a.Seq, last)
		}
		list, last = append(list, a.Content), a.Seq
	}
	return list, last
}

// TestBox adds, answers, and reads messages, and opens the box again after each step.
func TestBox(t *testing.T) {
	r := newRig(t)
	one, two := r.add("k/a", "", "1"), r.add("k/a", "x", "2")
	if again := r.add("k/a", "x", "2"); again != two || one == two {
		t.Errorf("IDs %s, %s, again %s", one, two, again)
	}
	if _, err := r.Add("k/", "k/a", "x", Message{Agent: "crab", Content: "other"}); err != ErrReuse {
		t.Errorf("reused key: %v", err)
	}
	r.add("k/b", "x", "of b")
	for i, id := range []string{one, two} {
		r.open()
		if got := fmt.Sprint(r.Waiting()); got != "[k/a k/b]" {
			t.Errorf("waiting: %s", got)
		}
		if content, next := r.next("k/a"); next != id || content != fmt.Sprint(i+1) {
			t.Errorf("message %d: %s", i, content)
		}
		if err := r.Finish("k/a", id, fmt.Sprint("answer ", i+1)); err != nil {
			t.Error(err)
		}
		if err := r.Finish("k/a", id, "twice"); err == nil {
			t.Error("a message has two answers")
		}
	}
	if _, id := r.next("k/a"); id != "" || fmt.Sprint(r.Waiting()) != "[k/b]" {
		t.Errorf("waiting: %s, %v", id, r.Waiting())
	}
	if id := r.add("k/a", "x", "2"); id != two {
		t.Errorf("a repeated message has the ID %s, want %s", id, two)
	}
	if _, id := r.next("k/a"); id != "" {
		t.Error("a repeated message waits")
	}
	r.open()
	list, last := r.answers("k/a", 0, false)
	if fmt.Sprint(list) != "[answer 1 answer 2]" {
		t.Errorf("answers %q", list)
	}
	if again, _ := r.answers("k/a", last-1, false); fmt.Sprint(again) != "[answer 2]" {
		t.Errorf("answers after the first: %q", again)
	}
	if again, _ := r.answers("k/a", 0, true); fmt.Sprint(again) != "[answer 2]" {
		t.Errorf("answers that were not confirmed: %q", again)
	}
	if again, _ := r.answers("k/a", 0, true); again != nil {
		t.Errorf("answers that were read: %q", again)
	}
	if none, _ := r.answers("k/none", 0, true); none != nil {
		t.Errorf("answers of no conversation: %q", none)
	}
}

// TestHome reads the answer that revision de737380 left in testdata/home. After a day, a
// gateway removes it.
func TestHome(t *testing.T) {
	home := t.TempDir()
	if err := os.CopyFS(home, os.DirFS("../../testdata/home")); err != nil {
		t.Fatal(err)
	}
	for _, day := range []int{28, 30} {
		b, err := Open(Options{FS: vfs.OS{}, Home: home, Dir: Webhook, Keep: keep, Now: func() time.Time { return time.Date(2026, 11, day, 16, 0, 0, 0, time.UTC) }})
		if err != nil {
			t.Fatal(err)
		}
		found, _, err := b.Read("hook:phone/c1", 0, false)
		if kept := day == 28; err != nil || (len(found) == 1 && found[0].Content == "Hello to the service.") != kept {
			t.Errorf("November %d: %+v, %v", day, found, err)
		}
	}
}

// TestChanged: a reader learns of an answer.
func TestChanged(t *testing.T) {
	r := newRig(t)
	id := r.add("k/a", "", "1")
	_, changed, err := r.Read("k/a", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
		t.Error("changed before an answer")
	default:
	}
	if err := r.Finish("k/a", id, "x"); err != nil {
		t.Fatal(err)
	}
	<-changed
}

// TestKeep: answers stay for 24 hours. Then their conversation leaves no file, and later
// answers still have higher numbers.
func TestKeep(t *testing.T) {
	r := newRig(t)
	answer := func() uint64 {
		if err := r.Finish("k/a", r.add("k/a", "", "1"), "x"); err != nil {
			t.Fatal(err)
		}
		_, last := r.answers("k/a", 0, false)
		return last
	}
	first := answer()
	r.now = r.now.Add(keep - time.Second)
	if _, last := r.answers("k/a", 0, false); last != first {
		t.Errorf("last answer %d, want %d", last, first)
	}
	r.now = r.now.Add(2 * time.Second)
	if list, _ := r.answers("k/a", 0, false); list != nil {
		t.Errorf("old answers %q", list)
	}
	r.open()
	if list, err := r.m.ReadDir(home + "/" + Webhook); err != nil || len(list) > 0 {
		t.Errorf("files %v, %v", list, err)
	}
	if second := answer(); second <= first {
		t.Errorf("answer %d follows %d", second, first)
	}
	r.now = r.now.Add(keep + time.Second)
	r.add("k/b", "", "sweeps") // without Open
	if list, err := r.m.ReadDir(home + "/" + Webhook); err != nil || len(list) != 1 {
		t.Errorf("files %v, %v", list, err)
	}
}

// TestBoxLimits fills the box. A message of another owner has its own limit.
func TestBoxLimits(t *testing.T) {
	r := newRig(t)
	var ids []string
	for i := range maxWaiting {
		ids = append(ids, r.add(fmt.Sprint("k/", i%3), "", "x"))
	}
	if _, err := r.Add("k/", "k/new", "", Message{Content: "x"}); !errors.Is(err, ErrFull) {
		t.Errorf("message %d: %v", maxWaiting+1, err)
	}
	if _, err := r.Add("j/", "j/a", "", Message{Content: strings.Repeat("x", maxFile)}); err != nil {
		t.Errorf("another owner: %v", err)
	}
	if _, err := r.Add("j/", "j/a", "", Message{Content: "x"}); !errors.Is(err, ErrFull) {
		t.Errorf("a large conversation: %v", err)
	}
	if err := r.Finish("k/0", ids[0], "x"); err != nil {
		t.Fatal(err)
	}
	r.add("k/new", "", "x")
	r.unread = maxConversations
	if _, err := r.Add("i/", "i/a", "", Message{Content: "x"}); !errors.Is(err, ErrFull) {
		t.Errorf("conversation %d: %v", maxConversations+1, err)
	}
	r.unread = 0
	big := strings.Repeat("y", maxFile/2+1)
	for _, id := range []string{ids[3], ids[6]} {
		if err := r.Finish("k/0", id, big); err != nil {
			t.Fatal(err)
		}
	}
	if list, _ := r.answers("k/0", 0, true); len(list) != 1 || list[0] != big {
		t.Errorf("%d answers of a large conversation", len(list))
	}
}

// TestBoxShares: the conversations and the bytes of one owner leave room for another, also
// after the box is opened again.
func TestBoxShares(t *testing.T) {
	race.Skip(t)
	r := newRig(t)
	for i := range maxOwned {
		c := fmt.Sprint("k/", i)
		if err := r.Finish(c, r.add(c, "", "x"), "y"); err != nil { // so that none waits
			t.Fatal(err)
		}
	}
	full := func(what string) {
		t.Helper()
		r.open()
		if _, err := r.Add("k/", "k/new", "", Message{Content: "x"}); !errors.Is(err, ErrFull) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := r.Add("j/", "j/"+what, "", Message{Content: "x"}); err != nil {
			t.Errorf("%s: another owner: %v", what, err)
		}
	}
	full("conversations")
	r = newRig(t)
	big := strings.Repeat("y", maxFile-100)
	for i := range maxOwnedBytes / maxFile {
		c := fmt.Sprint("k/", i)
		if err := r.Finish(c, r.add(c, "", "x"), big); err != nil {
			t.Fatal(err)
		}
	}
	full("bytes")
}

// TestBoxFaults fails each call of the file system, and crashes after each. An
// acknowledged message waits or has its answer, and no message has two.
func TestBoxFaults(t *testing.T) {
	faults, kept := 0, 0
	for _, crash := range []bool{false, true} {
		for fail := 1; ; fail++ {
			r := newRig(t)
			calls, hit := 0, false
			r.m.Hook = func(c faultfs.Call) error {
				if c.Op == "unlock" { // the system unlocks the file in any case
					return nil
				}
				if calls++; calls < fail || hit && !crash {
					return nil
				}
				hit = true
				return syscall.EIO
			}
			var acked []string
			for i := range 3 {
				if _, err := r.Add("k/", "k/a", "", Message{Content: fmt.Sprint(i)}); err == nil {
					acked = append(acked, fmt.Sprint(i))
				}
			}
			answered := false
			if m, ok, err := r.Next("k/a"); ok && err == nil {
				answered = r.Finish("k/a", m.ID, "answer "+m.Content) == nil
			}
			r.m.Hook = nil
			if crash {
				r.m = r.m.Crash()
			}
			r.open()
			var got []string
			list, _ := r.answers("k/a", 0, false)
			if answered && len(list) == 0 {
				t.Errorf("fault %d: an acknowledged answer is missing", fail)
			}
			for _, a := range list {
				got = append(got, strings.TrimPrefix(a, "answer "))
			}
			for {
				content, id := r.next("k/a")
				if id == "" {
					break
				}
				got = append(got, content)
				if err := r.Finish("k/a", id, "x"); err != nil {
					t.Fatal(err)
				}
			}
			for _, content := range acked {
				if !slices.Contains(got, content) {
					t.Errorf("fault %d: message %s is lost, found %q", fail, content, got)
				}
				kept++
			}
			if slices.Sort(got); len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Errorf("fault %d: messages %q", fail, got)
			}
			if !hit {
				break
			}
			faults++
		}
	}
	if faults < 40 || kept < 60 {
		t.Errorf("%d faults, %d messages", faults, kept)
	}
}

// TestDamaged: a file that cannot be read concerns only its conversation.
func TestDamaged(t *testing.T) {
	r := newRig(t)
	r.add("k/a", "", "1")
	r.add("k/b", "", "2")
	f, err := r.m.OpenFile(r.file("k/a"), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(3), f.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := Open(r.options())
	if err == nil || !strings.Contains(err.Error(), r.file("k/a")) || fmt.Sprint(b.Waiting()) != "[k/b]" {
		t.Errorf("waiting %v, %v", b.Waiting(), err)
	}
	if _, err := b.Add("k/", "k/a", "", Message{}); err == nil {
		t.Error("a damaged file was replaced")
	}
}
