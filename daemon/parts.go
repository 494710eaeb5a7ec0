package daemon

import (
	"iter"

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
