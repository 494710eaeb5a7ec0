package format

import (
	"encoding/binary"
	"math"
)

// maxRedacted limits the operations in the value of tagRedacted.
const maxRedacted = 2000

// WithRedacted returns a context that marks operations of its batch as redacted at a
// time. If the context would be too long, it returns the old one.
func WithRedacted(context []byte, seqs []uint64, nanoseconds int64) []byte {
	var before, value, after []byte
	for b := context; len(b) >= 4; {
		n := 4 + int(binary.LittleEndian.Uint16(b[2:]))
		switch tag := binary.LittleEndian.Uint16(b); {
		case tag < tagRedacted:
			before = append(before, b[:n]...)
		case tag == tagRedacted:
			value = append(value, b[4:n]...)
		default:
			after = append(after, b[:n]...)
		}
		b = b[n:]
	}
	for _, seq := range seqs {
		value = binary.LittleEndian.AppendUint64(value, seq)
		value = binary.LittleEndian.AppendUint64(value, uint64(nanoseconds))
	}
	value = value[max(0, len(value)-16*maxRedacted):]
	before = binary.LittleEndian.AppendUint16(before, tagRedacted)
	before = binary.LittleEndian.AppendUint16(before, uint16(len(value)))
	if len(before)+len(value)+len(after) > math.MaxUint16 { // unknown tags of a newer program
		return context
	}
	return append(append(before, value...), after...)
}

// RedactedAt returns when the content of f was removed, in nanoseconds, or 0.
func (f *Frame) RedactedAt() int64 {
	for b := f.Context; len(b) >= 4; {
		n := 4 + int(binary.LittleEndian.Uint16(b[2:]))
		value := b[4:n]
		for tag := binary.LittleEndian.Uint16(b); tag == tagRedacted && len(value) >= 16; value = value[16:] {
			if binary.LittleEndian.Uint64(value) == f.Seq {
				return int64(binary.LittleEndian.Uint64(value[8:]))
			}
		}
		b = b[n:]
	}
	return 0
}
