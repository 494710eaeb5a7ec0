package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The parts of a snapshot, in the order of RFC 0150.

const when = 1776162225 // 2026-04-14T10:23:45Z

var (
	magic    = put(`magic "CRMEM\0"`, []byte("CRMEM\x00")...)
	version  = u32("version", 1)
	flags    = u16("flags", 0)
	reserved = put("reserved", 0, 0, 0, 0)
	fixed    = seq(magic, version, flags, reserved)
	unused   = seq(next(1), count(0))
	empty    = header(1, 0)
	first    = seq(header(2, 1), in(0), fresh(1, 0)) // an entry before its name_len
	unnamed  = seq(first, str("name", ""), str("content", ""))
)

func next(id uint64) part { return u64("next_id", id) }

func count(n uint32) part { return u32("entry_count", n) }

func header(id uint64, n uint32) part { return seq(fixed, next(id), count(n)) }

// fresh is the start of an entry, before its name_len.
func fresh(id uint64, kind uint32) part {
	return seq(u64("id", id), u64("created_at", when), u32("kind", kind))
}

func record(id uint64, kind uint32, name, content string, aliases ...string) part {
	return seq(fresh(id, kind), body(name, content, aliases...))
}

func body(name, content string, aliases ...string) part {
	parts := []part{str("name", name), str("content", content), u32("alias_count", uint32(len(aliases)))}
	for _, a := range aliases {
		parts = append(parts, str("alias", a))
	}
	return seq(parts...)
}

func note(id uint64, name, content string) part { return record(id, 0, name, content) }

// one is a store of one note.
func one(name, content string, aliases ...string) part {
	return seq(header(2, 1), record(1, 0, name, content, aliases...))
}

// snapshots returns the vectors of the CRMEM v1 file.
func snapshots() []vector {
	var all []vector
	for _, class := range []struct {
		expect string
		rows   []row
	}{
		{"ok", validSnapshots}, {"magic", magicFaults()}, {"version", versionFaults()}, {"flags", flagFaults()},
		{"reserved", reservedFaults()}, {"next-id", nextIDFaults}, {"truncated", slices.Concat(truncations, lengthFaults())},
		{"trailing", trailingBytes}, {"utf8", textFaults()}, {"kind", kindFaults()}, {"dup-name", duplicateNames},
		{"dup-id", duplicateIDs}, {"order", orderFaults},
	} {
		all = append(all, expecting("snapshot/", class.expect, seq(), class.rows)...)
	}
	return all
}

var validSnapshots = []row{
	edit("ok-empty", "the smallest file: 28 bytes", empty),
	edit("ok-empty-used", "no entries, but used ids", header(900, 0)),
	edit("ok-one", "the worked example of the house style: 84 bytes", one("deploy", "prod steps", "ship")),
	edit("ok-archive", "the fixture of the reference's persistence test, kind 1", header(2, 1), record(1, 1, "hi", "yo", "hey")),
	edit("ok-three", "notes and an archive, with gaps in the ids and before next_id",
		header(12, 3), note(1, "a", "first"), record(5, 1, "b", "second", "x", "y"), record(10, 0, "c", "third", "x")),
	edit("ok-id-zero", "an id may be 0", header(1, 1), note(0, "a", "b")),
	edit("ok-smallest-entry", "32 bytes: no name, no content, no aliases", one("", "")),
	edit("ok-empty-alias", "an alias of no bytes", one("a", "b", "")),
	edit("ok-same-alias-twice", "two equal aliases", one("a", "b", "x", "x")),
	edit("ok-alias-is-a-name", "an alias may be another entry's name", header(3, 2), note(1, "a", ""), record(2, 0, "b", "", "a")),
	edit("ok-nul", "NUL in every string: valid in a file, refused in new names", one("a\x00b", "\x00", "\x00c")),
	edit("ok-control", "control characters, escapes, DEL", one("\x01\x1b[2J\x7f", "\b\f\v", "\r\n")),
	edit("ok-path", "names that are invalid or special in file systems", one("../../etc/passwd", "", "/", "\\", "CON")),
	edit("ok-long-name", "1,025 bytes: above the limit of new names", one(strings.Repeat("n", 1025), "x")),
	edit("ok-content-2000", "more than a page of content", one("a", strings.Repeat("0123456789", 200))),
	edit("ok-utf8-edges", "the first and last character of each length",
		one("\u007f\u0080\u07ff\u0800", "\ud7ff\ue000\uffff\U00010000\U0010ffff", "\u0000")),
	edit("ok-utf8-replacement", "U+FFFD is a valid character", one("\ufffd", "a\ufffdb", "\ufffd")),
	edit("ok-utf8-bom", "a byte order mark is part of the text", one("\ufeffa", "\ufeff", "\ufeff")),
	edit("ok-utf8-twins", "a composed and a decomposed name are different names", header(3, 2), note(1, "\u00e9", ""), note(2, "e\u0301", "")),
	edit("ok-case-twins", "two names that differ only in case", header(3, 2), note(1, "Note", ""), note(2, "note", "")),
	edit("ok-cjk", "names, content and aliases of other scripts", one("日本旅行", "京都のホテル。予約済み 🦀\u200d", "kyoto trip", "旅", "مرحبا")),
	edit("ok-created-zero", "created_at 0", header(2, 1), u64("id", 1), u64("created_at", 0), u32("kind", 0), body("a", "b")),
	edit("ok-created-max", "R17: created_at is an integer, all 64 bits",
		header(2, 1), u64("id", 1), u64("created_at", math.MaxUint64), u32("kind", 0), body("a", "b")),
	edit("ok-next-id-max", "R8: no ids are left, but the entries are readable", header(math.MaxUint64, 1), note(math.MaxUint64-1, "last", "b")),
	edit("ok-markup", "characters that are markup in a Markdown page", one("](javascript:alert(1))", "<div id=\"meta\">\n</div>\n", "<b>", "&amp;lt;")),
	edit("ok-crlf", "line ends, and white space at both ends, are content", one(" a ", "\r\n\tx \n\n", " sp ")),
}

func magicFaults() []row {
	rows := []row{
		edit("magic-text", "a text file", at("magic", 0), text("# Notes\n\nThis is not a store, it is a page.\n")),
		edit("magic-short", "two bytes of another format", at("magic", 0), text("CX")),
	}
	for i := range 6 {
		m := []byte("CRMEM\x00")
		m[i] ^= 0x20
		rows = append(rows, edit(fmt.Sprintf("magic-%d", i), fmt.Sprintf("byte %d of the magic has one wrong bit", i),
			at("magic", 0), put("magic", m...), version, flags, reserved, unused))
	}
	return rows
}

func versionFaults() (rows []row) {
	for _, v := range []uint32{0, 2, 99, 0x01000000, math.MaxUint32} {
		rows = append(rows, edit(fmt.Sprintf("version-%d", v), "an unknown version, or another byte order",
			magic, at("version", 0), u32("version", v), flags, reserved, unused))
	}
	return rows
}

func flagFaults() (rows []row) {
	for bit := range 16 {
		rows = append(rows, edit(fmt.Sprintf("flags-%02d", bit), fmt.Sprintf("flag bit %d: unknown bits are refused", bit),
			magic, version, at("flags", 0), u16("flags", 1<<bit), reserved, unused))
	}
	return rows
}

func reservedFaults() (rows []row) {
	for i := range 4 {
		b := make([]byte, 4)
		b[i] = 0x80
		rows = append(rows, edit(fmt.Sprintf("reserved-%d", i), "R4: reserved bytes are zero",
			magic, version, flags, at("reserved", 0), put("reserved", b...), unused))
	}
	return rows
}

// crabdb is the start of a file of a later format with the same magic and version. It
// has index_at and index_len in the place of next_id and entry_count.
var crabdb = seq(fixed, at("next_id", 0), u64("index_at", 0), u64("index_len", 0))

func crabdbPut(column byte, key, value string) part {
	return seq(put("op put", 0), put("column", column), str("key", key), str("value", value))
}

var nextIDFaults = []row{
	edit("next-id-zero", "with next_id 0, later entries get the ids 0 and 1", fixed, at("next_id", 0), next(0), count(0)),
	edit("next-id-equal", "R7: next_id is an entry's id", header(7, 1), in(0), at("id", 0), note(7, "a", "")),
	edit("next-id-below", "R7: a later Add would reuse an entry's id",
		header(2, 2), note(1, "a", ""), in(1), at("id", 0), note(9, "b", "")),
	edit("id-max", "no next_id is above the largest id", header(math.MaxUint64, 1), in(0), at("id", 0), note(math.MaxUint64, "a", "")),
	edit("crabdb-fresh", "crabdb: a new file without an index is not an empty store", crabdb),
	edit("crabdb-log", "crabdb: records without an index", crabdb, crabdbPut(2, "deploy", "prod steps")),
}

func half(n int) part {
	return seq(at("header", n), put("the start of an empty store", bytesOf(empty)[:n]...))
}

var truncations = []row{
	edit("truncated-nothing", "an empty file is not a store", half(0)),
	edit("truncated-magic", "half a magic", half(3)),
	edit("truncated-fixed", "only the 16 bytes that RFC 0150 calls the header, without next_id and entry_count", half(16)),
	edit("truncated-15", "15 of these 16 bytes", half(15)),
	edit("truncated-27", "an empty store without its last byte", half(27)),
	edit("count-max", "R1: 28 bytes that claim 4,294,967,295 entries", fixed, next(1), at("entry_count", 0), count(math.MaxUint32)),
	edit("count-wraps", "32 times the count overflows to 32 in 32 bits", fixed, next(2), at("entry_count", 0), count(1<<27+1), note(1, "", "")),
	edit("count-one-more", "entry_count is 2, but the file has one entry", fixed, next(3), at("entry_count", 0), count(2), note(1, "a", "b")),
	edit("entry-missing", "the first entry is long enough for two minimal entries",
		header(3, 2), note(1, "a", strings.Repeat("x", 64)), in(1), at("entry", 0)),
	edit("entry-cut", "31 bytes of a second entry", header(3, 2), note(1, "a", ""), in(1), fresh(2, 0),
		u32("name_len", 0), u32("content_len", 0), put("alias_count, cut", 0, 0, 0), at("entry", 0)),
	edit("content-len-missing", "the file ends after the name", first, str("name", "12345678"), at("content_len", 0)),
	edit("alias-count-missing", "the file ends inside the alias_count",
		first, str("name", "a"), str("content", "1234"), at("alias_count", 0), put("half an alias_count", 0, 0)),
	edit("alias-count-max", "R2: 60 bytes that claim 4,294,967,295 aliases", unnamed, at("alias_count", 0), u32("alias_count", math.MaxUint32)),
	edit("alias-count-wraps", "4 times the count overflows to 4 in 32 bits",
		unnamed, at("alias_count", 0), u32("alias_count", 1<<30+1), str("alias", "")),
	edit("alias-count-one-more", "alias_count is 2, but the file has one alias of three bytes",
		unnamed, at("alias_count", 0), u32("alias_count", 2), str("alias", "abc")),
	edit("alias-len-missing", "the first alias is long enough for two empty aliases",
		unnamed, u32("alias_count", 2), str("alias", "abcd"), at("alias_len", 0)),
	edit("crabdb-index", "crabdb: records and an index of one key", fixed, u64("index_at", 32+26), at("entry_count", 0),
		u64("index_len", 4+1+4+6+8), crabdbPut(2, "deploy", "prod steps"), u32("count", 1), put("column", 2), str("key", "deploy"), u64("offset", 32)),
}

func lengthFaults() (rows []row) {
	for _, l := range []struct {
		name string
		n    uint32
		why  string
	}{
		{"one-more", 9, "one byte more than the file has"},
		{"max", math.MaxUint32, "a string of 4 GiB less a byte in a file of a hundred bytes"},
		{"wraps", math.MaxUint32 - 51, "offset plus length overflows to a small number in 32 bits"},
		{"sign", 1 << 31, "negative as a signed number"},
	} {
		wrong := func(field string) part { return seq(at(field, 0), u32(field, l.n), text("12345678")) }
		rows = append(rows,
			edit("name-len-"+l.name, l.why, first, wrong("name_len")),
			edit("content-len-"+l.name, l.why, first, str("name", "a"), wrong("content_len")),
			edit("alias-len-"+l.name, l.why, first, str("name", "a"), str("content", "b"), u32("alias_count", 1), wrong("alias_len")))
	}
	return rows
}

var trailingBytes = []row{
	edit("trailing-7", "R3: one byte after the last entry", one("a", "b"), at("trailing", 0), put("extra byte", 7)),
	edit("trailing-newline", "an editor's newline after an empty store", empty, at("trailing", 0), put("newline", '\n')),
	edit("trailing-zeros", "64 zero bytes: the file grew, but its data was not written", one("a", "b"), at("trailing", 0), put("zeros", make([]byte, 64)...)),
	edit("trailing-entry", "one entry more than entry_count", header(3, 1), note(1, "a", "b"), at("trailing", 0), note(2, "c", "d")),
	edit("trailing-store", "a store twice", empty, at("trailing", 0), empty),
}

func textFaults() []row {
	rows := []row{edit("utf8-across", "a character whose bytes are split between the name and the content", first, at("name", 4), body("\xc3", "\xa9"))}
	for _, x := range []struct {
		name, s string
		at      int
		why     string
	}{
		{"continuation", "ab\x80", 2, "a continuation byte without a first byte"},
		{"cut", "ab\xe6\x97", 2, "the string ends inside a character"},
		{"overlong", "\xc0\xaf", 0, "an overlong slash"},
		{"overlong-nul", "a\xc0\x80", 1, "an overlong NUL, as Java writes it"},
		{"overlong-3", "\xe0\x9f\xbf", 0, "three bytes for a character of two bytes"},
		{"surrogate", "a\xed\xa0\x80b", 1, "a lone surrogate"},
		{"cesu", "\xed\xa0\xbd\xed\xb8\x80", 0, "CESU-8: a character as two surrogates"},
		{"beyond", "a\xf4\x90\x80\x80", 1, "beyond U+10FFFF"},
		{"five", "\xf8\x88\x80\x80\x80", 0, "a five-byte form"},
		{"ff", "abc\xffdef", 3, "0xFF starts no character"},
		{"latin1", "caf\xe9", 3, "Latin-1"},
		{"after-replacement", "\ufffd\x80", 3, "an invalid byte after a valid U+FFFD"},
	} {
		rows = append(rows,
			edit("utf8-name-"+x.name, x.why, first, at("name", 4+x.at), body(x.s, "")),
			edit("utf8-content-"+x.name, x.why, header(3, 2), note(1, "a", "good"), in(1), fresh(2, 1), str("name", "b"),
				at("content", 4+x.at), str("content", x.s), u32("alias_count", 0)),
			edit("utf8-alias-"+x.name, x.why, first, str("name", "a"), str("content", ""), u32("alias_count", 2), str("alias", "good"),
				at("alias", 4+x.at), str("alias", x.s)))
	}
	return rows
}

func kindFaults() (rows []row) {
	for _, k := range []uint32{2, 3, 9, 0x01000000, math.MaxUint32} {
		rows = append(rows, edit(fmt.Sprintf("kind-%d", k), "not a kind of version 1 (2 is a topic in a newer reference)",
			header(2, 1), in(0), u64("id", 1), u64("created_at", when), at("kind", 0), u32("kind", k), body("a", "b")))
	}
	return rows
}

var duplicateNames = []row{
	edit("dup-name", "R5: two ids have one name", header(3, 2), note(1, "a", "first"), in(1), at("name", 24), note(2, "a", "second")),
	edit("dup-name-apart", "the duplicate is three entries later and of the other kind",
		header(9, 4), note(1, "a", ""), note(2, "b", ""), note(3, "c", ""), in(3), at("name", 24), record(4, 1, "a", "")),
	edit("dup-name-empty", "two entries without a name", header(3, 2), note(1, "", ""), in(1), at("name", 24), note(2, "", "")),
}

var duplicateIDs = []row{
	edit("dup-id", "R6: two names have one id", header(3, 2), note(1, "a", "first"), in(1), at("id", 0), note(1, "b", "second")),
	edit("dup-entry", "the same entry twice", header(3, 2), note(1, "a", "b"), in(1), at("id", 0), note(1, "a", "b")),
}

var orderFaults = []row{
	edit("order", "ids descend", header(6, 2), note(5, "a", ""), in(1), at("id", 0), note(4, "b", "")),
	edit("dup-id-apart", "the duplicate is two entries later: readers report the order first",
		header(6, 3), note(1, "a", ""), note(2, "b", ""), in(2), at("id", 0), note(1, "c", "")),
	edit("order-sign", "ids are unsigned: 2^63 comes after 1",
		header(math.MaxUint64, 2), note(1<<63, "a", ""), in(1), at("id", 0), note(1, "b", "")),
}
