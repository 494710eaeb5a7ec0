// Package log fuzzes the reading of a log with a valid snapshot. The report of a
// check and the state of a reader must equal the results of the independent
// decoder.
package log

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"crabmem/fuzz/check"
	"crabmem/fuzz/refdec"
	"crabmem/fuzz/vectors"
)

// Parts of a log that fix corrects. With them, fuzzed bytes reach the checks after
// the checksums.
const (
	fixHeader = 1 << iota // magic, version, base, reserved, and checksums
	fixCRC                // prev and crc of each frame, until a length leaves the file
	fixSeq
	fixSynced
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fix corrects the parts of a log that what selects. db is the log's snapshot.
func fix(wal, db []byte, what byte) {
	le := binary.LittleEndian
	const head = 112
	if len(wal) < head {
		return
	}
	if what&fixHeader != 0 {
		d := refdec.DigestOf(db)
		copy(wal, "CRWAL\x00\x02\x00")
		le.PutUint64(wal[16:], d.Length)
		le.PutUint32(wal[24:], d.Castagnoli)
		le.PutUint32(wal[28:], d.IEEE)
		le.PutUint32(wal[40:], 0)
		le.PutUint32(wal[44:], crc32.Checksum(wal[:44], castagnoli))
		fixPlace(wal)
	}
	salt, prev, seq := wal[8:16], le.Uint32(wal[head-4:]), le.Uint64(wal[32:])
	for at := head; at+32 <= len(wal); {
		f := wal[at:]
		n := 32 + int64(le.Uint32(f[4:]))
		if n > int64(len(f)) {
			return
		}
		if f[0]&0x7f != 4 {
			seq++
		}
		if what&fixSeq != 0 {
			le.PutUint64(f[8:], seq-1)
		}
		if s := le.Uint64(f[16:]); what&fixSynced != 0 && (s < uint64(head) || s > uint64(at)) {
			le.PutUint64(f[16:], uint64(head)+s%uint64(at-head+1))
		}
		if what&fixCRC != 0 {
			le.PutUint32(f[24:], prev)
			b := le.AppendUint64(append([]byte(nil), salt...), uint64(at))
			b = append(append(b, f[:28]...), f[32:n]...)
			le.PutUint32(f[28:], crc32.Checksum(b, castagnoli))
		}
		prev = le.Uint32(f[28:])
		at += int(n)
	}
}

// fixPlace corrects the header fields after the first checksum.
func fixPlace(wal []byte) {
	le := binary.LittleEndian
	zero := make([]byte, 16)
	for _, at := range []int{48, 64} {
		if bytes.Equal(wal[at:at+16], zero) {
			wal[at] = 1
		}
	}
	switch {
	case bytes.Equal(wal[80:96], zero):
		clear(wal[96:108])
	case bytes.Equal(wal[80:96], wal[64:80]):
		le.PutUint64(wal[96:], le.Uint64(wal[32:])-1)
	}
	le.PutUint32(wal[108:], crc32.Checksum(wal[:108], castagnoli))
}

func seeds(t testing.TB) []*vectors.Vector {
	all, err := vectors.Load(os.DirFS(filepath.Join("..", "..", "testdata", "vectors")), "log", 142)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// snapshot returns the snapshot of the logs.
func snapshot(t testing.TB) []byte {
	for _, v := range seeds(t) {
		if v.Name == "ok-empty" {
			return v.DB()
		}
	}
	t.Fatal("no vector ok-empty")
	return nil
}

// TestFix checks that fix makes corrupt logs valid and does not change valid
// ones.
func TestFix(t *testing.T) {
	db := snapshot(t)
	flips := map[string][]int{
		"ok-batch":   {0, 20, 45, 64 + 60, 64 + 72, 64 + 78, 64 + 110},
		"ok-before":  {0, 20, 45, 97, 109, 112 + 12, 112 + 24, 112 + 30, 112 + 40},
		"ok-purge":   {45, 50, 70, 109, 112 + 12, 112 + 24, 112 + 30},
		"ok-empty":   {6, 16, 44, 108},
		"ok-put":     {},
		"ok-context": {},
	}
	for _, v := range seeds(t) {
		at, ok := flips[v.Name]
		if !ok {
			continue
		}
		delete(flips, v.Name)
		wal := append([]byte(nil), v.Files["wal"]...)
		for _, at := range at {
			wal[at] ^= 0x10
		}
		if k := check.Expect(db, wal).Kind; (k != "rot") != (len(at) == 0) {
			t.Errorf("%s: the log with flipped bits is %s", v.Name, k)
		}
		fix(wal, db, 0xff)
		if k := check.Expect(db, wal).Kind; k != "whole" {
			t.Errorf("%s: the corrected log is %s", v.Name, k)
		}
		if len(at) == 0 && !bytes.Equal(wal, v.Files["wal"]) {
			t.Errorf("%s: fix changed a valid log", v.Name)
		}
	}
	for name := range flips {
		t.Errorf("no vector %s", name)
	}
}

func FuzzLog(f *testing.F) {
	db := snapshot(f)
	for _, v := range seeds(f) {
		f.Add(v.Files["wal"], byte(0))
		f.Add(v.Files["wal"], byte(0xff))
	}
	f.Fuzz(func(t *testing.T, wal []byte, what byte) {
		wal = append([]byte{}, wal...) // nil would mean no file
		fix(wal, db, what)
		synctest.Test(t, func(t *testing.T) { // a reader waits before it reports ErrForeign
			if _, _, err := check.Store(db, wal); err != nil {
				t.Fatal(err)
			}
		})
	})
}
