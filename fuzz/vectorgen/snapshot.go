package main

import (
	"fmt"
	"math"
	"strings"
)

// snapshots lists the vectors of the CRMEM v1 file.
func snapshots() []vector {
	var all []vector
	add := func(name, expect, comment string, lay func(p *page)) {
		all = append(all, vector{"snapshot/" + name, expect, comment, lay})
	}
	valid(func(name, comment string, lay func(p *page)) { add("ok-"+name, "ok", comment, lay) })
	headers(add)
	truncated(add)
	trailing(add)
	texts(add)
	kindsAndIDs(add)
	crabdb(add)
	return all
}

type adder func(name, expect, comment string, lay func(p *page))

func valid(add func(name, comment string, lay func(p *page))) {
	one := func(name, content string, aliases ...string) func(p *page) {
		return func(p *page) {
			p.header(2, 1)
			p.record(1, 0, name, content, aliases...)
		}
	}
	add("empty", "the smallest file: 28 bytes", func(p *page) { p.header(1, 0) })
	add("empty-used", "no entries, ids spent", func(p *page) { p.header(900, 0) })
	add("one", "the worked example of the house style: 84 bytes", one("deploy", "prod steps", "ship"))
	add("archive", "the fixture of the reference's persistence test, kind 1", func(p *page) {
		p.header(2, 1)
		p.record(1, 1, "hi", "yo", "hey")
	})
	add("three", "notes and an archive, id gaps, next_id not adjacent", func(p *page) {
		p.header(12, 3)
		p.record(1, 0, "a", "first")
		p.record(5, 1, "b", "second", "x", "y")
		p.record(10, 0, "c", "third", "x")
	})
	add("id-zero", "no rule asks ids to begin at 1", func(p *page) {
		p.header(1, 1)
		p.record(0, 0, "a", "b")
	})
	add("smallest-entry", "32 bytes: no name, no content, no aliases", one("", ""))
	add("empty-alias", "an alias of no bytes", one("a", "b", ""))
	add("same-alias-twice", "aliases need not differ", one("a", "b", "x", "x"))
	add("alias-is-a-name", "an alias may be another entry's name", func(p *page) {
		p.header(3, 2)
		p.record(1, 0, "a", "")
		p.record(2, 0, "b", "", "a")
	})
	add("nul", "NUL in every string: new names refuse it, a file's do not", one("a\x00b", "\x00", "\x00c"))
	add("control", "control characters, escapes, DEL", one("\x01\x1b[2J\x7f", "\b\f\v", "\r\n"))
	add("path", "names that no file system takes", one("../../etc/passwd", "", "/", "\\", "CON"))
	add("long-name", "1,025 bytes: above what new names may have", one(strings.Repeat("n", 1025), "x"))
	add("content-2000", "more than a page of content", one("a", strings.Repeat("0123456789", 200)))
	add("utf8-edges", "the first and last character of each length", one("\u007f\u0080\u07ff\u0800", "\ud7ff\ue000\uffff\U00010000\U0010ffff", "\u0000"))
	add("utf8-replacement", "U+FFFD itself is a character", one("\ufffd", "a\ufffdb", "\ufffd"))
	add("utf8-bom", "a byte order mark is text", one("\ufeffa", "\ufeff", "\ufeff"))
	add("utf8-twins", "one name composed, one decomposed: two names", func(p *page) {
		p.header(3, 2)
		p.record(1, 0, "\u00e9", "")
		p.record(2, 0, "e\u0301", "")
	})
	add("case-twins", "two names that differ in case only", func(p *page) {
		p.header(3, 2)
		p.record(1, 0, "Note", "")
		p.record(2, 0, "note", "")
	})
	add("cjk", "names, content and aliases of other scripts", one("日本旅行", "京都のホテル。予約済み 🦀\u200d", "kyoto trip", "旅", "مرحبا"))
	add("created-zero", "created_at 0", func(p *page) {
		p.header(2, 1)
		p.u64("id", 1)
		p.u64("created_at", 0)
		p.u32("kind", 0)
		p.str("name", "a")
		p.str("content", "b")
		p.u32("alias_count", 0)
	})
	add("created-max", "R17: created_at is an integer, all 64 bits", func(p *page) {
		p.header(2, 1)
		p.u64("id", 1)
		p.u64("created_at", math.MaxUint64)
		p.u32("kind", 0)
		p.str("name", "a")
		p.str("content", "b")
		p.u32("alias_count", 0)
	})
	add("next-id-max", "R8: no id is left to give; what is there can be read", func(p *page) {
		p.header(math.MaxUint64, 1)
		p.record(math.MaxUint64-1, 0, "last", "b")
	})
	add("markup", "what would be markup in a page", one("](javascript:alert(1))", "<div id=\"meta\">\n</div>\n", "<b>", "&amp;lt;"))
	add("crlf", "line ends and edge blanks are content", one(" a ", "\r\n\tx \n\n", " sp "))
}

func headers(add adder) {
	for i, c := range []byte("CRMEM\x00") {
		add(fmt.Sprintf("magic-%d", i), "magic", fmt.Sprintf("byte %d of the magic has one bit wrong", i), func(p *page) {
			p.here("magic")
			m := []byte("CRMEM\x00")
			m[i] = c ^ 0x20
			p.put("magic", m...)
			p.version()
			p.flags()
			p.reserved()
			p.next(1)
			p.count(0)
		})
	}
	add("magic-text", "magic", "a text file", func(p *page) {
		p.here("magic")
		p.text("# Notes\n\nThis is not a store, it is a page.\n")
	})
	add("magic-short", "magic", "two bytes of something else", func(p *page) {
		p.here("magic")
		p.text("CX")
	})
	for _, v := range []uint32{0, 2, 99, 0x01000000, math.MaxUint32} {
		add(fmt.Sprintf("version-%d", v), "version", "a version of another time, or byte order", func(p *page) {
			p.magic()
			p.here("version")
			p.u32("version", v)
			p.flags()
			p.reserved()
			p.next(1)
			p.count(0)
		})
	}
	for bit := range 16 {
		add(fmt.Sprintf("flags-%02d", bit), "flags", fmt.Sprintf("flag bit %d: unknown bits are refused", bit), func(p *page) {
			p.magic()
			p.version()
			p.here("flags")
			p.u16("flags", 1<<bit)
			p.reserved()
			p.next(1)
			p.count(0)
		})
	}
	for i := range 4 {
		add(fmt.Sprintf("reserved-%d", i), "reserved", "R4: reserved bytes are zero", func(p *page) {
			p.magic()
			p.version()
			p.flags()
			p.here("reserved")
			b := make([]byte, 4)
			b[i] = 0x80
			p.put("reserved", b...)
			p.next(1)
			p.count(0)
		})
	}
	add("next-id-zero", "next-id", "next_id 0 gives the id 0 next and then 1 again", func(p *page) {
		p.fixed()
		p.here("next_id")
		p.next(0)
		p.count(0)
	})
}

func truncated(add adder) {
	head := func(n int) func(p *page) {
		return func(p *page) {
			h := page{}
			h.header(1, 0)
			p.here("header", n)
			p.put("the beginning of an empty store", h.b[:n]...)
		}
	}
	add("truncated-nothing", "truncated", "a file of no bytes is not a store", head(0))
	add("truncated-magic", "truncated", "half a magic", head(3))
	add("truncated-fixed", "truncated", "header only: the 16 bytes RFC 0150 calls so, without next_id and entry_count", head(16))
	add("truncated-15", "truncated", "one byte less", head(15))
	add("truncated-27", "truncated", "one byte missing of an empty store", head(27))

	add("count-max", "truncated", "R1: 28 bytes that claim 4,294,967,295 entries", func(p *page) {
		p.fixed()
		p.next(1)
		p.here("entry_count")
		p.count(math.MaxUint32)
	})
	add("count-wraps", "truncated", "32 times the count is 32 in 32 bits", func(p *page) {
		p.fixed()
		p.next(2)
		p.here("entry_count")
		p.count(1<<27 + 1)
		p.record(1, 0, "", "")
	})
	add("count-one-more", "truncated", "two entries claimed, one there", func(p *page) {
		p.fixed()
		p.next(3)
		p.here("entry_count")
		p.count(2)
		p.record(1, 0, "a", "b")
	})
	add("entry-missing", "truncated", "the first entry is so long that two seem to fit", func(p *page) {
		p.header(3, 2)
		p.record(1, 0, "a", strings.Repeat("x", 64))
		p.in(1)
		p.here("entry")
	})
	add("entry-cut", "truncated", "31 bytes of a second entry", func(p *page) {
		p.header(3, 2)
		p.record(1, 0, "a", "")
		p.in(1)
		p.fresh(2, 0)
		p.u32("name_len", 0)
		p.u32("content_len", 0)
		p.put("alias_count, cut", 0, 0, 0)
		p.here("entry")
	})
	lengths := []struct {
		name string
		n    uint32
		why  string
	}{
		{"one-more", 9, "one byte more than there is"},
		{"max", math.MaxUint32, "a string of 4 GiB less a byte in a file of a hundred"},
		{"wraps", math.MaxUint32 - 51, "offset plus length wraps to a small number in 32 bits"},
		{"sign", 1 << 31, "negative as a signed number"},
	}
	for _, l := range lengths {
		add("name-len-"+l.name, "truncated", l.why, func(p *page) {
			p.header(2, 1)
			p.in(0)
			p.fresh(1, 0)
			p.here("name_len")
			p.u32("name_len", l.n)
			p.text("12345678")
		})
		add("content-len-"+l.name, "truncated", l.why, func(p *page) {
			p.header(2, 1)
			p.in(0)
			p.fresh(1, 0)
			p.str("name", "a")
			p.here("content_len")
			p.u32("content_len", l.n)
			p.text("12345678")
		})
		add("alias-len-"+l.name, "truncated", l.why, func(p *page) {
			p.header(2, 1)
			p.in(0)
			p.fresh(1, 0)
			p.str("name", "a")
			p.str("content", "b")
			p.u32("alias_count", 1)
			p.here("alias_len")
			p.u32("alias_len", l.n)
			p.text("12345678")
		})
	}
	add("content-len-missing", "truncated", "the name ends the file", func(p *page) {
		p.header(2, 1)
		p.in(0)
		p.fresh(1, 0)
		p.str("name", "12345678")
		p.here("content_len")
	})
	add("alias-count-missing", "truncated", "the content ends the file", func(p *page) {
		p.header(2, 1)
		p.in(0)
		p.fresh(1, 0)
		p.str("name", "a")
		p.str("content", "1234")
		p.here("alias_count")
		p.put("half an alias_count", 0, 0)
	})
	add("alias-count-max", "truncated", "R2: 60 bytes that claim 4,294,967,295 aliases", func(p *page) {
		p.header(2, 1)
		p.in(0)
		p.fresh(1, 0)
		p.str("name", "")
		p.str("content", "")
		p.here("alias_count")
		p.u32("alias_count", math.MaxUint32)
	})
	add("alias-count-wraps", "truncated", "4 times the count is 4 in 32 bits", func(p *page) {
		p.header(2, 1)
		p.in(0)
		p.fresh(1, 0)
		p.str("name", "")
		p.str("content", "")
		p.here("alias_count")
		p.u32("alias_count", 1<<30+1)
		p.str("alias", "")
	})
	add("alias-count-one-more", "truncated", "two aliases claimed, one of three bytes there", func(p *page) {
		p.header(2, 1)
		p.in(0)
		p.fresh(1, 0)
		p.str("name", "")
		p.str("content", "")
		p.here("alias_count")
		p.u32("alias_count", 2)
		p.str("alias", "abc")
	})
	add("alias-len-missing", "truncated", "the first alias is so long that two seem to fit", func(p *page) {
		p.header(2, 1)
		p.in(0)
		p.fresh(1, 0)
		p.str("name", "")
		p.str("content", "")
		p.u32("alias_count", 2)
		p.str("alias", "abcd")
		p.here("alias_len")
	})
}

func trailing(add adder) {
	add("trailing-7", "trailing", "R3: one byte after the last entry", func(p *page) {
		p.header(2, 1)
		p.record(1, 0, "a", "b")
		p.here("trailing")
		p.put("nobody's", 7)
	})
	add("trailing-newline", "trailing", "an editor's newline after an empty store", func(p *page) {
		p.header(1, 0)
		p.here("trailing")
		p.put("newline", '\n')
	})
	add("trailing-zeros", "trailing", "64 zero bytes: a size without data", func(p *page) {
		p.header(2, 1)
		p.record(1, 0, "a", "b")
		p.here("trailing")
		p.put("zeros", make([]byte, 64)...)
	})
	add("trailing-entry", "trailing", "an entry more than entry_count", func(p *page) {
		p.header(3, 1)
		p.record(1, 0, "a", "b")
		p.here("trailing")
		p.record(2, 0, "c", "d")
	})
	add("trailing-store", "trailing", "a store twice", func(p *page) {
		p.header(1, 0)
		p.here("trailing")
		p.header(1, 0)
	})
}

func texts(add adder) {
	bad := []struct {
		name, s string
		at      int
		why     string
	}{
		{"continuation", "ab\x80", 2, "a continuation byte alone"},
		{"cut", "ab\xe6\x97", 2, "the string ends inside a character"},
		{"overlong", "\xc0\xaf", 0, "an overlong slash"},
		{"overlong-nul", "a\xc0\x80", 1, "an overlong NUL, as Java writes it"},
		{"overlong-3", "\xe0\x9f\xbf", 0, "three bytes for what two say"},
		{"surrogate", "a\xed\xa0\x80b", 1, "a lone surrogate"},
		{"cesu", "\xed\xa0\xbd\xed\xb8\x80", 0, "CESU-8: a pair of surrogates"},
		{"beyond", "a\xf4\x90\x80\x80", 1, "beyond U+10FFFF"},
		{"five", "\xf8\x88\x80\x80\x80", 0, "a five-byte form"},
		{"ff", "abc\xffdef", 3, "0xFF begins nothing"},
		{"latin1", "caf\xe9", 3, "Latin-1"},
		{"after-replacement", "\ufffd\x80", 3, "U+FFFD is valid, what follows is not"},
	}
	for _, x := range bad {
		add("utf8-name-"+x.name, "utf8", x.why, func(p *page) {
			p.header(2, 1)
			p.in(0)
			p.fresh(1, 0)
			p.here("name", 4+x.at)
			p.str("name", x.s)
			p.str("content", "")
			p.u32("alias_count", 0)
		})
		add("utf8-content-"+x.name, "utf8", x.why, func(p *page) {
			p.header(3, 2)
			p.record(1, 0, "a", "good")
			p.in(1)
			p.fresh(2, 1)
			p.str("name", "b")
			p.here("content", 4+x.at)
			p.str("content", x.s)
			p.u32("alias_count", 0)
		})
		add("utf8-alias-"+x.name, "utf8", x.why, func(p *page) {
			p.header(2, 1)
			p.in(0)
			p.fresh(1, 0)
			p.str("name", "a")
			p.str("content", "")
			p.u32("alias_count", 2)
			p.str("alias", "good")
			p.here("alias", 4+x.at)
			p.str("alias", x.s)
		})
	}
	add("utf8-across", "utf8", "a character half in the name and half in the content", func(p *page) {
		p.header(2, 1)
		p.in(0)
		p.fresh(1, 0)
		p.here("name", 4)
		p.str("name", "\xc3")
		p.str("content", "\xa9")
		p.u32("alias_count", 0)
	})
}

func kindsAndIDs(add adder) {
	for _, k := range []uint32{2, 3, 9, 0x01000000, math.MaxUint32} {
		add(fmt.Sprintf("kind-%d", k), "kind", "no kind of version 1 (2 is a topic, of a newer reference)", func(p *page) {
			p.header(2, 1)
			p.in(0)
			p.u64("id", 1)
			p.u64("created_at", when)
			p.here("kind")
			p.u32("kind", k)
			p.str("name", "a")
			p.str("content", "b")
			p.u32("alias_count", 0)
		})
	}
	add("dup-name", "dup-name", "R5: one name, two ids", func(p *page) {
		p.header(3, 2)
		p.record(1, 0, "a", "first")
		p.in(1)
		p.here("name", 24)
		p.record(2, 0, "a", "second")
	})
	add("dup-name-apart", "dup-name", "the twin stands three entries on, of the other kind", func(p *page) {
		p.header(9, 4)
		p.record(1, 0, "a", "")
		p.record(2, 0, "b", "")
		p.record(3, 0, "c", "")
		p.in(3)
		p.here("name", 24)
		p.record(4, 1, "a", "")
	})
	add("dup-name-empty", "dup-name", "two entries without a name", func(p *page) {
		p.header(3, 2)
		p.record(1, 0, "", "")
		p.in(1)
		p.here("name", 24)
		p.record(2, 0, "", "")
	})
	add("dup-id", "dup-id", "R6: one id, two names", func(p *page) {
		p.header(3, 2)
		p.record(1, 0, "a", "first")
		p.in(1)
		p.here("id")
		p.record(1, 0, "b", "second")
	})
	add("dup-entry", "dup-id", "the same entry twice", func(p *page) {
		p.header(3, 2)
		p.record(1, 0, "a", "b")
		p.in(1)
		p.here("id")
		p.record(1, 0, "a", "b")
	})
	add("order", "order", "ids descend", func(p *page) {
		p.header(6, 2)
		p.record(5, 0, "a", "")
		p.in(1)
		p.here("id")
		p.record(4, 0, "b", "")
	})
	add("dup-id-apart", "order", "the twin stands two entries on: out of order before it is a twin", func(p *page) {
		p.header(6, 3)
		p.record(1, 0, "a", "")
		p.record(2, 0, "b", "")
		p.in(2)
		p.here("id")
		p.record(1, 0, "c", "")
	})
	add("order-sign", "order", "ids are unsigned: 2^63 comes after 1", func(p *page) {
		p.header(math.MaxUint64, 2)
		p.record(1<<63, 0, "a", "")
		p.in(1)
		p.here("id")
		p.record(1, 0, "b", "")
	})
	add("next-id-equal", "next-id", "R7: next_id is an entry's id", func(p *page) {
		p.header(7, 1)
		p.in(0)
		p.here("id")
		p.record(7, 0, "a", "")
	})
	add("next-id-below", "next-id", "R7: the next Add would write over an entry", func(p *page) {
		p.header(2, 2)
		p.record(1, 0, "a", "")
		p.in(1)
		p.here("id")
		p.record(9, 0, "b", "")
	})
	add("id-max", "next-id", "no next_id is above the largest id", func(p *page) {
		p.header(math.MaxUint64, 1)
		p.in(0)
		p.here("id")
		p.record(math.MaxUint64, 0, "a", "")
	})
}

// crabdb lists files of the later format that has the magic and the version
// of this one: index_at and index_len stand where next_id and entry_count do.
func crabdb(add adder) {
	put := func(p *page, column byte, key, value string) {
		p.put("op put", 0)
		p.put("column", column)
		p.str("key", key)
		p.str("value", value)
	}
	add("crabdb-fresh", "next-id", "crabdb: a new file, no index yet: never an empty store", func(p *page) {
		p.fixed()
		p.here("next_id")
		p.u64("index_at", 0)
		p.u64("index_len", 0)
	})
	add("crabdb-log", "next-id", "crabdb: records without an index", func(p *page) {
		p.fixed()
		p.here("next_id")
		p.u64("index_at", 0)
		p.u64("index_len", 0)
		put(p, 2, "deploy", "prod steps")
	})
	add("crabdb-index", "truncated", "crabdb: records and an index of one key", func(p *page) {
		p.fixed()
		p.u64("index_at", 32+26)
		p.here("entry_count")
		p.u64("index_len", 4+1+4+6+8)
		put(p, 2, "deploy", "prod steps")
		p.u32("count", 1)
		p.put("column", 2)
		p.str("key", "deploy")
		p.u64("offset", 32)
	})
}
