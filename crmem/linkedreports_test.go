package crmem_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
)

// TestReportsOfLinkedStores moves a store, leaves a symbolic link and some of its
// files, and compares what each use of the link then reports and leaves.
func TestReportsOfLinkedStores(t *testing.T) { synctest.Test(t, reportLinkedStores) }

func reportLinkedStores(t *testing.T) {
	var r golden.Reports
	for _, stays := range []string{"", WALSuffix, IDSuffix, WALSuffix + " " + IDSuffix} {
		for _, held := range []string{"", "held", "both", "older held", "other store's", "text"} {
			for _, there := range []string{"", "older", "missing"} {
				for _, use := range calls {
					m := reportScene(t, format.LogVersion)
					log := memBytes(t, m, "/m.db"+WALSuffix)
					noErr(t, m.Mkdir("/real", 0o700))
					for _, suffix := range storeSuffixes {
						if _, err := m.Lstat("/m.db" + suffix); err == nil && (suffix == "" || !strings.Contains(stays, suffix)) {
							noErr(t, m.Rename("/m.db"+suffix, "/real/m.db"+suffix))
						}
					}
					m.Symlink("/real/m.db", "/m.db")
					side := "/m.db" + WALSuffix + HeldSuffix
					switch held {
					case "held":
						m.WriteFile(side, log, 0o600)
						_ = m.Remove("/m.db" + WALSuffix)
					case "both":
						m.WriteFile(side, log, 0o600)
					case "older held":
						m.WriteFile(side, memBytes(t, m, "/old/m.db"+WALSuffix), 0o600)
					case "other store's":
						m.WriteFile(side, memBytes(t, m, "/other.db"+WALSuffix), 0o600)
					case "text":
						m.WriteFile(side, []byte("text"), 0o600)
					}
					switch there {
					case "older":
						m.WriteFile("/real/m.db"+WALSuffix, memBytes(t, m, "/old/m.db"+WALSuffix), 0o600)
					case "missing":
						_ = m.Remove("/real/m.db" + WALSuffix)
					}
					noErr(t, m.SyncDir("/"))
					r.Add(fmt.Sprintf("%q stays, %s, %s there: %s", stays, held, there, use.name), outcome(t, m, format.LogVersion, use)+realFiles(t, m))
				}
			}
		}
	}
	r.Compare(t, "testdata/reports/linked.txt.gz")
}

// realFiles lists the files of the directory that a linked store is in.
func realFiles(t *testing.T, m *faultfs.Mem) string {
	list, err := m.ReadDir("/real")
	noErr(t, err)
	text := "real:"
	for _, e := range list {
		fi, err := e.Info()
		noErr(t, err)
		if strings.Contains(e.Name(), LockSuffix) {
			text += " " + e.Name()
			continue
		}
		text += fmt.Sprintf(" %s:%d", e.Name(), fi.Size())
	}
	return unstable.ReplaceAllString(text+"\n", "*")
}

// TestReportsOfQueries compares the results of random queries with clauses.
func TestReportsOfQueries(t *testing.T) {
	var now time.Time
	s := New(&Options{Now: func() time.Time { return now }})
	random := rand.New(rand.NewPCG(3, 3))
	words := []string{"rate", "limit", "dead", "letter", "green", "queue", "café", "東京都庁", "it's", "v2.6", "getName", "x"}
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[random.IntN(len(words))] + []string{" ", " ", "-", ", "}[random.IntN(4)])
		}
		return b.String()
	}
	for i := range 60 {
		now = time.Date(2024+i%4, time.Month(1+i%12), 1+i%28, 0, 0, 0, 0, time.UTC)
		add := Add{Name: fmt.Sprintf("%s%d", words[i%len(words)], i), Content: text(i % 20), Kind: Kind(i % 2)}
		if i%3 == 0 {
			add.Aliases = []string{text(2), fmt.Sprint("alias", i)}
		}
		noErr(t, s.Apply(add))
	}
	pieces := append([]string{`"`, `"`, "-", " ", " ", " ", ":", "name:", "kind:note", "kind:archive", "kind:", "after:2025", "after:2026-02", "after:2025-03-04", "after:1970", "before:2026", "before:2025-06", "before:1969", "other:", "“", "”", "\t", "rate limit", "-rate", `name:"dead letter"`, `"green queue"`}, words...)
	var r golden.Reports
	for range 2500 {
		var b strings.Builder
		for range 1 + random.IntN(9) {
			b.WriteString(pieces[random.IntN(len(pieces))])
			if random.IntN(2) == 0 {
				b.WriteString(" ")
			}
		}
		q := Query{Text: b.String(), Syntax: true, Count: true, Limit: random.IntN(6)}
		result, err := s.Search(t.Context(), q)
		outcome := fmt.Sprintf("%v, %d:", err, result.Total)
		for _, h := range result.Hits {
			outcome += fmt.Sprintf(" %s %.4f", h.Name, h.Score)
		}
		r.Add(fmt.Sprintf("%q limit %d", q.Text, q.Limit), outcome+"\n")
	}
	r.Compare(t, "testdata/reports/queries.txt.gz")
}

// TestReportsOfLogsAlone removes the snapshot of a store that never had a
// checkpoint, changes its log, fails each call of the file system once, and
// compares what each use then reports and leaves.
func TestReportsOfLogsAlone(t *testing.T) { synctest.Test(t, reportLogsAlone) }

func reportLogsAlone(t *testing.T) {
	var r golden.Reports
	for _, c := range []struct {
		name string
		cut  int
		text string
	}{{"complete", 0, ""}, {"torn", 1, ""}, {"corrupt", 9, "corrupt bytes"}, {"without operations", -1, ""}} {
		for _, use := range calls {
			for n := 1; n < 80; n++ {
				m := faultfs.NewMem()
				noErr(t, m.Mkdir("/old", 0o700))
				s := opened(t, "/m.db", reportOptions(m, format.LogVersion), 0)
				noErr(t, s.Apply(Add{Name: "one", Content: "first"}, Add{Name: "two"}))
				if c.cut >= 0 {
					noErr(t, s.Apply(Remove{Name: "one"}, Add{Name: "three"}))
				}
				noErr(t, s.Close())
				b := memBytes(t, m, "/m.db"+WALSuffix)
				m.WriteFile("/m.db"+WALSuffix, append(b[:len(b)-max(0, c.cut)], c.text...), 0o600)
				m.WriteFile("/old/m.db", memBytes(t, m, "/m.db"), 0o600)
				noErr(t, m.Remove("/m.db"))
				seen, which := 0, ""
				m.Hook = func(call faultfs.Call) error {
					if seen++; seen == n {
						which = call.Op + " " + call.Name
						return []error{syscall.EIO, &faultfs.Fault{Err: syscall.EIO, Done: true}, syscall.ENOSPC}[n%3]
					}
					return nil
				}
				got := outcome(t, m, format.LogVersion, use)
				r.Add(unstable.ReplaceAllString(fmt.Sprintf("%s: %s: %s", c.name, use.name, which), "*"), got)
				if which == "" || use.name != "repair" && n == 1 {
					break
				}
			}
		}
	}
	r.Compare(t, "testdata/reports/alone.txt.gz")
}

// TestReportsOfRejoinedLogs lets two copies of a store change apart, puts the log of
// one next to the other, and compares what each use then reports and leaves.
func TestReportsOfRejoinedLogs(t *testing.T) { synctest.Test(t, reportRejoinedLogs) }

func reportRejoinedLogs(t *testing.T) {
	var r golden.Reports
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 6))
		change := func(s *Store, n int) {
			for range n {
				names := []string{"one", "two", "three", "four", "five"}
				name := names[random.IntN(len(names))]
				content := []string{"", "text", "other text"}[random.IntN(3)]
				var op Op
				switch random.IntN(6) {
				case 0, 1:
					op = Add{Name: name, Content: content, Kind: Kind(random.IntN(2))}
				case 2:
					op = Update{Name: name, Content: content}
				case 3:
					op = Remove{Name: name}
				case 4:
					op = Alias{Name: name, Aliases: []string{content + name}}
				default:
					op = Add{Name: fmt.Sprint(name, random.IntN(3)), Content: content, Aliases: []string{name}}
				}
				_ = s.Apply(op) // those that are invalid change nothing
			}
		}
		m := faultfs.NewMem()
		s := opened(t, "/m.db", reportOptions(m, format.LogVersion), 0)
		change(s, random.IntN(8))
		if random.IntN(2) == 0 {
			noErr(t, s.Checkpoint())
			change(s, random.IntN(3))
		}
		noErr(t, s.Close())
		other := m.Kill()
		for i, m := range []*faultfs.Mem{m, other} {
			s, err := Open("/m.db", reportOptions(m, format.LogVersion))
			noErr(t, err)
			change(s, random.IntN(6))
			if random.IntN(3) == i {
				noErr(t, s.Checkpoint())
				change(s, random.IntN(6))
			}
			noErr(t, s.Close())
		}
		log, err := vfs.ReadFile(other, "/m.db"+WALSuffix, 1<<20)
		if err != nil {
			continue // it was never written
		}
		names := []string{"/m.db" + WALSuffix + HeldSuffix}
		if random.IntN(4) == 0 {
			names = []string{"/m.db" + WALSuffix}
		}
		for _, use := range calls {
			k := m.Kill()
			for _, name := range names {
				_ = k.Remove(name) // it may be a second link
				k.WriteFile(name, log, 0o600)
			}
			got := outcome(t, k, format.LogVersion, use)
			s, err := Open("/m.db", reportOptions(k, format.LogVersion))
			if err == nil {
				for e := range s.Snapshot().All() {
					got += fmt.Sprintf("%+v\n", e)
				}
				noErr(t, s.Close())
			}
			r.Add(fmt.Sprintf("seed %d, %s: %s", seed, names[0], use.name), got)
		}
	}
	r.Compare(t, "testdata/reports/rejoined.txt.gz")
}
