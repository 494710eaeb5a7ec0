package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// logs returns the vectors of the log. Each vector has a snapshot and a log. The
// vector states the verdict of a read-only reader:
//
//	ok       the state contains every operation of the log
//	torn     the log is valid up to offset; the rest was never acknowledged
//	rotten   the log is valid up to offset; the rest was acknowledged
//	foreign  the log extends another snapshot
//	format   complete and synced bytes are invalid at offset, in field
//
// The header line "names:" lists the entries of the state.
func logs() []vector {
	var all []vector
	for _, class := range []struct {
		prefix, expect string
		base           part
		rows           []row
	}{
		{"ok-", "ok", two, goodLogs}, {"ok-", "ok", seq(), checkpoints}, {"torn-", "torn", tail, tornLogs},
		{"torn-", "torn", two, tornFirst}, {"rotten-", "rotten", tail, rottenLogs}, {"header-", "format", unheaded, badHeaders()},
		{"frame-", "format", seq(two, ops(putC)), badFrames()}, {"", "foreign", seq(), foreignLogs},
		{"ok-", "ok", two, goodContexts}, {"frame-", "format", seq(two, ops(putC)), badContexts()},
	} {
		all = append(all, expecting("log/"+class.prefix, class.expect, class.base, class.rows)...)
	}
	return all
}

var (
	// unheaded is a snapshot of the entries a (ID 1) and b (ID 2), and a log
	// without a header. two adds the header. tail also adds the entry c (ID 3).
	unheaded = seq(header(3, 2), record(1, 0, "a", "first", "x"), record(2, 1, "b", "second"), ownLog)
	two      = seq(unheaded, logHeader())
	tail     = seq(two, names("a b c"), ops(putC), at("frame", 0))
)

var goodLogs = []row{
	edit("empty", "a log without frames", names("a b")),
	edit("seq-high", "a log that begins at another sequence number", names("a b c"), (*page).cutFile, nextSeq(1<<40), logHeader(), ops(putC)),
	edit("put", "one entry added", names("a b c"), ops(putC)),
	edit("put-gap", "an added entry whose id is above next_id: an add may set the id", names("a b c"), ops(putOp(9, "c", "third"))),
	edit("update", "an entry's content replaced", names("a b"), ops(op{1, entry(1, 0, "a", "rewritten", "y", "z"), "put a"})),
	edit("alias", "an entry's aliases replaced, another entry's aliases removed", names("a b"), ops(op{2, aliases(2, "p", "q"), "alias b"}, unaliasA)),
	edit("remove", "both entries removed", names(""), ops(removeA, removeB)),
	edit("again", "a name removed and added again has another id", names("b a"), ops(removeA, putOp(3, "a", "anew"))),
	edit("batch", "three operations in one batch", names("b c d"),
		batch(frame{op: putC}, frame{op: removeA}, frame{op: op{1, entry(4, 1, "d", "fourth"), "put d"}})),
	edit("group", "two batches under one sync: both have the synced_to of the first", names("a b c d"),
		group(frame{op: putC}, frame{op: putD})),
	edit("checkpoint-before-rename", "a checkpoint frame whose snapshot was not renamed: the old snapshot gets all operations",
		names("a b c"), ops(putC, checkpointOp(bytesOf(header(4, 3)), 1))),
}

// checkpoints have the snapshot of a checkpoint and the log from before it.
var checkpoints = []row{
	edit("checkpoint-after-rename", "the new snapshot with the old log: the reader replays no operation", names("a c"),
		header(4, 2), noteA, note(3, "c", "third"), startLog(bytesOf(header(2, 1), noteA)), logHeader(), ops(putB, removeB, putC), ownCheckpoint(3)),
	edit("checkpoint-remove", "the last operation in the snapshot is a remove: replaying it again would fail", names("b"),
		header(3, 1), noteB, startLog(bytesOf(header(3, 2), noteA, noteB)), logHeader(), ops(removeA), ownCheckpoint(1)),
	edit("checkpoint-overtaken", "an operation logged during the checkpoint: its frame is before the checkpoint frame, and the snapshot does not contain it",
		names("a b c"), header(3, 2), noteA, noteB, startLog(bytesOf(empty)), logHeader(), ops(putA, putB, putC), ownCheckpoint(2)),
	edit("checkpoint-twice", "two checkpoints: the snapshot of the first was not renamed", names("a b c"), header(3, 2), noteA, noteB,
		startLog(bytesOf(empty)), logHeader(), ops(putA, checkpointOp(bytesOf(header(2, 1), noteA), 1), putB), ownCheckpoint(2), ops(putC)),
	edit("checkpoint-same", "the checkpoint's snapshot equals the base: replay starts after the checkpoint frame", names("a"),
		header(3, 1), noteA, ownLog, logHeader(), ops(op{2, aliases(1, "x"), "alias a"}, unaliasA), ownCheckpoint(2)),
	edit("foreign-empty", "the log of another store, without operations: the reader ignores it", names("a"),
		header(2, 1), noteA, startLog(bytesOf(empty)), logHeader()),
}

var foreignLogs = []row{
	edit("foreign", "the log of another store, with an operation", names("a b"), header(3, 2), noteA, noteB,
		startLog(bytesOf(header(3, 2), noteA, note(2, "b", "other"))), at("base", 16), logHeader(), ops(putC)),
	edit("missing-db", "the snapshot of the log is missing: a reader must not report an empty store", names(""), extra("db: missing"),
		startLog(bytesOf(header(2, 1), noteA)), at("base", 16), logHeader(), ops(putB)),
}

var tornLogs = []row{
	edit("byte", "one byte of the next frame", put("type", 1)),
	edit("header", "31 bytes: a frame's header without its last byte", cut(31, ops(putD))),
	edit("payload", "a payload without its last byte", cut(32+36, ops(putD))),
	edit("zeros", "the file grew, but its data was not written", put("hole", make([]byte, 71)...)),
	edit("zero", "one zero byte", put("hole", 0)),
	edit("garbage", "old bytes of another file", text("\x01\x00\x00\x00func main() { fmt.Println(\"not a frame\") }\n")),
	edit("shifted", "missing bytes before the last frame: the frame is at a wrong offset and proves no acknowledgement", func(p *page) {
		_, second := p.captureTwo(ops(removeA), ops(removeB))
		p.put("remove b, at the offset of remove a", second...)
	}),
	edit("crc", "a wrong bit in the last frame: corruption of the last batch looks like a torn write", add(frame{op: putD, badCRC: 1})),
	edit("elsewhere", "a frame at a wrong offset: its checksum covers the first frame's offset", add(frame{op: putD, elsewhere: 112})),
	edit("salt", "a frame of another log at this offset", add(frame{op: putD, otherSalt: 1})),
	edit("chain", "a complete frame whose prev is not the checksum of the frame before it", add(frame{op: putD, prev: 1})),
	edit("seq-gap", "a skipped sequence number", add(frame{op: putD, seq: 3})),
	edit("seq-again", "a repeated sequence number", add(frame{op: putD, seq: 1})),
	edit("type-zero", "a frame of type 0 with a valid checksum: 0 is not a type", ops(op{0, id(1), "zero"})),
	edit("type-more", "type 0 with the batch bit", add(frame{op: op{0, id(1), "zero, more"}, more: true})),
	edit("padding", "the byte after the type is not zero", add(frame{op: removeA, zero: 1})),
	edit("context-len", "a context length above the length of context and payload", add(frame{op: removeA, contextLen: 9})),
	edit("context-cut", "a context without its last byte, and no payload", cut(32+6, add(removeByCLI))),
	edit("synced-ahead", "a frame whose synced_to is after its own offset", func(p *page) {
		add(frame{op: removeA, synced: uint64(len(p.b)) + 1})(p)
	}),
	edit("synced-header", "a frame whose synced_to is inside the log's header", add(frame{op: removeA, synced: 111})),
	edit("len", "a length of 4 GiB less a byte", add(frame{op: removeA, len: 1<<32 - 1})),
	edit("batch", "the last frame of a batch is missing: the reader ignores the batch",
		add(frame{op: op{1, putD.payload, "put d, more"}, more: true})),
	edit("batch-hole", "a batch without its middle frame, with its last frame", func(p *page) {
		synced := uint64(len(p.b))
		more := op{3, id(1), "remove a, more"}
		seq(add(frame{op: more, more: true, synced: synced}), hole(add(frame{op: removeB, more: true, synced: synced})),
			add(frame{op: op{3, id(3), "remove c"}, synced: synced}))(p)
	}),
	edit("group", "the first of two batches under one sync is torn: the synced_to of the second does not cover it",
		group(frame{op: putD, badCRC: 1 << 31}, frame{op: putE})),
	edit("checkpoint", "half a checkpoint frame", cut(50, ops(checkpointOp(nil, 1)))),
}

var tornFirst = []row{edit("first", "the first frame of the log, torn", names("a b"), at("frame", 0), cut(40, ops(putC)))}

// captureTwo returns the bytes of x and the bytes of a following y.
func (p *page) captureTwo(x, y part) (a, b []byte) {
	p.capture(func(p *page) {
		n := len(p.b)
		x(p)
		end := len(p.b)
		y(p)
		a, b = p.b[n:end], p.b[end:]
	})
	return a, b
}

// Each of rottenLogs ends with a valid frame whose synced_to covers the others.
var rottenLogs = []row{
	edit("crc", "a wrong bit in the checksum of an old frame", add(frame{op: putD, badCRC: 1 << 7}), ops(putE)),
	edit("payload", "a changed bit in the content of an old frame, with the old checksum", flip("put d, one bit wrong", -5, 0x20, ops(putD)), ops(putE)),
	edit("zeros", "zero bytes in the place of a frame", hole(ops(putD)), ops(putE)),
	edit("context", "a changed bit in the context of an old frame", flip("remove a, one bit wrong", 38, 1, add(removeByCLI)), ops(putE)),
	edit("len", "a length that includes the next frame", add(frame{op: removeA, len: 60, badCRC: 1}), ops(putE)),
	edit("swap", "two frames changed places", func(p *page) {
		a, b := p.captureTwo(ops(removeA), ops(removeB))
		seq(put("remove b", b...), put("remove a", a...), ops(putE))(p)
	}),
	edit("again", "a copy of the previous frame replaces a frame", func(p *page) {
		a := p.capture(ops(unaliasA))
		seq(put("alias a", a...), at("frame", 0))(p)
		p.capture(ops(op{typ: 2, payload: aliases(2)}))
		seq(put("alias a", a...), ops(putE))(p)
	}),
	edit("seq", "a skipped sequence number in an acknowledged frame", add(frame{op: putD, seq: 3}), ops(putE)),
	edit("batch", "an old batch whose last frame is invalid", batch(frame{op: removeA}, frame{op: removeB, badCRC: 2}), ops(putE)),
}

// headerEdit is a log whose header has a valid checksum over changed bytes.
func headerEdit(name, field, comment string, off int, change func(b []byte)) row {
	return edit(name, comment, at(field, off), logHeader(change), ops(putC))
}

func badHeaders() []row {
	le := binary.LittleEndian
	rows := []row{
		headerEdit("magic", "log magic", "not a log", 0, func(b []byte) { b[2] = 'M' }),
		headerEdit("version-0", "log version", "version 0", 6, func(b []byte) { le.PutUint16(b[6:], 0) }),
		headerEdit("version-1", "log version", "a log of a version that is no longer read", 6, func(b []byte) { le.PutUint16(b[6:], 1) }),
		headerEdit("version-3", "log version", "a newer log", 6, func(b []byte) { le.PutUint16(b[6:], 3) }),
		headerEdit("reserved", "log reserved", "reserved bytes are zero", 40, func(b []byte) { b[43] = 1 }),
		headerEdit("seq", "log seq", "sequence numbers begin at 1", 32, func(b []byte) { le.PutUint64(b[32:], 0) }),
		headerEdit("store", "log store", "no identity", 48, func(b []byte) { clear(b[48:64]) }),
		headerEdit("epoch", "log epoch", "no epoch", 64, func(b []byte) { clear(b[64:80]) }),
		headerEdit("prev-epoch-seq", "log prev_epoch", "a prev_seq without a prev_epoch", 80, func(b []byte) { b[96] = 1 }),
		headerEdit("prev-epoch-crc", "log prev_epoch", "a prev_crc without a prev_epoch", 80, func(b []byte) { b[104] = 1 }),
		headerEdit("prev-seq", "log prev_seq", "a prev_seq of this epoch that is not seq minus 1", 96, func(b []byte) {
			copy(b[80:], b[64:80])
			b[96] = 1
		}),
		headerEdit("seq-high", "log seq", "a sequence number that no store can reach", 32, func(b []byte) { le.PutUint64(b[32:], 1<<62+1) }),
	}
	for _, n := range []int{0, 5, 47, 48, 63, 64, 80, 111} {
		rows = append(rows, edit(fmt.Sprint(n), "a log without a complete header", at("log header", n), cut(n, logHeader())))
	}
	rows = append(rows, flippedHeaders("log crc", 44, 8, 16, 24, 28, 32, 44)...)
	return append(rows, flippedHeaders("log crc2", 108, 48, 63, 64, 80, 96, 104, 108)...)
}

// flippedHeaders returns headers with one wrong bit in the bytes that crc covers.
func flippedHeaders(field string, crc int, places ...int) (rows []row) {
	for _, i := range places {
		rows = append(rows, edit(fmt.Sprintf("flip-%d", i), fmt.Sprintf("a changed bit in byte %d of the header, with the old checksum", i),
			at(field, crc), flip("header, one bit wrong", i, 0x10, logHeader()), ops(putC)))
	}
	return rows
}

// badFrame returns a valid frame with an invalid operation.
func badFrame(name, field, comment string, f frame) row {
	f.comment = name
	return edit(name, comment, at(field, 0), add(f))
}

func bad(name, comment string, typ byte, payload []byte) row {
	return badFrame(name, "frame", comment, frame{op: op{typ: typ, payload: payload}})
}

func badType(name, comment string, typ byte, payload []byte) row {
	return badFrame(name, "frame type", comment, frame{op: op{typ: typ, payload: payload}})
}

func badFrames() []row {
	created := entry(1, 0, "a", "first")
	created[8]++
	return []row{
		badType("type-8", "an operation of a newer program", 8, id(1)),
		badType("type-127", "an operation of a newer program", 0x7f, id(1)),
		badFrame("type-8-more", "frame type", "an operation of a newer program, in a batch", frame{op: op{typ: 8, payload: id(1)}, more: true}),
		badType("checkpoint-short", "a checkpoint without its sequence number", 4, make([]byte, 16)),
		badType("checkpoint-long", "a checkpoint of 25 bytes", 4, make([]byte, 25)),
		badFrame("checkpoint-more", "frame type", "a checkpoint inside a batch", frame{op: op{typ: 4, payload: make([]byte, 24)}, more: true}),
		badType("checkpoint-ahead", "a checkpoint whose sequence number is after the last frame", 4, append(make([]byte, 16), id(2)...)),
		bad("remove-missing", "a remove of an entry that does not exist", 3, id(9)),
		bad("remove-short", "a remove of 7 bytes", 3, make([]byte, 7)),
		bad("remove-long", "a remove of 9 bytes", 3, append(id(1), 0)),
		bad("remove-nothing", "a remove without a payload", 3, nil),
		bad("alias-missing", "aliases of an entry that does not exist", 2, aliases(9, "x")),
		bad("alias-short", "aliases without a count", 2, id(1)),
		bad("alias-count", "a count of aliases without the aliases", 2, append(id(1), 0xff, 0xff, 0xff, 0xff)),
		bad("alias-long", "a byte after the last alias", 2, append(aliases(1, "x"), 0)),
		bad("alias-utf8", "an alias that is not UTF-8", 2, aliases(1, "\xff")),
		bad("put-short", "an entry without its last byte", 1, putD.payload[:41]),
		bad("put-long", "a byte after an entry", 1, append(entry(4, 0, "d", "fourth"), 0)),
		bad("put-nothing", "an entry of no bytes", 1, nil),
		bad("put-kind-2", "an entry of kind 2", 1, entry(4, 2, "d", "fourth")),
		bad("put-utf8", "content that is not UTF-8", 1, entry(4, 0, "d", "\xed\xa0\x80")),
		bad("put-id-max", "the maximum id: no next_id is larger", 1, entry(1<<64-1, 0, "d", "fourth")),
		bad("put-name", "an existing entry with another name", 1, entry(1, 0, "d", "first")),
		bad("put-kind", "an existing entry with another kind", 1, entry(1, 1, "a", "first")),
		bad("put-taken", "a new entry with the name of an existing entry", 1, entry(4, 0, "a", "fourth")),
		bad("put-created", "an existing entry with another created_at", 1, created),
	}
}

// goodContexts are logs with predecessors, contexts, and later types of operations.
var goodContexts = []row{
	edit("before", "a header that continues the same epoch", names("a b c"), (*page).cutFile, nextSeq(8), logHeader(func(b []byte) {
		copy(b[80:], b[64:80])
		binary.LittleEndian.PutUint64(b[96:], 7)
		binary.LittleEndian.PutUint32(b[104:], 0xfeedface)
	}), ops(putC)),
	edit("before-other", "a header that continues another epoch, at another sequence number", names("a b"), (*page).cutFile, logHeader(func(b []byte) {
		copy(b[80:], "some older epoch")
		binary.LittleEndian.PutUint64(b[96:], 99)
	})),
	edit("context", "a context of every tag", names("a b c"), add(frame{op: putC, context: bytes.Join([][]byte{value(1, "\x00\x00\x64\xa7\xb3\xb6\xe0\x0d"),
		value(2, "crab"), value(3, "crab_user_1"), value(4, "call_1"), value(5, "cli"), value(6, "local"), value(7, "op 1")}, nil)})),
	edit("context-unknown", "tags of no version, and an empty value", names("a b c"),
		add(frame{op: putC, context: append(append(value(2, ""), value(8, "eight")...), value(65535, "last")...)})),
	edit("context-alias", "aliases, with a context", names("a b"), add(frame{op: unaliasA, context: value(5, "mcp")})),
	edit("purge", "an entry purged, and the purge complete", names("b"),
		add(frame{op: op{5, id(1), "purge a"}, context: value(5, "cli")}), ops(op{6, id(1), "purged a"})),
	edit("purge-missing", "a purge of an entry that does not exist", names("a b"), ops(op{5, id(9), "purge 9"}, op{6, id(9), "purged 9"})),
	edit("rename", "an entry renamed, its old name free for another", names("c b a"),
		ops(op{7, newName(1, "c"), "rename a to c"}, putOp(3, "a", "another"))),
	edit("rename-same", "a rename to the entry's own name", names("a b"), ops(op{7, newName(1, "a"), "rename a to a"})),
	edit("rename-swap", "two entries exchange names in one batch", names("b a"), batch(frame{op: op{7, newName(1, "t"), "rename a to t"}},
		frame{op: op{7, newName(2, "a"), "rename b to a"}}, frame{op: op{7, newName(1, "b"), "rename t to b"}})),
	edit("checkpoint", "a checkpoint frame whose snapshot was not renamed", names("a b c"), ops(putC, checkpointOp([]byte("another snapshot"), 1))),
}

var removeByCLI = frame{op: removeA, context: value(5, "cli")}

func badContexts() []row {
	context := func(name, comment string, c []byte) row {
		return badFrame("context-"+name, "context", comment, frame{op: removeA, context: c})
	}
	return []row{
		context("tag-zero", "tag 0", value(0, "x")),
		context("tag-twice", "a tag twice", append(value(2, "x"), value(2, "y")...)),
		context("tag-order", "tags in the wrong order", append(value(5, "cli"), value(2, "x")...)),
		context("short", "3 bytes: shorter than a tag and a length", []byte{1, 0, 0}),
		context("rest", "one byte after the last value", append(value(2, "x"), 3)),
		context("len", "a value that is longer than the context", []byte{2, 0, 5, 0, 'x'}),
		badFrame("checkpoint-context", "frame type", "a checkpoint with a context", frame{op: op{typ: 4, payload: make([]byte, 24)}, context: value(5, "cli")}),
		badFrame("remove-context", "frame", "a context that fills the frame, without a payload", frame{op: op{typ: 3}, context: value(5, "cli4")}),
		bad("purge-short", "a purge of 7 bytes", 5, make([]byte, 7)),
		bad("purge-long", "a purge of 9 bytes", 5, append(id(1), 0)),
		bad("purged-short", "a purged operation of 7 bytes", 6, make([]byte, 7)),
		bad("purged-long", "a purged operation of 9 bytes", 6, append(id(1), 0)),
		bad("rename-taken", "a rename to the name of another entry", 7, newName(1, "b")),
		bad("rename-missing", "a rename of an entry that does not exist", 7, newName(9, "z")),
		bad("rename-utf8", "a name that is not UTF-8", 7, newName(1, "\xff")),
		bad("rename-short", "a rename without the length of its name", 7, id(1)),
		bad("rename-cut", "a name without its last byte", 7, bytes.TrimSuffix(newName(1, "zz"), []byte("z"))),
		bad("rename-long", "a byte after the name", 7, append(newName(1, "z"), 0)),
	}
}
