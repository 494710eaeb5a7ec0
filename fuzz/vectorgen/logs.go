package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// logs lists the vectors of the log: a snapshot, and the log beside it. What
// they expect is what a reader that cannot write answers:
//
//	ok       every operation of the log is in the state
//	torn     the log is good up to offset; the rest was never acknowledged
//	rotten   the log is good up to offset; the rest was acknowledged
//	foreign  the log extends another snapshot
//	format   what is whole and synced cannot be so; offset and field say where
//
// "names:" lists the entries of the state.
func logs() []vector {
	var all []vector
	add := func(name, expect, comment string, lay func(p *page)) {
		all = append(all, vector{"log/" + name, expect, comment, lay})
	}
	goodLogs(add)
	tornLogs(add)
	rottenLogs(add)
	badHeaders(add)
	badFrames(add)
	foreignLogs(add)
	secondVersion(add)
	return all
}

// two is a snapshot of the entries a (1) and b (2).
func two(p *page) *wal {
	p.header(3, 2)
	p.record(1, 0, "a", "first", "x")
	p.record(2, 1, "b", "second")
	return p.log()
}

func (p *page) names(s string) {
	p.extra = append(p.extra, strings.TrimRight("names: "+s, " "))
}

func goodLogs(add adder) {
	ok := func(name, comment, names string, lay func(w *wal)) {
		add("ok-"+name, "ok", comment, func(p *page) {
			p.names(names)
			lay(two(p))
		})
	}
	ok("empty", "a log without frames", "a b", func(w *wal) {})
	ok("seq-high", "a log that begins at another sequence number", "a b c", func(w *wal) {
		p := w.p
		p.cutFile()
		w.seq = 1 << 40
		w.header()
		w.put(3, "c", "third")
	})
	ok("put", "one entry added", "a b c", func(w *wal) { w.put(3, "c", "third") })
	ok("put-gap", "the id of an entry that was added is not next_id: ids may be kept", "a b c", func(w *wal) { w.put(9, "c", "third") })
	ok("update", "an entry's content replaced", "a b", func(w *wal) {
		w.frame(frame{typ: 1, payload: entry(1, 0, "a", "rewritten", "y", "z"), comment: "put a"})
	})
	ok("alias", "an entry's aliases replaced, and then none", "a b", func(w *wal) {
		w.frame(frame{typ: 2, payload: aliases(2, "p", "q"), comment: "alias b"})
		w.frame(frame{typ: 2, payload: aliases(1), comment: "alias a"})
	})
	ok("remove", "both entries removed", "", func(w *wal) {
		w.frame(frame{typ: 3, payload: id(1), comment: "remove a"})
		w.frame(frame{typ: 3, payload: id(2), comment: "remove b"})
	})
	ok("again", "a name removed and added again has another id", "b a", func(w *wal) {
		w.frame(frame{typ: 3, payload: id(1), comment: "remove a"})
		w.put(3, "a", "anew")
	})
	ok("batch", "three operations that are one", "b c d", func(w *wal) {
		start := uint64(len(w.p.b))
		w.frame(frame{typ: 1, more: true, synced: start, payload: entry(3, 0, "c", "third"), comment: "put c, more"})
		w.frame(frame{typ: 3, more: true, synced: start, payload: id(1), comment: "remove a, more"})
		w.frame(frame{typ: 1, synced: start, payload: entry(4, 1, "d", "fourth"), comment: "put d"})
	})
	ok("group", "two batches under one sync: the second promises no more than the first", "a b c d", func(w *wal) {
		start := uint64(len(w.p.b))
		w.put(3, "c", "third")
		w.frame(frame{typ: 1, synced: start, payload: entry(4, 0, "d", "fourth"), comment: "put d"})
	})
	ok("checkpoint-before-rename", "a checkpoint frame whose snapshot is not in place: all is replayed on the old one", "a b c", func(w *wal) {
		var next page
		next.header(4, 3)
		w.put(3, "c", "third")
		w.checkpoint(next.b, 1)
	})
	add("ok-checkpoint-after-rename", "ok", "the new snapshot is in place, the old log still there: nothing is replayed", func(p *page) {
		p.names("a c")
		var old page
		old.header(2, 1)
		old.record(1, 0, "a", "first")
		p.header(4, 2)
		p.record(1, 0, "a", "first")
		p.record(3, 0, "c", "third")
		w := &wal{p: p, salt: salt, base: old.b, seq: 1}
		db := p.b
		p.file("wal")
		w.header()
		w.put(2, "b", "second")
		w.frame(frame{typ: 3, payload: id(2), comment: "remove b"})
		w.put(3, "c", "third")
		w.checkpoint(db, 3)
	})
	add("ok-checkpoint-remove", "ok", "the last operation that the snapshot covers is a remove: once more, it would have nothing to remove", func(p *page) {
		p.names("b")
		var old page
		old.header(3, 2)
		old.record(1, 0, "a", "first")
		old.record(2, 0, "b", "second")
		p.header(3, 1)
		p.record(2, 0, "b", "second")
		w := &wal{p: p, salt: salt, base: old.b, seq: 1}
		db := p.b
		p.file("wal")
		w.header()
		w.frame(frame{typ: 3, payload: id(1), comment: "remove a"})
		w.checkpoint(db, 1)
	})
	add("ok-checkpoint-overtaken", "ok", "an operation logged while the snapshot was being written: it stands before the checkpoint and is not in it", func(p *page) {
		p.names("a b c")
		var old page
		old.header(1, 0)
		p.header(3, 2)
		p.record(1, 0, "a", "first")
		p.record(2, 0, "b", "second")
		w := &wal{p: p, salt: salt, base: old.b, seq: 1}
		db := p.b
		p.file("wal")
		w.header()
		w.put(1, "a", "first")
		w.put(2, "b", "second")
		w.put(3, "c", "third")
		w.checkpoint(db, 2)
	})
	add("ok-checkpoint-twice", "ok", "two checkpoints: the first never came into place", func(p *page) {
		p.names("a b c")
		var old, never page
		old.header(1, 0)
		never.header(2, 1)
		never.record(1, 0, "a", "first")
		p.header(3, 2)
		p.record(1, 0, "a", "first")
		p.record(2, 0, "b", "second")
		w := &wal{p: p, salt: salt, base: old.b, seq: 1}
		db := p.b
		p.file("wal")
		w.header()
		w.put(1, "a", "first")
		w.checkpoint(never.b, 1)
		w.put(2, "b", "second")
		w.checkpoint(db, 2)
		w.put(3, "c", "third")
	})
	add("ok-checkpoint-same", "ok", "the checkpoint's snapshot is the base again: the last point counts", func(p *page) {
		p.names("a")
		p.header(3, 1)
		p.record(1, 0, "a", "first")
		db := p.b
		w := p.log()
		w.frame(frame{typ: 2, payload: aliases(1, "x"), comment: "alias a"})
		w.frame(frame{typ: 2, payload: aliases(1), comment: "alias a"})
		w.checkpoint(db, 2)
	})
}

// cutFile drops what the present file has so far.
func (p *page) cutFile() {
	for i := len(p.lines) - 1; p.lines[i].section == ""; i-- {
		p.lines = p.lines[:i]
	}
	p.b = nil
}

func tornLogs(add adder) {
	torn := func(name, comment, names string, lay func(w *wal)) {
		add("torn-"+name, "torn", comment, func(p *page) {
			p.names(names)
			w := two(p)
			w.put(3, "c", "third")
			lay(w)
		})
	}
	torn("byte", "one byte of the next frame", "a b c", func(w *wal) {
		w.p.here("frame")
		w.p.put("type", 1)
	})
	torn("header", "31 bytes: a frame's header without its last byte", "a b c", func(w *wal) {
		w.p.here("frame")
		w.p.cut(31, func() { w.put(4, "d", "fourth") })
	})
	torn("payload", "a payload without its last byte", "a b c", func(w *wal) {
		w.p.here("frame")
		w.p.cut(32+36, func() { w.put(4, "d", "fourth") })
	})
	torn("zeros", "the size grew and the data did not follow", "a b c", func(w *wal) {
		w.p.here("frame")
		w.p.put("hole", make([]byte, 71)...)
	})
	torn("zero", "one zero byte", "a b c", func(w *wal) {
		w.p.here("frame")
		w.p.put("hole", 0)
	})
	torn("garbage", "old bytes of somebody else's file", "a b c", func(w *wal) {
		w.p.here("frame")
		w.p.text("\x01\x00\x00\x00func main() { fmt.Println(\"not a frame\") }\n")
	})
	torn("shifted", "bytes in the middle went missing: nothing behind them is at its place, so nothing there speaks", "a b c", func(w *wal) {
		w.p.here("frame")
		at := len(w.p.b)
		w.p.b = append(w.p.b, w.aside(func() { w.frame(frame{typ: 3, payload: id(1)}) })...)
		second := w.aside(func() { w.frame(frame{typ: 3, payload: id(2)}) })
		w.p.b = w.p.b[:at]
		w.p.put("remove b, at the place of remove a", second...)
	})
	torn("crc", "the last frame has a bit wrong: rot in the last batch is not told from a tear", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 1, payload: entry(4, 0, "d", "fourth"), badCRC: 1, comment: "put d"})
	})
	torn("elsewhere", "a frame of this log at another place: the first one, again", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 1, payload: entry(4, 0, "d", "fourth"), elsewhere: 48, comment: "put d"})
	})
	torn("salt", "a frame of another log at this place", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 1, payload: entry(4, 0, "d", "fourth"), otherSalt: 1, comment: "put d"})
	})
	torn("chain", "a whole frame that does not follow the one before", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 1, payload: entry(4, 0, "d", "fourth"), prev: w.prev ^ 1, comment: "put d"})
	})
	torn("seq-gap", "a sequence number is left out", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 1, payload: entry(4, 0, "d", "fourth"), seq: 3, comment: "put d"})
	})
	torn("seq-again", "a sequence number comes twice", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 1, payload: entry(4, 0, "d", "fourth"), seq: 1, comment: "put d"})
	})
	torn("type-zero", "a frame of type 0 with a good checksum: zero is no type", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 0, payload: id(1), comment: "zero"})
	})
	torn("type-more", "type 0 with the batch bit", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 0, more: true, payload: id(1), comment: "zero, more"})
	})
	torn("padding", "the bytes after the type are not zero", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 3, zero: [3]byte{0, 1, 0}, payload: id(1), comment: "remove a"})
	})
	torn("synced-ahead", "a frame that promises bytes behind itself", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 3, synced: uint64(len(w.p.b)) + 1, payload: id(1), comment: "remove a"})
	})
	torn("synced-header", "a frame that promises less than the log's header", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 3, synced: 47, payload: id(1), comment: "remove a"})
	})
	torn("len", "a length of 4 GiB less a byte", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 3, len: 1<<32 - 1, payload: id(1), comment: "remove a"})
	})
	torn("batch", "the last frame of a batch is missing: none of it counts", "a b c", func(w *wal) {
		w.p.here("frame")
		w.frame(frame{typ: 1, more: true, payload: entry(4, 0, "d", "fourth"), comment: "put d, more"})
	})
	torn("batch-hole", "the middle of a batch is missing, its end is there", "a b c", func(w *wal) {
		p := w.p
		p.here("frame")
		start := uint64(len(p.b))
		w.frame(frame{typ: 3, more: true, synced: start, payload: id(1), comment: "remove a, more"})
		lost := w.aside(func() { w.frame(frame{typ: 3, more: true, synced: start, payload: id(2)}) })
		p.put("hole", make([]byte, len(lost))...)
		w.frame(frame{typ: 3, synced: start, payload: id(3), comment: "remove c"})
	})
	torn("group", "of two batches under one sync the first is torn: the second made no promise of it", "a b c", func(w *wal) {
		p := w.p
		p.here("frame")
		start := uint64(len(p.b))
		w.frame(frame{typ: 1, synced: start, payload: entry(4, 0, "d", "fourth"), badCRC: 1 << 31, comment: "put d"})
		w.frame(frame{typ: 1, synced: start, payload: entry(5, 0, "e", "fifth"), comment: "put e"})
	})
	add("torn-first", "torn", "the first frame of the log, torn", func(p *page) {
		p.names("a b")
		w := two(p)
		p.here("frame")
		p.cut(40, func() { w.put(3, "c", "third") })
	})
	add("torn-checkpoint", "torn", "half a checkpoint frame", func(p *page) {
		p.names("a b c")
		w := two(p)
		w.put(3, "c", "third")
		p.here("frame")
		p.cut(50, func() { w.checkpoint(nil, 1) })
	})
}

// aside returns what lay lays, and lays it not. A log goes on as if it had.
func (p *page) aside(lay func()) []byte {
	keep := *p
	p.b = slices.Clone(p.b)
	p.lines = nil
	lay()
	b := p.b[len(keep.b):]
	*p = keep
	return b
}

func (w *wal) aside(lay func()) []byte { return w.p.aside(lay) }

// cut lays what lay does and drops it beyond n bytes.
func (p *page) cut(n int, lay func()) { p.put("cut short", p.aside(lay)[:n]...) }

func rottenLogs(add adder) {
	rotten := func(name, comment string, lay func(w *wal)) {
		add("rotten-"+name, "rotten", comment, func(p *page) {
			p.names("a b c")
			w := two(p)
			w.put(3, "c", "third")
			p.here("frame")
			lay(w)
			w.put(5, "e", "fifth")
		})
	}
	rotten("crc", "a bit of an old frame's checksum", func(w *wal) {
		w.frame(frame{typ: 1, payload: entry(4, 0, "d", "fourth"), badCRC: 1 << 7, comment: "put d"})
	})
	rotten("payload", "the content of an old frame, without its checksum", func(w *wal) {
		b := w.aside(func() { w.put(4, "d", "fourth") })
		b[len(b)-5] ^= 0x20
		w.p.put("put d, one bit wrong", b...)
	})
	rotten("zeros", "a hole where a frame was", func(w *wal) {
		b := w.aside(func() { w.put(4, "d", "fourth") })
		w.p.put("hole", make([]byte, len(b))...)
	})
	rotten("len", "a length that reaches over the next frame", func(w *wal) {
		w.frame(frame{typ: 3, len: 60, payload: id(1), badCRC: 1, comment: "remove a"})
	})
	rotten("swap", "two frames changed places", func(w *wal) {
		at := len(w.p.b)
		first := w.aside(func() { w.frame(frame{typ: 3, payload: id(1)}) })
		w.p.b = append(w.p.b, first...) // the second is made for the place behind it
		second := w.aside(func() { w.frame(frame{typ: 3, payload: id(2)}) })
		w.p.b = w.p.b[:at]
		w.p.put("remove b", second...)
		w.p.put("remove a", first...)
	})
	rotten("again", "an old frame once more in the place of the next", func(w *wal) {
		first := w.aside(func() { w.frame(frame{typ: 2, payload: aliases(1)}) })
		w.p.put("alias a", first...)
		w.p.here("frame")
		w.aside(func() { w.frame(frame{typ: 2, payload: aliases(2)}) })
		w.p.put("alias a", first...)
	})
	rotten("seq", "a sequence number is left out, and acknowledged", func(w *wal) {
		w.frame(frame{typ: 1, payload: entry(4, 0, "d", "fourth"), seq: 3, comment: "put d"})
	})
	rotten("batch", "an old batch has lost its end", func(w *wal) {
		start := uint64(len(w.p.b))
		w.frame(frame{typ: 3, more: true, synced: start, payload: id(1), comment: "remove a, more"})
		w.frame(frame{typ: 3, synced: start, payload: id(2), badCRC: 2, comment: "remove b"})
	})
}

func badHeaders(add adder) {
	edit := func(name, field, comment string, off int, change func(b []byte)) {
		add("header-"+name, "format", comment, func(p *page) {
			w := two(p)
			p.cutFile()
			p.here(field, off)
			w.header(change)
			w.put(3, "c", "third")
		})
	}
	edit("magic", "log magic", "not a log", 0, func(b []byte) { b[2] = 'M' })
	edit("version-0", "log version", "version 0", 6, func(b []byte) { binary.LittleEndian.PutUint16(b[6:], 0) })
	edit("version-3", "log version", "a newer log", 6, func(b []byte) { binary.LittleEndian.PutUint16(b[6:], 3) })
	edit("reserved", "log reserved", "reserved bytes are zero", 40, func(b []byte) { b[43] = 1 })
	edit("seq", "log seq", "sequence numbers begin at 1", 32, func(b []byte) { binary.LittleEndian.PutUint64(b[32:], 0) })
	edit("seq-high", "log seq", "a sequence number that nobody can have reached", 32, func(b []byte) { binary.LittleEndian.PutUint64(b[32:], 1<<62+1) })
	for _, n := range []int{0, 5, 47} {
		add(fmt.Sprintf("header-%d", n), "format", "a log without a whole header", func(p *page) {
			w := two(p)
			p.cutFile()
			p.here("log header", n)
			p.cut(n, func() { w.header() })
		})
	}
	for _, at := range []int{8, 16, 24, 28, 32, 44} {
		add(fmt.Sprintf("header-flip-%d", at), "format", fmt.Sprintf("a bit of byte %d of the header, without its checksum", at), func(p *page) {
			w := two(p)
			p.cutFile()
			b := w.aside(func() { w.header() })
			b[at] ^= 0x10
			p.here("log crc", 44)
			p.put("header, one bit wrong", b...)
			w.put(3, "c", "third")
		})
	}
}

// badFrames are whole, in their place and in their turn, and say what cannot
// be so.
func badFrames(add adder) {
	bad := func(name, field, comment string, f frame) {
		add("frame-"+name, "format", comment, func(p *page) {
			w := two(p)
			w.put(3, "c", "third")
			p.here(field)
			f.comment = name
			w.frame(f)
		})
	}
	for _, typ := range []byte{5, 6, 0x7f} {
		bad(fmt.Sprintf("type-%d", typ), "frame type", "an operation of a newer program", frame{typ: typ, payload: id(1)})
	}
	bad("type-5-more", "frame type", "an operation of a newer program, in a batch", frame{typ: 5, more: true, payload: id(1)})
	bad("checkpoint-short", "frame type", "a checkpoint without its sequence number", frame{typ: 4, payload: make([]byte, 16)})
	bad("checkpoint-long", "frame type", "a checkpoint of 25 bytes", frame{typ: 4, payload: make([]byte, 25)})
	bad("checkpoint-more", "frame type", "a checkpoint inside a batch", frame{typ: 4, more: true, payload: make([]byte, 24)})
	bad("checkpoint-ahead", "frame type", "a checkpoint of operations that are not in the log yet", frame{typ: 4, payload: append(make([]byte, 16), id(2)...)})
	bad("remove-missing", "frame", "a remove of an entry that is not there", frame{typ: 3, payload: id(9)})
	bad("remove-short", "frame", "a remove of 7 bytes", frame{typ: 3, payload: make([]byte, 7)})
	bad("remove-long", "frame", "a remove of 9 bytes", frame{typ: 3, payload: append(id(1), 0)})
	bad("remove-nothing", "frame", "a remove without a payload", frame{typ: 3})
	bad("alias-missing", "frame", "aliases of an entry that is not there", frame{typ: 2, payload: aliases(9, "x")})
	bad("alias-short", "frame", "aliases without a count", frame{typ: 2, payload: id(1)})
	bad("alias-count", "frame", "a count of aliases that are not there", frame{typ: 2, payload: append(id(1), 0xff, 0xff, 0xff, 0xff)})
	bad("alias-long", "frame", "a byte after the last alias", frame{typ: 2, payload: append(aliases(1, "x"), 0)})
	bad("alias-utf8", "frame", "an alias that is not UTF-8", frame{typ: 2, payload: aliases(1, "\xff")})
	bad("put-short", "frame", "an entry without its last byte", frame{typ: 1, payload: entry(4, 0, "d", "fourth")[:41]})
	bad("put-long", "frame", "a byte after an entry", frame{typ: 1, payload: append(entry(4, 0, "d", "fourth"), 0)})
	bad("put-nothing", "frame", "an entry of no bytes", frame{typ: 1})
	bad("put-kind-2", "frame", "an entry of kind 2", frame{typ: 1, payload: entry(4, 2, "d", "fourth")})
	bad("put-utf8", "frame", "content that is not UTF-8", frame{typ: 1, payload: entry(4, 0, "d", "\xed\xa0\x80")})
	bad("put-id-max", "frame", "an id that no next_id is above", frame{typ: 1, payload: entry(1<<64-1, 0, "d", "fourth")})
	bad("put-name", "frame", "an entry under another name", frame{typ: 1, payload: entry(1, 0, "d", "first")})
	bad("put-kind", "frame", "an entry of the other kind", frame{typ: 1, payload: entry(1, 1, "a", "first")})
	bad("put-taken", "frame", "a new entry under a name that is taken", frame{typ: 1, payload: entry(4, 0, "a", "fourth")})
	created := entry(1, 0, "a", "first")
	created[8]++
	bad("put-created", "frame", "an entry of another time", frame{typ: 1, payload: created})
}

func foreignLogs(add adder) {
	add("foreign", "foreign", "the log of another store, with an operation", func(p *page) {
		p.names("a b")
		p.header(3, 2)
		p.record(1, 0, "a", "first")
		p.record(2, 0, "b", "second")
		var other page
		other.header(3, 2)
		other.record(1, 0, "a", "first")
		other.record(2, 0, "b", "other")
		w := &wal{p: p, salt: salt, base: other.b, seq: 1}
		p.file("wal")
		p.here("base", 16)
		w.header()
		w.put(3, "c", "third")
	})
	add("ok-foreign-empty", "ok", "the log of another store, without an operation: nothing of it is lost", func(p *page) {
		p.names("a")
		p.header(2, 1)
		p.record(1, 0, "a", "first")
		var other page
		other.header(1, 0)
		w := &wal{p: p, salt: salt, base: other.b, seq: 1}
		p.file("wal")
		w.header()
	})
	add("missing-db", "foreign", "the snapshot that the log extends is gone: never an empty store", func(p *page) {
		p.names("")
		p.extra = append(p.extra, "db: missing")
		var other page
		other.header(2, 1)
		other.record(1, 0, "a", "first")
		w := &wal{p: p, salt: salt, base: other.b, seq: 1}
		p.file("wal")
		p.here("base", 16)
		w.header()
		w.put(2, "b", "second")
	})
}
