package history

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// Progress counts, by writer, the operations that were begun and those that
// were acknowledged.
type Progress struct{ Issued, Acked []int }

// NewProgress returns the progress of a history that has not begun.
func NewProgress(writers int) *Progress {
	return &Progress{Issued: make([]int, writers), Acked: make([]int, writers)}
}

// Clone returns a copy.
func (p *Progress) Clone() *Progress {
	return &Progress{Issued: append([]int(nil), p.Issued...), Acked: append([]int(nil), p.Acked...)}
}

// Issued returns the line that says that a writer begins its operation n, from
// 1.
func Issued(writer, n int) []byte { return fmt.Appendf(nil, "i %d %d\n", writer, n) }

// Acked returns the line that says that the operation n was acknowledged.
func Acked(writer, n int) []byte { return fmt.Appendf(nil, "a %d %d\n", writer, n) }

// Read takes what Issued and Acked wrote, one line or several. A last line
// without its end is what a killed writer did not finish: it is not counted.
func (p *Progress) Read(r io.Reader) error {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var kind byte
		var w, n int
		if _, err := fmt.Fscanf(bytes.NewReader(line), "%c %d %d\n", &kind, &w, &n); err != nil {
			return fmt.Errorf("mark %q: %w", line, err)
		}
		if w < 0 || w >= len(p.Acked) {
			return fmt.Errorf("mark %q: no such writer", line)
		}
		switch kind {
		case 'i':
			p.Issued[w] = n
		case 'a':
			p.Acked[w] = max(p.Acked[w], n) // a promise is not taken back
		default:
			return fmt.Errorf("mark %q: unknown kind", line)
		}
	}
}
