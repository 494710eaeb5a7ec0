package crmem_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	. "crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
)

// TestReportsOfFullDisk uses stores that a process left without a close, on a
// disk that is full at one call, or from a call until the reserve is removed.
func TestReportsOfFullDisk(t *testing.T) { synctest.Test(t, reportFullDisk) }

func reportFullDisk(t *testing.T) {
	const reserve = "/m.db-reserve"
	var r golden.Reports
	uses := []call{
		{"open", func(m *faultfs.Mem, version int) (any, error) { return use(m, version, false, nil) }},
		{"remove", func(m *faultfs.Mem, version int) (any, error) {
			return use(m, version, false, func(s *Store) error { return s.Apply(Remove{Name: "one"}, Remove{Name: "two"}) })
		}},
		{"remove and add", func(m *faultfs.Mem, version int) (any, error) {
			return use(m, version, false, func(s *Store) error { return s.Apply(Remove{Name: "one"}, Add{Name: "new"}) })
		}},
		calls[4], // checkpoint
	}
	for _, state := range []string{"closed", "open", "torn", "without a log", "without a reserve", "with a directory as the reserve", "with a large reserve"} {
		base := reportScene(t, format.LogVersion)
		if state != "closed" {
			s := opened(t, "/m.db", reportOptions(base, format.LogVersion), 3)
			noErr(t, s.Apply(Update{Name: "two", Content: "by a process that was killed"}))
			base = base.Kill()
		}
		log := memBytes(t, base, "/m.db"+WALSuffix)
		switch state {
		case "torn":
			base.WriteFile("/m.db"+WALSuffix, log[:len(log)-3], 0o600)
		case "without a log":
			noErr(t, base.Remove("/m.db"+WALSuffix))
			noErr(t, base.Remove("/m.db"+WALSuffix+HeldSuffix))
		case "without a reserve":
			noErr(t, base.Remove(reserve))
		case "with a directory as the reserve":
			noErr(t, base.Remove(reserve))
			noErr(t, base.Mkdir(reserve, 0o700))
		case "with a large reserve":
			base.WriteFile(reserve, make([]byte, 256<<10+1), 0o600)
		}
		for _, u := range uses {
			for _, until := range []bool{false, true} {
				if !until && u.name != "remove" {
					continue
				}
				for n := 1; ; n++ {
					m := base.Kill()
					seen, which := 0, ""
					m.Hook = func(c faultfs.Call) error {
						if seen++; seen == n {
							which = c.Op + " " + c.Name
						}
						if seen == n && !until {
							return syscall.ENOSPC
						}
						if _, err := statQuietly(m, reserve); seen >= n && until && err == nil && slices.Contains([]string{"create", "write"}, c.Op) {
							return syscall.ENOSPC
						}
						return nil
					}
					got := outcome(t, m, format.LogVersion, u)
					r.Add(unstable.ReplaceAllString(fmt.Sprintf("%s, %s, full until the reserve is removed %t: %s", state, u.name, until, which), "*"), got)
					if which == "" || until && n > 25 {
						break
					}
				}
			}
		}
	}
	r.Compare(t, "testdata/reports/full.txt.gz")
}

// statQuietly is Lstat without a call of the hook.
func statQuietly(m *faultfs.Mem, name string) (any, error) {
	hook := m.Hook
	m.Hook = nil
	defer func() { m.Hook = hook }()
	return m.Lstat(name)
}
