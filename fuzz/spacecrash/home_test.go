package spacecrash

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/space"
	"crabmem/fuzz/internal/crashtest"
)

const (
	root    = "/machine"
	home    = root + "/home"
	other   = root + "/other/work.db" // the store to adopt
	kept    = other + ".adopted"
	adopted = "work" // its space
	limit   = 6      // of spaces
)

// sender is the space that a write creates.
var sender = space.OfSender("tg:7")

// state is an expected content of a home.
type state struct {
	spaces map[string]string // entries, by the name of the space
	other  string            // entries of the store to adopt, or "" if it is a space
}

func (s state) with(name, entries string) state {
	s.spaces = maps.Clone(s.spaces)
	s.spaces[name] = entries
	return s
}

func (s state) without(name string) state {
	s.spaces = maps.Clone(s.spaces)
	delete(s.spaces, name)
	return s
}

func (s state) equal(t state) bool { return maps.Equal(s.spaces, t.spaces) && s.other == t.other }

func wrong(format string, args ...any) error { return crashtest.Wrong(format, args...) }

func options(m *faultfs.Mem) *crmem.Options {
	return &crmem.Options{FS: m, Now: func() time.Time { return time.Unix(1_800_000_000, 0) }, CheckpointOnClose: crmem.CheckpointNever}
}

func homeOf(m *faultfs.Mem) *space.Home { return &space.Home{FS: m, Path: home, Command: "test"} }

// write adds an entry to a space, as a daemon does.
func write(m *faultfs.Mem, name, entry string) error {
	set := space.NewSet(space.Options{FS: m, Home: home, Main: crmem.New(nil), Max: func() int { return limit }, MaxOpen: 2,
		Open: func(file string) (*crmem.Store, error) { return crmem.Open(file, options(m)) }})
	err := set.Use(name, true, func(s *crmem.Store) error { return s.Apply(add(entry)) })
	return errors.Join(err, set.Close())
}

func add(entry string) crmem.Op {
	return crmem.Add{Name: entry, Content: strings.Repeat("text of "+entry+". ", 20)}
}

// entries returns the names of the entries of a store, and checks their texts.
func entries(m *faultfs.Mem, file string) (string, error) {
	o := options(m)
	o.MustExist = true
	s, err := crmem.Open(file, o)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for e := range s.All() {
		if want := add(e.Name).(crmem.Add); e.Content != want.Content {
			return "", wrong("%s: entry %s has %d bytes, want %d", file, e.Name, len(e.Content), len(want.Content))
		}
		b.WriteString(e.Name + " ")
	}
	return b.String(), s.Close()
}

// look returns the state of a home, which it recovers. other is "" if the store to adopt
// does not exist or cannot be opened.
func look(m *faultfs.Mem) (state, error) {
	s := state{spaces: map[string]string{}}
	names, err := space.Names(m, home)
	if err != nil {
		return s, err
	}
	for _, name := range names {
		if name == space.Main {
			continue
		}
		found, err := entries(m, space.File(home, name))
		if err != nil && !errors.Is(err, crmem.ErrNoStore) { // an empty space may have no file
			return s, wrong("space %s: %v", name, err)
		}
		s.spaces[name] = found
	}
	s.other, _ = entries(m, other)
	return s, nil
}

// step is an operation on a home.
type step struct {
	do func(m *faultfs.Mem) error
	// during contains the states that a crash may leave besides those before and
	// after the step.
	during []state
	after  state
}

// plan returns the step of a symbol, or false if the symbol does not apply to a state.
func (s state) plan(symbol string, i int) (step, bool) {
	entry := fmt.Sprint("entry", i)
	team, free := "team", "crew"
	if _, ok := s.spaces[team]; !ok {
		team, free = free, team
	}
	had, exists := s.spaces[team]
	switch symbol {
	case "create":
		return step{do: func(m *faultfs.Mem) error { return homeOf(m).Create(free, limit) }, after: s.with(free, "")}, !exists || s.spaces[free] == "" && !s.has(free)
	case "write":
		return step{do: func(m *faultfs.Mem) error { return write(m, team, entry) }, after: s.with(team, had+entry+" ")}, exists
	case "sender":
		st := step{do: func(m *faultfs.Mem) error { return write(m, sender, entry) }, after: s.with(sender, s.spaces[sender]+entry+" ")}
		if !s.has(sender) {
			st.during = []state{s.with(sender, "")}
		}
		return st, true
	case "rename":
		return step{do: func(m *faultfs.Mem) error { return homeOf(m).Rename(team, free) }, after: s.without(team).with(free, had)}, exists && !s.has(free)
	case "remove":
		return step{do: func(m *faultfs.Mem) error { _, err := homeOf(m).Remove(team, true); return err }, after: s.without(team)}, exists
	case "adopt":
		after := s.with(adopted, s.other)
		st := step{do: func(m *faultfs.Mem) error { _, _, err := homeOf(m).Adopt(other, adopted, limit); return err }, during: []state{after}}
		after.other = ""
		st.after = after
		return st, s.other != ""
	}
	panic(symbol)
}

func (s state) has(name string) bool { _, ok := s.spaces[name]; return ok }

var alphabet = []string{"create", "write", "sender", "rename", "remove", "adopt"}

// begin returns a machine with a store to adopt, whose last entry is in the log, and, for
// the scene used, a space with entries.
func begin(scene string) (*faultfs.Mem, state, error) {
	m := faultfs.NewMem()
	m.Hook = crashtest.NoReserve
	s := state{spaces: map[string]string{}, other: "one two "}
	if err := errors.Join(vfs.MkdirAll(m, home, 0o700), vfs.MkdirAll(m, root+"/other", 0o700)); err != nil {
		return m, s, err
	}
	w, err := crmem.Open(other, options(m))
	if err == nil {
		err = errors.Join(w.Apply(add("one")), w.Checkpoint(), w.Apply(add("two")), w.Close())
	}
	if err == nil && scene == "used" {
		s = s.with("team", "old ").with("kept", "old ")
		err = errors.Join(homeOf(m).Create("team", limit), homeOf(m).Create("kept", limit), write(m, "team", "old"), write(m, "kept", "old"))
	}
	return m, s, err
}

// check recovers a machine after a power cut or, if durable is not set, after a kill. Its
// state must be in want. Every space accepts writes after that, which survive a power
// cut. After a kill the names of spaces and the adoption of a store may revert then,
// because the killed process did not acknowledge them. A home also accepts new spaces,
// and removes the directories that a crash left.
func check(m *faultfs.Mem, durable bool, want []state) error {
	m.Hook = crashtest.NoReserve
	got, err := look(m)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(want, got.equal) {
		return wrong("found %+v\nwant one of %+v", got, want)
	}
	if got.has(adopted) && got.other == "" {
		if found, err := entries(m, kept); !strings.HasPrefix(got.spaces[adopted], found) || err != nil && len(want) == 1 {
			return wrong("the adopted store has the entries %q (%v), its space %q", found, err, got.spaces[adopted])
		}
	}
	h := homeOf(m)
	if !got.has(adopted) {
		if n, _, err := h.Adopt(other, adopted, limit+2); err != nil || n != 2 {
			return wrong("adopt after a crash: %d entries, %v", n, err)
		}
		got = got.with(adopted, got.other)
		got.other = ""
	}
	next := got
	for name, had := range got.spaces {
		if err := write(m, name, "post"); err != nil {
			return wrong("write to %s after a crash: %v", name, err)
		}
		next = next.with(name, had+"post ")
	}
	if err := again(m.Crash(), durable, next); err != nil {
		return err
	}
	if err := errors.Join(h.Create("next", limit+2), write(m, "next", "new")); err != nil {
		return wrong("create after a crash: %v", err)
	}
	if _, err := h.Remove("next", true); err != nil {
		return wrong("remove after a crash: %v", err)
	}
	list, err := m.ReadDir(home + "/spaces")
	if err != nil || len(list) != len(next.spaces) {
		return wrong("%d spaces, but the directory has %v (%v)", len(next.spaces), list, err)
	}
	return again(m.Crash(), durable, next)
}

// again checks a machine after a second power cut.
func again(m *faultfs.Mem, durable bool, want state) error {
	got, err := look(m)
	if err != nil {
		return err
	}
	found, wanted := slices.Sorted(maps.Values(got.spaces)), slices.Sorted(maps.Values(want.spaces))
	if durable && !got.equal(want) || !slices.Equal(found, wanted) {
		return wrong("after a second crash: %+v\nwant %+v", got, want)
	}
	return nil
}
