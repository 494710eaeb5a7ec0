package daemon

import (
	"iter"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

// partSize is the approximate number of bytes of entries, hits, or lines in one
// message. Responses are split so that no message exceeds a frame.
const partSize = 1 << 20

// parts yields slices of a list, each of about partSize bytes, and whether more
// follow. It yields at least one slice, which may be empty.
func parts[M proto.Message](list iter.Seq[M]) iter.Seq2[[]M, bool] {
	return func(yield func([]M, bool) bool) {
		var part []M
		size := 0
		for m := range list {
			n := proto.Size(m)
			if size > 0 && size+n > partSize {
				if !yield(part, true) {
					return
				}
				part, size = nil, 0
			}
			part, size = append(part, m), size+n
		}
		yield(part, false)
	}
}

// entries answers with entries.
func (r *request) entries(list iter.Seq[*pb.Entry]) error {
	for part, more := range parts(list) {
		if err := r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Entries{Entries: &pb.EntryList{Entries: part, More: more}}}); err != nil {
			return err
		}
	}
	return nil
}

func (r *request) entry(e crmem.Entry) error {
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Entry{Entry: memtool.Message(e, true)}})
}

// remembered sends the response to RememberMsg.
func (r *request) remembered(w memtool.Remembered) error {
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Entry{Entry: memtool.RememberedMessage(w)}})
}

// kinds returns the kinds of a request; nil means every kind.
func kinds(k *pb.EntryKind) ([]crmem.Kind, error) {
	switch {
	case k == nil:
		return nil, nil
	case *k != pb.EntryKind_NOTE && *k != pb.EntryKind_ARCHIVE:
		return nil, errtable.Invalidf("kind %d: want 0 (note) or 1 (archive)", *k)
	}
	return []crmem.Kind{crmem.Kind(*k)}, nil
}

// nanoseconds returns a Unix time, or 0 for the zero time.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
