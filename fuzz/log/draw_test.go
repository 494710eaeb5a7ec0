package log

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/fuzz/check"
	"crabmem/fuzz/refdec"
)

var (
	seed = flag.Uint64("seed", 1, "draw the logs with this seed; 0 is a new seed")
	logs = flag.Int("logs", 4000, "number of logs")
)

// TestDrawnLogs checks random logs. Most operations fit the state, and most logs
// have at most two faults.
func TestDrawnLogs(t *testing.T) {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	rng := rand.New(rand.NewPCG(s, 0))
	tally := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		for i := range *logs {
			db, wal := draw(rng)
			v, err := check.Recovery(db, wal)
			if err == nil {
				_, _, err = check.Store(db, wal)
			}
			if err != nil {
				t.Fatalf("seed %d, log %d: %s: %v\nsnapshot %x\nlog %x", s, i, v.Kind, err, db, wal)
			}
			tally[v.Kind]++
		}
	})
	for _, kind := range []string{"whole", "torn", "rot", "foreign"} {
		if tally[kind] < *logs/100 {
			t.Errorf("seed %d: %d logs are %s, want at least 1%%", s, tally[kind], kind)
		}
	}
	t.Logf("%d logs: %v (seed %d)", *logs, tally, s)
}

// draw draws a snapshot and a log. The log may extend another snapshot.
func draw(rng *rand.Rand) (db, wal []byte) {
	le := binary.LittleEndian
	one := func(e refdec.Entry) []byte { return (&refdec.Store{Entries: []refdec.Entry{e}}).Bytes()[28:] }
	names := []string{"a", "b", "c", "d", "e"}
	entry := func(id uint64) refdec.Entry {
		e := refdec.Entry{ID: id, CreatedAt: 7, Kind: uint32(id % 2), Name: names[id%5], Content: names[rng.IntN(5)]}
		for range rng.IntN(3) {
			e.Aliases = append(e.Aliases, names[rng.IntN(5)])
		}
		return e
	}
	base := &refdec.Store{NextID: 4}
	for id := uint64(1); id < 4; id++ {
		if rng.IntN(3) > 0 {
			base.Entries = append(base.Entries, entry(id))
		}
	}
	db = base.Bytes()
	wal = drawHeader(rng)
	le.PutUint64(wal[8:], rng.Uint64())
	le.PutUint64(wal[32:], 1+rng.Uint64N(3))
	head := len(wal)
	there := map[uint64]bool{}
	for _, e := range base.Entries {
		there[e.ID] = true
	}
	synced := uint64(head)
	for range rng.IntN(9) {
		typ := byte(1 + rng.IntN(3))
		id := 1 + rng.Uint64N(8)
		if rng.IntN(20) > 0 { // mostly operations that fit
			switch {
			case there[id] && rng.IntN(2) == 0:
				typ = byte(2 + rng.IntN(2))
			default:
				typ = 1
			}
			for typ == 1 && !there[id] && there[(id+4)%10+1] { // another entry may have the name
				id = 1 + rng.Uint64N(8)
				if rng.IntN(4) == 0 {
					break
				}
			}
		}
		var payload []byte
		switch typ {
		case 1:
			payload = one(entry(id))
			there[id] = true
		case 2:
			e := one(refdec.Entry{Aliases: entry(id).Aliases})
			payload = append(le.AppendUint64(nil, id), e[28:]...)
		case 3:
			payload = le.AppendUint64(nil, id)
			delete(there, id)
		}
		context := drawContext(rng)
		if rng.IntN(6) == 0 {
			typ, payload = byte(5+rng.IntN(3)), le.AppendUint64(nil, id)
			switch {
			case typ == 5:
				delete(there, id)
			case typ == 7: // rename, mostly to an unused name
				name := []string{"r1", "r2", "r3", names[rng.IntN(5)]}[rng.IntN(4)]
				payload = append(le.AppendUint32(payload, uint32(len(name))), name...)
			}
		}
		if rng.IntN(12) == 0 { // a checkpoint of this snapshot or of no snapshot
			typ, payload = 4, make([]byte, 24)
			if rng.IntN(10) > 0 {
				context = nil
			}
			if rng.IntN(2) == 0 {
				d := refdec.DigestOf(db)
				le.PutUint64(payload, d.Length)
				le.PutUint32(payload[8:], d.Castagnoli)
				le.PutUint32(payload[12:], d.IEEE)
			}
			le.PutUint64(payload[16:], rng.Uint64N(8))
		}
		if typ != 4 && rng.IntN(4) == 0 {
			typ |= 0x80
		}
		f := make([]byte, 32, 32+len(payload))
		f[0] = typ
		le.PutUint16(f[2:], uint16(len(context)))
		le.PutUint32(f[4:], uint32(len(context)+len(payload)))
		le.PutUint64(f[16:], synced)
		wal = append(append(append(wal, f...), context...), payload...)
		if typ&0x80 == 0 && rng.IntN(3) > 0 {
			synced = uint64(len(wal))
		}
	}
	fix(wal, db, 0xff)
	if rng.IntN(8) == 0 { // another snapshot
		db = (&refdec.Store{NextID: 9, Entries: []refdec.Entry{entry(8)}}).Bytes()
	}
	for range rng.IntN(3) {
		wal = corrupt(rng, wal, head)
	}
	switch rng.IntN(4) {
	case 0:
		fix(wal, db, fixCRC)
	case 1:
		fix(wal, db, fixHeader|fixCRC)
	}
	return db, wal
}

// drawHeader draws a header without checksums.
func drawHeader(rng *rand.Rand) []byte {
	wal := make([]byte, 112)
	wal[6] = 2
	binary.LittleEndian.PutUint64(wal[48:], rng.Uint64())
	binary.LittleEndian.PutUint64(wal[64:], rng.Uint64())
	switch rng.IntN(3) {
	case 0:
		copy(wal[80:96], wal[64:80])
	case 1:
		binary.LittleEndian.PutUint64(wal[80:], rng.Uint64())
		binary.LittleEndian.PutUint64(wal[96:], rng.Uint64())
	}
	return wal
}

// drawContext draws a context that is mostly a valid list of values.
func drawContext(rng *rand.Rand) (b []byte) {
	if rng.IntN(3) > 0 {
		return nil
	}
	le := binary.LittleEndian
	for tag, n := uint16(0), rng.IntN(4); n > 0; n-- {
		tag += uint16(1 + rng.IntN(5))
		text := make([]byte, rng.IntN(9))
		b = le.AppendUint16(le.AppendUint16(b, tag), uint16(len(text)))
		b = append(b, text...)
	}
	if len(b) > 0 && rng.IntN(15) == 0 {
		b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
	}
	return b
}

// corrupt changes, cuts, or extends a log. head is the length of the header.
func corrupt(rng *rand.Rand, wal []byte, head int) []byte {
	if len(wal) == 0 {
		return wal
	}
	at := rng.IntN(len(wal))
	if rng.IntN(8) > 0 && len(wal) > head { // mostly after the header
		at = head + rng.IntN(len(wal)-head)
	}
	switch rng.IntN(5) {
	case 0:
		wal[at] ^= 1 << rng.IntN(8)
	case 1:
		clear(wal[at:min(len(wal), at+1+rng.IntN(60))])
	case 2:
		return wal[:at]
	case 3:
		return append(wal, make([]byte, 1+rng.IntN(50))...)
	case 4:
		n := 1 + rng.IntN(50)
		return append(wal, wal[at:min(len(wal), at+n)]...)
	}
	return wal
}
