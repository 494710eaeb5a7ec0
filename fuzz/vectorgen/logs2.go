package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// twoV2 is two, with a log of version 2.
func twoV2(p *page) *wal {
	w := two(p)
	p.cutFile()
	w.version = 2
	w.header()
	return w
}

// secondVersion lays what version 2 of the log added.
func secondVersion(add adder) {
	goodSecond(add)
	badSecondHeaders(add)
	badSecondFrames(add)
}

func goodSecond(add adder) {
	ok := func(name, comment, names string, lay func(w *wal)) {
		add("v2-ok-"+name, "ok", comment, func(p *page) {
			p.names(names)
			lay(twoV2(p))
		})
	}
	ok("empty", "a log without frames", "a b", func(w *wal) {})
	ok("put", "one entry added, without a context", "a b c", func(w *wal) { w.put(3, "c", "third") })
	ok("before", "a header that continues the same epoch", "a b c", func(w *wal) {
		w.p.cutFile()
		w.seq = 8
		w.header(func(b []byte) {
			copy(b[80:], b[64:80])
			binary.LittleEndian.PutUint64(b[96:], 7)
			binary.LittleEndian.PutUint32(b[104:], 0xfeedface)
		})
		w.put(3, "c", "third")
	})
	ok("before-other", "a header that continues another epoch, at another sequence number", "a b", func(w *wal) {
		w.p.cutFile()
		w.header(func(b []byte) {
			copy(b[80:], "some older epoch")
			binary.LittleEndian.PutUint64(b[96:], 99)
		})
	})
	ok("context", "a context of every tag", "a b c", func(w *wal) {
		c := value(1, "\x00\x00\x64\xa7\xb3\xb6\xe0\x0d")
		for tag, text := range []string{"crab", "crab_user_1", "call_1", "cli", "local", "op 1"} {
			c = append(c, value(uint16(tag+2), text)...)
		}
		w.frame(frame{typ: 1, context: c, payload: entry(3, 0, "c", "third"), comment: "put c"})
	})
	ok("context-unknown", "tags that no version has yet, and an empty value", "a b c", func(w *wal) {
		c := append(append(value(2, ""), value(8, "eight")...), value(65535, "last")...)
		w.frame(frame{typ: 1, context: c, payload: entry(3, 0, "c", "third"), comment: "put c"})
	})
	ok("context-alias", "aliases, with a context", "a b", func(w *wal) {
		w.frame(frame{typ: 2, context: value(5, "mcp"), payload: aliases(1), comment: "alias a"})
	})
	ok("purge", "an entry purged, and the purge complete", "b", func(w *wal) {
		w.frame(frame{typ: 5, context: value(5, "cli"), payload: id(1), comment: "purge a"})
		w.frame(frame{typ: 6, payload: id(1), comment: "purged a"})
	})
	ok("purge-missing", "a purge of an entry that does not exist", "a b", func(w *wal) {
		w.frame(frame{typ: 5, payload: id(9), comment: "purge 9"})
		w.frame(frame{typ: 6, payload: id(9), comment: "purged 9"})
	})
	ok("rename", "an entry renamed, its old name free for another", "c b a", func(w *wal) {
		w.frame(frame{typ: 7, payload: rename(1, "c"), comment: "rename a to c"})
		w.put(3, "a", "another")
	})
	ok("rename-same", "a rename to the name that the entry has", "a b", func(w *wal) {
		w.frame(frame{typ: 7, payload: rename(1, "a"), comment: "rename a to a"})
	})
	ok("rename-swap", "two entries exchange names in one batch", "b a", func(w *wal) {
		start := uint64(len(w.p.b))
		w.frame(frame{typ: 7, more: true, synced: start, payload: rename(1, "t"), comment: "rename a to t, more"})
		w.frame(frame{typ: 7, more: true, synced: start, payload: rename(2, "a"), comment: "rename b to a, more"})
		w.frame(frame{typ: 7, synced: start, payload: rename(1, "b"), comment: "rename t to b"})
	})
	ok("checkpoint", "a checkpoint frame whose snapshot is not in place", "a b c", func(w *wal) {
		w.put(3, "c", "third")
		w.checkpoint([]byte("another snapshot"), 1)
	})
	torn := func(name, comment string, lay func(w *wal)) {
		add("v2-torn-"+name, "torn", comment, func(p *page) {
			p.names("a b c")
			w := twoV2(p)
			w.put(3, "c", "third")
			p.here("frame")
			lay(w)
		})
	}
	torn("context-len", "a context that is longer than context and payload", func(w *wal) {
		w.frame(frame{typ: 3, contextLen: 9, payload: id(1), comment: "remove a"})
	})
	torn("zero", "the byte after the type is not zero", func(w *wal) {
		w.frame(frame{typ: 3, zero: [3]byte{1, 0, 0}, payload: id(1), comment: "remove a"})
	})
	torn("synced-header", "a frame that promises less than the header of version 2", func(w *wal) {
		w.frame(frame{typ: 3, synced: 111, payload: id(1), comment: "remove a"})
	})
	torn("cut", "a context without its last byte, and no payload", func(w *wal) {
		w.p.cut(32+6, func() { w.frame(frame{typ: 3, context: value(5, "cli"), payload: id(1)}) })
	})
	add("v2-rotten-context", "rotten", "a byte of the context of an old frame", func(p *page) {
		p.names("a b c")
		w := twoV2(p)
		w.put(3, "c", "third")
		p.here("frame")
		b := w.aside(func() { w.frame(frame{typ: 3, context: value(5, "cli"), payload: id(1)}) })
		b[38] ^= 1
		p.put("remove a, one bit wrong", b...)
		w.put(5, "e", "fifth")
	})
}

func badSecondHeaders(add adder) {
	edit := func(name, field, comment string, off int, change func(b []byte)) {
		add("v2-header-"+name, "format", comment, func(p *page) {
			w := twoV2(p)
			p.cutFile()
			p.here(field, off)
			w.header(change)
			w.put(3, "c", "third")
		})
	}
	edit("store", "log store", "no identity", 48, func(b []byte) { clear(b[48:64]) })
	edit("epoch", "log epoch", "no epoch", 64, func(b []byte) { clear(b[64:80]) })
	edit("prev-epoch-seq", "log prev_epoch", "a sequence number before, of no epoch", 80, func(b []byte) { b[96] = 1 })
	edit("prev-epoch-crc", "log prev_epoch", "a checksum before, of no epoch", 80, func(b []byte) { b[104] = 1 })
	edit("prev-seq", "log prev_seq", "an operation before, of this epoch, that is not the one before", 96, func(b []byte) {
		copy(b[80:], b[64:80])
		b[96] = 1
	})
	edit("reserved", "log reserved", "reserved bytes are zero", 40, func(b []byte) { b[40] = 1 })
	for _, at := range []int{48, 63, 64, 80, 96, 104, 108} {
		add(fmt.Sprintf("v2-header-flip-%d", at), "format", fmt.Sprintf("a bit of byte %d of the header, without its checksum", at), func(p *page) {
			w := twoV2(p)
			p.cutFile()
			b := w.aside(func() { w.header() })
			b[at] ^= 0x10
			p.here("log crc2", 108)
			p.put("header, one bit wrong", b...)
			w.put(3, "c", "third")
		})
	}
	for n := 48; n < 112; n++ {
		add(fmt.Sprintf("v2-header-%d", n), "format", "a log without a complete header", func(p *page) {
			w := twoV2(p)
			p.cutFile()
			p.here("log header", n)
			p.cut(n, func() { w.header() })
		})
	}
}

func badSecondFrames(add adder) {
	bad := func(name, field, comment string, f frame) {
		add("v2-frame-"+name, "format", comment, func(p *page) {
			w := twoV2(p)
			w.put(3, "c", "third")
			p.here(field)
			f.comment = name
			w.frame(f)
		})
	}
	for _, typ := range []byte{8, 0x7f} {
		bad(fmt.Sprintf("type-%d", typ), "frame type", "an operation of a newer program", frame{typ: typ, payload: id(1)})
	}
	context := func(name, comment string, c []byte) {
		bad("context-"+name, "context", comment, frame{typ: 3, context: c, payload: id(1)})
	}
	context("tag-zero", "tag 0", value(0, "x"))
	context("tag-twice", "a tag twice", append(value(2, "x"), value(2, "y")...))
	context("tag-order", "tags in the wrong order", append(value(5, "cli"), value(2, "x")...))
	context("short", "3 bytes: shorter than a tag and a length", []byte{1, 0, 0})
	context("rest", "one byte after the last value", append(value(2, "x"), 3))
	context("len", "a value that is longer than the context", []byte{2, 0, 5, 0, 'x'})
	bad("checkpoint-context", "frame type", "a checkpoint with a context", frame{typ: 4, context: value(5, "cli"), payload: make([]byte, 24)})
	bad("remove-context", "frame", "a context that takes the whole payload", frame{typ: 3, context: value(5, "cli4")})
	bad("purge-short", "frame", "a purge of 7 bytes", frame{typ: 5, payload: make([]byte, 7)})
	bad("purge-long", "frame", "a purge of 9 bytes", frame{typ: 5, payload: append(id(1), 0)})
	bad("purged-short", "frame", "a purged of 7 bytes", frame{typ: 6, payload: make([]byte, 7)})
	bad("purged-long", "frame", "a purged of 9 bytes", frame{typ: 6, payload: append(id(1), 0)})
	bad("rename-taken", "frame", "a rename to a name that is taken", frame{typ: 7, payload: rename(1, "b")})
	bad("rename-missing", "frame", "a rename of an entry that does not exist", frame{typ: 7, payload: rename(9, "z")})
	bad("rename-utf8", "frame", "a name that is not UTF-8", frame{typ: 7, payload: rename(1, "\xff")})
	bad("rename-short", "frame", "a rename without the length of its name", frame{typ: 7, payload: id(1)})
	bad("rename-cut", "frame", "a name without its last byte", frame{typ: 7, payload: bytes.TrimSuffix(rename(1, "zz"), []byte("z"))})
	bad("rename-long", "frame", "a byte after the name", frame{typ: 7, payload: append(rename(1, "z"), 0)})
	for typ, payload := range map[byte][]byte{5: id(1), 6: id(1), 7: rename(1, "z")} {
		add(fmt.Sprintf("frame-v1-type-%d", typ), "format", "an operation of version 2 in a log of version 1", func(p *page) {
			w := two(p)
			w.put(3, "c", "third")
			p.here("frame type")
			w.frame(frame{typ: typ, payload: payload, comment: "of version 2"})
		})
	}
}
