package format

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"testing"
)

var usageStore = ID{1, 2, 3}

// withSum sets the checksum of a file.
func withSum(b []byte) []byte {
	if n := len(b) - 4; n >= 0 {
		binary.LittleEndian.PutUint32(b[n:], crc32.Checksum(b[:n], Castagnoli()))
	}
	return b
}

func TestUsage(t *testing.T) {
	rows := []Usage{{1, 5, 2, 9}, {7, 0, math.MaxUint64, 0}, {math.MaxUint64, math.MaxUint64, 1, math.MaxUint64}}
	for n := range len(rows) + 1 {
		b := EncodeUsage(usageStore, rows[:n])
		if got, err := DecodeUsage(b, usageStore); err != nil || !slices.Equal(got, rows[:n]) {
			t.Errorf("%d rows: %v, %v", n, got, err)
		}
		if _, err := DecodeUsage(b, ID{9}); err == nil {
			t.Errorf("%d rows of another store: no error", n)
		}
		for i := range b {
			damaged := bytes.Clone(b)
			damaged[i] ^= 0x10
			if _, err := DecodeUsage(damaged, usageStore); err == nil {
				t.Errorf("%d rows, byte %d changed: no error", n, i)
			}
			if _, err := DecodeUsage(b[:i], usageStore); err == nil {
				t.Errorf("%d rows, cut at %d: no error", n, i)
			}
		}
	}
	for what, change := range map[string]func(b []byte) []byte{
		"newer version":  func(b []byte) []byte { b[6] = 2; return b },
		"count too low":  func(b []byte) []byte { b[24]--; return b },
		"count too high": func(b []byte) []byte { b[27] = 0xff; return b },
		"reserved":       func(b []byte) []byte { b[28] = 1; return b },
		"part of a row":  func(b []byte) []byte { return append(b, 0) },
		"id 0":           func(b []byte) []byte { b[32] = 0; return b },
		"same id":        func(b []byte) []byte { copy(b[64:72], b[32:40]); return b },
		"no reads":       func(b []byte) []byte { b[48] = 0; return b },
	} {
		if got, err := DecodeUsage(withSum(change(EncodeUsage(usageStore, rows))), usageStore); err == nil {
			t.Errorf("%s: %v, want an error", what, got)
		}
	}
	u := Usage{Reads: math.MaxUint64 - 1, Last: 5}
	u.Add(Usage{Reads: 3, Last: 4})
	if u != (Usage{Reads: math.MaxUint64, Last: 5}) {
		t.Errorf("sum: %+v", u)
	}
}

// FuzzUsage decodes arbitrary bytes, with a correct checksum and without. A file that
// is accepted is what the rows encode to.
func FuzzUsage(f *testing.F) {
	f.Add([]byte{})
	f.Add(EncodeUsage(usageStore, nil))
	f.Add(EncodeUsage(usageStore, []Usage{{1, 5, 2, 9}, {7, 0, 1, 0}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, withSum(bytes.Clone(b))} {
			rows, err := DecodeUsage(b, usageStore)
			if err == nil && !bytes.Equal(EncodeUsage(usageStore, rows), b) {
				t.Errorf("%x is accepted, but its rows encode to other bytes", b)
			}
		}
	})
}
