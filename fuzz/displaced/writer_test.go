//go:build unix

package displaced_test

import (
	"errors"
	"fmt"
	"maps"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// actor is one writer process and its acknowledged entries.
type actor struct {
	m     machine
	s     *crmem.Store
	acked map[string]string
	maybe map[string]string // writes whose outcome is unknown
	errs  []error

	rivalAcked bool // a second writer had a write acknowledged
}

func (a *actor) open(mode crmem.CheckpointMode) error {
	s, err := crmem.Open(a.m.store(), options(a.m, mode, nil))
	if err == nil {
		a.s = s
	}
	return err
}

// remember writes an entry and records the result.
func (a *actor) remember(name, content string) error {
	_, err := a.s.Remember(name, content, nil)
	switch {
	case err == nil:
		a.acked[name] = content
	case errors.Is(err, crmem.ErrUnknown):
		a.maybe[name] = content
	}
	a.note(err)
	return err
}

func (a *actor) note(err error) {
	if err != nil {
		a.errs = append(a.errs, err)
	}
}

func (a *actor) close() {
	if a.s != nil {
		a.note(a.s.Close())
		a.s = nil
	}
}

// kill drops the store without closing it. The caller must then copy the machine.
func (a *actor) kill() { a.s = nil }

func newActor(m machine) *actor {
	return &actor{m: m, acked: map[string]string{}, maybe: map[string]string{}}
}

// start prepares a machine. Afterwards a writer has the store open, and older copies
// of the files exist.
type start struct {
	name string
	do   func(a *actor, mode crmem.CheckpointMode)
}

var starts = []start{
	{"fresh store", func(a *actor, mode crmem.CheckpointMode) {
		must(a.open(mode))
		must(a.remember("a1", "first"))
		keepOlder(a.m)
		must(a.remember("a2", "second"))
	}},
	{"snapshot and log", func(a *actor, mode crmem.CheckpointMode) {
		must(a.open(crmem.CheckpointAlways))
		must(errors.Join(a.remember("s1", "one"), a.remember("s2", "two")))
		a.close()
		must(a.open(mode))
		keepOlder(a.m)
		must(errors.Join(a.remember("s1", "changed"), a.remember("a1", "first"), a.s.Checkpoint()))
		must(errors.Join(a.remember("a2", "second"), a.remember("a3", "third")))
	}},
	{"open without a write", func(a *actor, mode crmem.CheckpointMode) {
		must(a.open(crmem.CheckpointNever))
		must(a.remember("s1", "one"))
		keepOlder(a.m)
		must(a.remember("s2", "two"))
		a.close()
		must(a.open(mode))
	}},
}

// next is the writer's action after the change.
type next struct {
	name string
	mode crmem.CheckpointMode
	do   func(a *actor)
}

var nexts = []next{
	{"write", crmem.CheckpointAlways, func(a *actor) { a.write("b"); a.kill() }},
	{"write, stop", crmem.CheckpointAlways, func(a *actor) { a.write("b"); a.close() }},
	{"checkpoint", crmem.CheckpointAlways, func(a *actor) { a.note(a.s.Checkpoint()); a.kill() }},
	{"stop", crmem.CheckpointAlways, func(a *actor) { a.close() }},
	{"stop without checkpoint", crmem.CheckpointNever, func(a *actor) { a.close() }},
	{"kill -9", crmem.CheckpointAlways, func(a *actor) { a.kill() }},
	{rebootColumn, crmem.CheckpointAlways, func(a *actor) { a.kill() }},
	{"second, write", crmem.CheckpointAlways, func(a *actor) {
		a.against(func() { a.write("c"); a.close() })
		if a.rivalAcked && a.acked["c1"] != "" {
			a.note(errors.New("TEST: both writers had a write acknowledged"))
		}
	}},
	{"second, checkpoint", crmem.CheckpointAlways, func(a *actor) { a.against(func() { a.note(a.s.Checkpoint()); a.close() }) }},
	{"second, stop", crmem.CheckpointAlways, func(a *actor) { a.against(a.close) }},
}

const (
	killColumn   = "kill -9"
	rebootColumn = "kill -9, reboot"
)

// write writes two entries and stops at the first error.
func (a *actor) write(prefix string) {
	for i := 1; i <= 2; i++ {
		if a.remember(fmt.Sprint(prefix, i), "after the change") != nil {
			return
		}
	}
}

// against makes a second writer open the store and write. It then calls first for
// the first writer. Finally the second writer writes again and closes. The first
// writer must not change the lock file of the second.
func (a *actor) against(first func()) {
	b := newActor(a.m)
	err := b.open(crmem.CheckpointAlways)
	if err == nil {
		b.write("d")
	}
	before := lockText(a.m)
	first()
	if err == nil {
		if now := lockText(a.m); len(b.acked) > 0 && now != before {
			a.note(fmt.Errorf("TEST: the first writer changed the second's lock file from %q to %q", before, now))
		}
		b.write("e")
		b.close()
	}
	a.rivalAcked = len(b.acked) > 0
	maps.Copy(a.acked, b.acked)
	maps.Copy(a.maybe, b.maybe)
	a.errs = append(a.errs, b.errs...)
}

func lockText(m machine) string {
	b, err := vfs.ReadFile(m, m.store()+"-lock", 1<<20)
	if err != nil {
		return ""
	}
	return string(b)
}
