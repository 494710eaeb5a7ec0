package crmem

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// failingOnce fails one write.
type failingOnce struct{ left int }

func (w *failingOnce) Write(p []byte) (int, error) {
	if w.left--; w.left == 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// TestIndexWriterFails fails each write of an index file in turn.
func TestIndexWriterFails(t *testing.T) {
	r := recordOf(&Entry{ID: 1, Name: "a", Content: "text", Aliases: []string{"b"}})
	x := indexWriter{recs: []rec{{1, r}}, relations: []uint64{1}, messages: []byte("messages")}
	for n := 1; ; n++ {
		w := failingOnce{n}
		x.search = strings.NewReader("index")
		err := x.write(&w)
		if w.left > 0 {
			if err != nil || n < 7 { // five sections and the footer
				t.Errorf("%d writes, %v", n-1, err)
			}
			return
		}
		if !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("write %d fails: %v", n, err)
		}
	}
}
