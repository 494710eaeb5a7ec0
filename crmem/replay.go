package crmem

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// applyFrame replays one operation frame on a table. What a frame says must fit
// what is there; if it does not, the log is not this snapshot's.
func applyFrame(f *frame, t *table, nextID *uint64) error {
	fail := func(format string, args ...any) error {
		return &FormatError{Offset: f.off, Entry: -1, Field: "frame", Msg: fmt.Sprintf(format, args...)}
	}
	switch f.typ {
	case framePut:
		r, err := decodeRecord(f.payload)
		if err != nil {
			return fail("put: %v", err)
		}
		if old := t.byID(r.id()); old != "" {
			if old.name() != r.name() || old.kind() != r.kind() || old.createdAt() != r.createdAt() {
				return fail("put changes the name, kind or time of entry %d", r.id())
			}
		} else if t.find(r.name()) >= 0 {
			return fail("put of entry %d takes the name %.80q of another", r.id(), r.name())
		}
		t.put(r)
		*nextID = max(*nextID, r.id()+1)
	case frameAlias:
		if err := checkAlias(f, t); err != nil {
			return err
		}
		t.put(t.byID(binary.LittleEndian.Uint64(f.payload)).withAliases(f.payload[8:]))
	case frameRemove:
		if len(f.payload) != 8 {
			return fail("remove of %d bytes", len(f.payload))
		}
		id := binary.LittleEndian.Uint64(f.payload)
		if t.byID(id) == "" {
			return fail("remove of entry %d, which is not there", id)
		}
		t.remove(id)
	case framePurge, framePurged:
		if len(f.payload) != 8 {
			return fail("type %d of %d bytes", f.typ, len(f.payload))
		}
		if id := binary.LittleEndian.Uint64(f.payload); f.typ == framePurge && t.byID(id) != "" {
			t.remove(id)
		}
	case frameRename:
		return renameEntry(f, t)
	}
	return nil
}

// renameEntry replays a rename frame: an entry that exists, a name that is free.
func renameEntry(f *frame, t *table) error {
	fail := func(format string, args ...any) error {
		return &FormatError{Offset: f.off, Entry: -1, Field: "frame", Msg: fmt.Sprintf(format, args...)}
	}
	if len(f.payload) < 12 || uint64(binary.LittleEndian.Uint32(f.payload[8:])) != uint64(len(f.payload)-12) {
		return fail("rename of %d bytes", len(f.payload))
	}
	old, name := t.byID(binary.LittleEndian.Uint64(f.payload)), f.payload[12:]
	switch {
	case old == "":
		return fail("rename of entry %d, which does not exist", binary.LittleEndian.Uint64(f.payload))
	case !utf8.Valid(name):
		return fail("rename of entry %d: the name is not UTF-8", old.id())
	case old.name() == string(name):
		return nil
	case t.find(string(name)) >= 0:
		return fail("rename of entry %d takes the name %.80q of another", old.id(), name)
	}
	t.remove(old.id())
	t.put(old.withName(name))
	return nil
}

// checkAlias checks an alias frame: an entry that is there, a list and nothing else.
func checkAlias(f *frame, t *table) error {
	fail := func(format string, args ...any) error {
		return &FormatError{Offset: f.off, Entry: -1, Field: "frame", Msg: fmt.Sprintf(format, args...)}
	}
	if len(f.payload) < 12 {
		return fail("alias of %d bytes", len(f.payload))
	}
	if id := binary.LittleEndian.Uint64(f.payload); t.byID(id) == "" {
		return fail("alias of entry %d, which is not there", id)
	}
	if err := checkAliases(f.payload[8:]); err != nil {
		return fail("alias: %v", err)
	}
	return nil
}
