// Package recover fuzzes an open for writing of any snapshot and log. The open
// must recover the state of the independent decoder and quarantine truncated
// bytes. A failed open must not change files.
package recover

import (
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

// bind changes a log so that it extends the snapshot db. It sets the base and
// corrects the checksums.
func bind(wal, db []byte) {
	const head = 112
	if len(wal) < head {
		return
	}
	d := refdec.DigestOf(db)
	binary.LittleEndian.PutUint64(wal[16:], d.Length)
	binary.LittleEndian.PutUint32(wal[24:], d.Castagnoli)
	binary.LittleEndian.PutUint32(wal[28:], d.IEEE)
	old, crc := binary.LittleEndian.Uint32(wal[head-4:]), uint32(0)
	for _, end := range []int{48, head} {
		crc = crc32.Checksum(wal[:end-4], crc32.MakeTable(crc32.Castagnoli))
		binary.LittleEndian.PutUint32(wal[end-4:], crc)
	}
	if old != crc {
		rechain(wal, head, old, crc)
	}
}

// rechain corrects prev and crc of each frame, up to the first frame that was
// invalid. old and crc are the previous and the new checksum of the header.
func rechain(wal []byte, head int, old, crc uint32) {
	le, table := binary.LittleEndian, crc32.MakeTable(crc32.Castagnoli)
	for at := head; at+32 <= len(wal); {
		f := wal[at:]
		n := 32 + int64(le.Uint32(f[4:]))
		if n > int64(len(f)) || le.Uint32(f[24:]) != old {
			return
		}
		sum := func() uint32 {
			b := le.AppendUint64(append([]byte(nil), wal[8:16]...), uint64(at))
			return crc32.Checksum(append(append(b, f[:28]...), f[32:n]...), table)
		}
		old = le.Uint32(f[28:])
		if sum() != old {
			return
		}
		le.PutUint32(f[24:], crc)
		crc = sum()
		le.PutUint32(f[28:], crc)
		at += int(n)
	}
}

func FuzzRecover(f *testing.F) {
	root := os.DirFS(filepath.Join("..", "..", "testdata", "vectors"))
	logs, err := vectors.Load(root, "log", 142)
	if err != nil {
		f.Fatal(err)
	}
	var put []byte
	for _, v := range logs {
		if v.More["db"] != "missing" {
			f.Add(v.DB(), v.Files["wal"], false)
		}
		if v.Name == "ok-put" {
			put = v.Files["wal"]
		}
	}
	files, err := vectors.Load(root, "snapshot", 149)
	if err != nil {
		f.Fatal(err)
	}
	for _, v := range files {
		f.Add(v.DB(), put, true)
	}
	f.Fuzz(func(t *testing.T, db, wal []byte, bound bool) {
		db = append([]byte{}, db...)
		if wal = append([]byte(nil), wal...); bound {
			bind(wal, db)
		}
		synctest.Test(t, func(t *testing.T) {
			if _, err := check.Recovery(db, wal); err != nil {
				t.Fatal(err)
			}
			if _, _, err := check.Store(db, wal); err != nil {
				t.Fatal(err)
			}
		})
	})
}
