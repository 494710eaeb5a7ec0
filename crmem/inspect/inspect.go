// Package inspect reads the files of a store field by field or entry by entry,
// without opening the store.
package inspect

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/internal/format"
)

// Field is a part of a file as FORMAT.md names it.
type Field struct {
	Offset, Length int64
	Name           string
	Value          string // for a person; a text is quoted and cut
}

// Fields returns the fields of a snapshot or a log in file order. It ends with
// a *[crmem.FormatError] at the first invalid field, after yielding the valid
// fields before it and that field, if the file contains all of it. The torn
// tail of a log is a field, not an error.
func Fields(b []byte) iter.Seq2[Field, error] {
	return func(yield func(Field, error) bool) {
		w := walker{b: b, yield: yield, stop: math.MaxInt64}
		if bytes.HasPrefix(b, []byte(format.LogMagic)) {
			w.log()
		} else {
			w.snapshot()
		}
	}
}

// walker yields the complete fields of a file, up to the field at offset stop.
type walker struct {
	b     []byte
	off   int64
	stop  int64 // offset of the byte that is wrong
	done  bool  // no field follows
	left  bool  // set by the caller: stop yielding
	yield func(Field, error) bool
}

// field yields the next n bytes; false when the walk is over.
func (w *walker) field(n int64, name string, value func(p []byte) string) bool {
	if w.done || n > int64(len(w.b))-w.off {
		w.done = true
		return false
	}
	p := w.b[w.off : w.off+n]
	w.left = !w.yield(Field{w.off, n, name, value(p)}, nil)
	w.off += n
	w.done = w.left || w.off > w.stop
	return !w.done
}

func (w *walker) number(n int64, name string) (uint64, bool) {
	var v uint64
	ok := w.field(n, name, func(p []byte) string {
		v = littleEndian(p)
		return fmt.Sprint(v)
	})
	return v, ok
}

func littleEndian(p []byte) (v uint64) {
	for i := len(p) - 1; i >= 0; i-- {
		v = v<<8 | uint64(p[i])
	}
	return v
}

func hexNumber(p []byte) string { return fmt.Sprintf("0x%0*x", 2*len(p), littleEndian(p)) }

func hexBytes(p []byte) string { return hex.EncodeToString(p) }

// text yields a length and the text it is of.
func (w *walker) text(name string) bool {
	n, ok := w.number(4, name+"_len")
	return ok && (n == 0 || w.field(int64(n), name, quote))
}

func quote(p []byte) string {
	const most = 60
	if len(p) <= most {
		return fmt.Sprintf("%q", p)
	}
	return fmt.Sprintf("%q… %d bytes", p[:most], len(p))
}

func (w *walker) snapshot() {
	_, err := crmem.Decode(w.b)
	if e, ok := errors.AsType[*crmem.FormatError](err); ok {
		w.stop = e.Offset
	}
	w.field(6, "magic", quote)
	w.number(4, "version")
	w.field(2, "flags", hexNumber)
	w.field(4, "reserved", hexNumber)
	w.number(8, "next_id")
	n, _ := w.number(4, "entry_count")
	for range n {
		if w.done {
			break
		}
		w.entry()
	}
	if err != nil && !w.left {
		w.yield(Field{}, err)
	}
}

func (w *walker) entry() {
	w.number(8, "id")
	w.field(8, "created_at", func(p []byte) string {
		v := binary.LittleEndian.Uint64(p)
		if v > math.MaxInt32 { // a time is easier to read; far ones are not
			return fmt.Sprint(v)
		}
		return fmt.Sprintf("%d %s", v, time.Unix(int64(v), 0).UTC().Format(time.RFC3339Nano))
	})
	w.field(4, "kind", func(p []byte) string {
		return fmt.Sprintf("%d %v", binary.LittleEndian.Uint32(p), crmem.Kind(binary.LittleEndian.Uint32(p)))
	})
	w.text("name")
	w.text("content")
	w.aliases()
}

func (w *walker) aliases() {
	n, _ := w.number(4, "alias_count")
	for range n {
		if !w.text("alias") {
			break
		}
	}
}

func (w *walker) digest(name string) bool {
	return w.field(format.DigestSize, name, func(p []byte) string { return format.ReadDigest(p).String() })
}

func (w *walker) log() {
	s, err := format.ScanLog(w.b)
	if e, ok := errors.AsType[*crmem.FormatError](err); ok {
		w.stop = e.Offset
	}
	w.field(6, "magic", quote)
	w.number(2, "version")
	w.field(8, "salt", hexNumber)
	w.digest("base")
	w.number(8, "seq")
	w.field(4, "reserved", hexNumber)
	w.field(4, "crc", hexNumber)
	h, herr := format.ReadLogHeader(w.b)
	w.field(16, "store", hexBytes)
	w.field(16, "epoch", hexBytes)
	w.field(16, "prev_epoch", hexBytes)
	w.number(8, "prev_seq")
	w.field(4, "prev_crc", hexNumber)
	w.field(4, "crc2", hexNumber)
	end := int64(len(w.b))
	if s != nil {
		end = s.End
	}
	for herr == nil && w.off < end && !w.done {
		f, _ := h.ReadFrame(w.b, w.off) // ScanLog read it, too
		w.frame(&f)
	}
	switch {
	case w.left:
	case err != nil:
		w.yield(Field{}, err)
	case s.Verdict == format.Corrupt && !w.done:
		w.yield(Field{}, &crmem.FormatError{Offset: s.Bad, Entry: -1, Field: "frame",
			Msg: s.Why + ": a later frame proves that this frame was synced: corruption, not a torn write"})
	case s.Verdict == format.TornTail:
		w.field(int64(len(w.b))-s.End, "torn", func([]byte) string {
			return s.Why + ": torn tail, not acknowledged"
		})
	}
}

// frameNames are the types of FORMAT.md.
var frameNames = map[byte]string{format.FramePut: "put", format.FrameAlias: "alias", format.FrameRemove: "remove", format.FrameCheckpoint: "checkpoint",
	format.FramePurge: "purge", format.FramePurged: "purged", format.FrameRename: "rename"}

func (w *walker) frame(f *format.Frame) {
	w.field(1, "type", func(p []byte) string {
		s := fmt.Sprintf("%d %s", f.Type, frameNames[f.Type])
		if f.More {
			s += ", the batch continues"
		}
		return s
	})
	w.field(1, "zero", hexNumber)
	w.number(2, "context_len")
	w.number(4, "len")
	w.number(8, "seq")
	w.number(8, "synced_to")
	w.field(4, "prev", hexNumber)
	w.field(4, "crc", hexNumber)
	if w.done {
		return
	}
	// The payload by itself: its lengths are not yet validated.
	p := &walker{b: w.b[:f.End()], off: w.off, stop: w.stop, yield: w.yield}
	if n := int64(len(f.Context)); n != 0 {
		p.field(n, "context", quote)
	}
	switch f.Type {
	case format.FramePut:
		p.entry()
	case format.FrameAlias:
		p.number(8, "id")
		p.aliases()
	case format.FrameRemove, format.FramePurge, format.FramePurged:
		p.number(8, "id")
	case format.FrameRename:
		p.number(8, "id")
		p.text("name")
	case format.FrameCheckpoint:
		p.digest("digest")
		p.number(8, "seq")
	}
	w.off, w.left, w.done = p.off, p.left, p.left || p.off > w.stop
	if rest := f.End() - w.off; !w.done && rest > 0 {
		w.field(rest, "payload", quote)
	}
}
