package foreign

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"time"

	"crabmem/crmem/vfs"
)

// minMark is the length in bytes of the shortest transcript with a mark: reading a shorter
// one again costs little.
const minMark = 1 << 20

// A Mark is a position in a transcript, from which [ReadFrom] reads the lines after it.
type Mark struct {
	Offset int64     `json:"offset"` // in bytes, after a complete line; 0 without a mark
	Sum    string    `json:"sum"`    // of bytes before it
	Tool   string    `json:"tool"`
	ID     string    `json:"id"`     // of the session in the tool
	Title  string    `json:"title"`  // its digest
	Last   time.Time `json:"last"`   // the greatest time before it
	Answer string    `json:"answer"` // digest of the answer that the next line may continue, or ""
}

// digest returns a short digest of a text that is not empty.
func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// ErrEarlier is returned by [ReadFrom] if the lines before the mark changed, or if the
// lines after it change how those are read. Read the complete transcript.
var ErrEarlier = errors.New("the transcript did not only grow")

// ReadFrom reads the messages after a mark. It does not read the lines before it. A
// transcript that has none is not an error.
func ReadFrom(fsys vfs.FS, name string, m Mark) (t Transcript, err error) {
	i := slices.IndexFunc(kinds, func(k *Kind) bool { return k.Tool == m.Tool })
	if i < 0 || m.Offset <= 0 {
		return t, ErrEarlier
	}
	f, err := fsys.Open(name)
	if err != nil {
		return t, err
	}
	sum, err := sumBefore(f, m.Offset)
	if err == nil && sum != m.Sum {
		err = ErrEarlier
	}
	if err == nil {
		t, err = kinds[i].read(io.NewSectionReader(f, m.Offset, maxTranscript), m)
	}
	if errors.Is(err, ErrNoMessages) {
		err = nil
	}
	if err == nil && t.Mark.Offset > 0 {
		t.Mark.Sum, err = sumBefore(f, t.Mark.Offset)
	}
	return t, errors.Join(err, f.Close())
}

// sumBefore returns a digest of the beginning of a file, and of the bytes before an offset.
func sumBefore(f io.ReaderAt, offset int64) (string, error) {
	const size = 4096
	b := make([]byte, 2*size)
	_, err := f.ReadAt(b[:size], 0)
	if err == nil {
		_, err = f.ReadAt(b[size:], max(offset-size, 0))
	}
	if err == io.EOF { // shorter than it was
		err = ErrEarlier
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), err
}
