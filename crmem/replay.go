package crmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"crabmem/crmem/internal/format"
)

// applyFrame replays one operation frame on a table. It returns an error if the
// frame contradicts the table: the log then belongs to another snapshot.
func applyFrame(f *format.Frame, t *table, nextID *uint64) error {
	fail := func(format string, args ...any) error {
		return &FormatError{Offset: f.Offset, Entry: -1, Field: "frame", Msg: fmt.Sprintf(format, args...)}
	}
	switch f.Type {
	case format.FramePut:
		r, err := format.DecodeRecord(f.Payload)
		if err != nil {
			return &FormatError{Offset: f.Offset, Entry: -1, Field: "frame", Msg: fmt.Sprintf("put: %v", err), Newer: errors.Is(err, ErrNewer)}
		}
		if old := t.byID(r.ID()); old != "" {
			if old.Name() != r.Name() || old.Kind() != r.Kind() || old.CreatedAt() != r.CreatedAt() {
				return fail("put changes the name, kind, or time of entry %d", r.ID())
			}
		} else if t.byName(r.Name()) != "" {
			return fail("put of entry %d uses the name %.80q of another entry", r.ID(), r.Name())
		}
		t.put(r)
		*nextID = max(*nextID, r.ID()+1)
	case format.FrameAlias:
		if err := checkAlias(f, t); err != nil {
			return err
		}
		t.put(t.byID(binary.LittleEndian.Uint64(f.Payload)).WithAliases(f.Payload[8:]))
	case format.FrameRemove:
		if len(f.Payload) != 8 {
			return fail("remove of %d bytes", len(f.Payload))
		}
		id := binary.LittleEndian.Uint64(f.Payload)
		if t.byID(id) == "" {
			return fail("remove of entry %d, which does not exist", id)
		}
		t.remove(id)
	case format.FramePurge, format.FramePurged:
		if len(f.Payload) != 8 {
			return fail("type %d of %d bytes", f.Type, len(f.Payload))
		}
		if id := binary.LittleEndian.Uint64(f.Payload); f.Type == format.FramePurge && t.byID(id) != "" {
			t.remove(id)
		}
	case format.FrameRename:
		return renameEntry(f, t)
	}
	return nil
}

// renameEntry replays a rename frame: an entry that exists, a name that is free.
func renameEntry(f *format.Frame, t *table) error {
	fail := func(format string, args ...any) error {
		return &FormatError{Offset: f.Offset, Entry: -1, Field: "frame", Msg: fmt.Sprintf(format, args...)}
	}
	if len(f.Payload) < 12 || uint64(binary.LittleEndian.Uint32(f.Payload[8:])) != uint64(len(f.Payload)-12) {
		return fail("rename of %d bytes", len(f.Payload))
	}
	old, name := t.byID(binary.LittleEndian.Uint64(f.Payload)), f.Payload[12:]
	switch {
	case old == "":
		return fail("rename of entry %d, which does not exist", binary.LittleEndian.Uint64(f.Payload))
	case !utf8.Valid(name):
		return fail("rename of entry %d: the name is not UTF-8", old.ID())
	case old.Name() == string(name):
		return nil
	case t.byName(string(name)) != "":
		return fail("rename of entry %d uses the name %.80q of another entry", old.ID(), name)
	}
	t.remove(old.ID())
	t.put(old.WithName(name))
	return nil
}

// checkAlias checks an alias frame: an existing entry, and exactly one list.
func checkAlias(f *format.Frame, t *table) error {
	fail := func(format string, args ...any) error {
		return &FormatError{Offset: f.Offset, Entry: -1, Field: "frame", Msg: fmt.Sprintf(format, args...)}
	}
	if len(f.Payload) < 12 {
		return fail("alias of %d bytes", len(f.Payload))
	}
	if id := binary.LittleEndian.Uint64(f.Payload); t.byID(id) == "" {
		return fail("alias of entry %d, which does not exist", id)
	}
	if err := format.CheckAliases(f.Payload[8:]); err != nil {
		return fail("alias: %v", err)
	}
	return nil
}

// replay applies the log to a table of the snapshot that contains operations up
// to seq. It compares sequence numbers, not offsets, because operations that
// were logged while a snapshot was written precede the frame with its digest.
func (v *files) replay(t *table, nextID *uint64, seq uint64) (ops int, err error) {
	// An alias frame is short, but applying it copies its entry, which may be
	// large. So only the last of several for one entry is applied.
	lists := make(map[uint64][]byte)
	for i := range v.scan.Frames {
		f := &v.scan.Frames[i]
		if f.Type == format.FrameCheckpoint || f.Seq <= seq {
			continue
		}
		if f.Type == format.FrameAlias {
			err = checkAlias(f, t)
		} else {
			err = applyFrame(f, t, nextID)
		}
		if err != nil {
			return ops, errors.Join(err, t.file.broken())
		}
		switch f.Type {
		case format.FrameAlias:
			lists[binary.LittleEndian.Uint64(f.Payload)] = f.Payload[8:]
		case format.FramePut, format.FrameRemove, format.FramePurge:
			delete(lists, binary.LittleEndian.Uint64(f.Payload))
		}
		ops++
	}
	for id, list := range lists {
		t.put(t.byID(id).WithAliases(list))
	}
	t.sort()
	return ops, t.file.broken()
}
