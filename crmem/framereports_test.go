package crmem_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"

	. "crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
)

// TestReportsOfRandomFrames writes logs of random frames under the names that a
// log may have, next to snapshots that they extend or not, and compares the
// results and the files of each use.
func TestReportsOfRandomFrames(t *testing.T) { synctest.Test(t, reportRandomFrames) }

func reportRandomFrames(t *testing.T) {
	var r golden.Reports
	for seed := range uint64(450) {
		g := &frameGenerator{t: t, random: rand.New(rand.NewPCG(seed, 12))}
		m := g.scene()
		for range 2 {
			use := calls[g.random.IntN(len(calls))]
			k, n, seen, which := m.Kill(), 0, 0, ""
			if g.random.IntN(3) == 0 {
				n = 1 + g.random.IntN(40)
			}
			k.Hook = func(c faultfs.Call) error {
				if seen++; seen == n {
					which = c.Op + " " + c.Name
					return syscall.EIO
				}
				return nil
			}
			got := outcome(t, k, format.LogVersion, use)
			s, err := Open("/m.db", reportOptions(k, format.LogVersion))
			if err == nil {
				for e := range s.Snapshot().All() {
					_, nerr := s.Get(e.Name)
					got += fmt.Sprintf("%+v %v\n", e, nerr)
				}
				got += fmt.Sprintf("next ID %d\n", s.NextID())
				noErr(t, s.Close())
			}
			r.Add(unstable.ReplaceAllString(fmt.Sprintf("seed %d, %s, %s", seed, use.name, which), "*"), got)
		}
	}
	r.Compare(t, "testdata/reports/frames.txt.gz")
}

// frameGenerator makes snapshots and logs. Its logs are of store {1}.
type frameGenerator struct {
	t      *testing.T
	random *rand.Rand
}

// scene returns a file system with the files of a store.
func (g *frameGenerator) scene() *faultfs.Mem {
	m := faultfs.NewMem()
	noErr(g.t, m.Mkdir("/old", 0o700))
	base, next := g.snapshot(), g.snapshot()
	m.WriteFile("/old/m.db", base, 0o600)
	switch g.random.IntN(8) {
	case 0:
	case 1:
		base[g.random.IntN(len(base))] ^= 4
		m.WriteFile("/m.db", base, 0o600)
		base = memBytes(g.t, m, "/old/m.db")
	case 2, 3:
		m.WriteFile("/m.db", next, 0o600)
	default:
		m.WriteFile("/m.db", base, 0o600)
	}
	log := g.log(base, next)
	for _, suffix := range [][]string{{WALSuffix}, {WALSuffix}, {WALSuffix}, {WALSuffix, WALSuffix + HeldSuffix}, {WALSuffix + HeldSuffix}, {WALSuffix, WALSuffix + ".damaged-0"}}[g.random.IntN(6)] {
		m.WriteFile("/m.db"+suffix, log, 0o600)
		log = g.log(base, next)
	}
	if g.random.IntN(3) > 0 {
		id := format.ID{1}
		if g.random.IntN(6) == 0 {
			id = format.ID{9}
		}
		m.WriteFile("/m.db"+IDSuffix, []byte(format.IdentityText(id)), 0o600)
	}
	if g.random.IntN(3) > 0 {
		h := vfs.LockHolder{PID: 7, Boot: []string{m.BootID(), "other"}[g.random.IntN(2)], Clean: int64(g.random.IntN(2) - 1), Logs: [][]uint64{nil, {7}, {8}}[g.random.IntN(3)]}
		if h.Clean == 0 {
			h.Clean = int64(len(log))
		}
		m.WriteFile("/m.db"+LockSuffix, []byte(h.Text()), 0o600)
	}
	return m
}

func (g *frameGenerator) name() string {
	return []string{"one", "two", "three", "four", "five", "six"}[g.random.IntN(6)]
}
func (g *frameGenerator) id() uint64 { return uint64(1 + g.random.IntN(9)) }

// snapshot returns the bytes of a random snapshot.
func (g *frameGenerator) snapshot() []byte {
	var entries []Entry
	for i, name := range []string{"one", "two", "three", "four"} {
		if g.random.IntN(2) == 0 {
			entries = append(entries, Entry{ID: uint64(2*i + 1), Name: name, Content: fmt.Sprint("content ", g.random.IntN(3)), Aliases: []string{"alias"}[:g.random.IntN(2)]})
		}
	}
	sn, err := NewSnapshot(uint64(8+g.random.IntN(3)), entries)
	noErr(g.t, err)
	b, err := sn.AppendBinary(nil)
	noErr(g.t, err)
	return b
}

// log returns a log that extends base. It may name the snapshot next.
func (g *frameGenerator) log(base, next []byte) []byte {
	b := LogOf(base, uint64(1+g.random.IntN(2)*3), func(w *format.LogWriter, b []byte) []byte {
		for range g.random.IntN(9) {
			typ, payload := g.frame(next, w.Seq-1)
			if typ != format.FrameCheckpoint && g.random.IntN(6) == 0 {
				typ |= format.FrameMore
			}
			b = w.Append(b, typ, w.End, format.Record(payload))
		}
		return b
	})
	switch g.random.IntN(8) {
	case 0:
		b = b[:len(b)-g.random.IntN(min(40, len(b)))]
	case 1:
		b = append(b, "text after the log"...)
	case 2:
		b[g.random.IntN(len(b))] ^= 2
	}
	return b
}

// frame returns a random frame, which need not fit the snapshot.
func (g *frameGenerator) frame(next []byte, seq uint64) (typ byte, payload []byte) {
	payload = binary.LittleEndian.AppendUint64(nil, g.id())
	switch g.random.IntN(12) {
	case 0, 1, 2, 3:
		id := g.id()
		name := []string{"one", "two", "three", "four"}[id%8/2]
		if g.random.IntN(4) == 0 {
			name = g.name()
		}
		e := format.NewRecord(id, 0, uint32(g.random.IntN(8)/7), name, fmt.Sprint("content ", g.random.IntN(5)), []string{"x", "y"}[:g.random.IntN(3)])
		return format.FramePut, []byte(e)
	case 4, 5:
		return format.FrameAlias, format.AppendAliases(payload, []string{"new alias", "other"}[:g.random.IntN(3)])
	case 6, 7:
		return format.FrameRemove, payload
	case 8:
		return format.FramePurge, payload
	case 9:
		name := g.name()
		return format.FrameRename, append(binary.LittleEndian.AppendUint32(payload, uint32(len(name))), name...)
	case 10:
		d := format.DigestOf(next)
		return format.FrameCheckpoint, binary.LittleEndian.AppendUint64(d.Append(nil), seq)
	}
	return []byte{format.FramePurged, format.FrameAlias, format.FrameRemove, format.FrameRename, format.FramePut}[g.random.IntN(5)], payload[:g.random.IntN(9)]
}
