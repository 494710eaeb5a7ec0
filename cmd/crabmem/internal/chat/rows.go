package chat

import (
	"fmt"
	"io"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/lazyregexp"

	"golang.org/x/term"
)

// paint writes new output and the rows for the current size of the terminal.
func (s *screen) paint() {
	if w, h, err := term.GetSize(int(s.raw.in.Fd())); err == nil && w > 0 && h > 0 {
		s.width, s.height = w, h
		s.markdown.Width = w - 1
	}
	s.write(s.rows())
}

// write writes new output and then the rows, with the cursor at row and col.
func (s *screen) write(rows []string, row, col int) {
	var b strings.Builder
	s.live.clear(&b, s.width)
	b.WriteString(strings.ReplaceAll(s.scroll.String(), "\n", "\r\n"))
	s.scroll.Reset()
	if rows != nil {
		s.live.draw(&b, rows, row, col)
	}
	io.WriteString(s.raw.out, b.String())
}

// rows returns the rows below the output and the position of the cursor in them.
func (s *screen) rows() (rows []string, row, col int) {
	width := max(s.width-1, 8)
	room := max(s.height-1, 2)
	dim := func(text string) { rows = append(rows, s.c.Dim(cli.Fit(text, width))) }
	if s.busy {
		coming := s.markdown.Pending()
		if coming == "" {
			coming = s.thinking.String()
		}
		var preview []string
		for l := range strings.SplitSeq(strings.TrimRight(lastOf(coming, 4<<10), "\n"), "\n") {
			if l != "" || len(preview) > 0 {
				preview = append(preview, cli.Fold(l, width)...)
			}
		}
		for _, l := range preview[max(len(preview)-min(6, room/3), 0):] {
			dim(l)
		}
		dim(fmt.Sprintf("· %s, %ds; Ctrl+C cancels", s.doing, int(time.Since(s.since).Seconds())))
	}
	for i, text := range s.queue {
		if i == 3 {
			dim(fmt.Sprintf("and %d more", len(s.queue)-i))
			break
		}
		dim("queued: " + display.OneLine(cli.Clean(text)))
	}
	if s.leave {
		dim("Ctrl+C again leaves")
	}
	if len(s.editor.Offers) > 0 {
		dim(strings.Join(s.editor.Offers, "  "))
	}
	if query, found, ok := s.editor.Searching(); ok {
		dim(searchLine(query, found))
	}
	if over := len(rows) - (room - 1); over > 0 {
		rows = rows[over:]
	}
	prompt := "> "
	if s.dialog != nil {
		prompt = "? "
	}
	typed, row, col := s.editor.View(prompt, s.width, max(room-len(rows), 1))
	return append(rows, typed...), len(rows) + row, col
}

// searchLine describes a search of the history.
func searchLine(query string, found bool) string {
	switch shown := display.Quoted(display.OneLine(cli.Clean(query))); {
	case query == "":
		return "search the history; Ctrl+R shows an older match, Enter sends it, Esc restores"
	case found:
		return "search: " + shown
	default:
		return "search: " + shown + ": no older match"
	}
}

// lastOf returns the last n bytes of s, without a cut character.
func lastOf(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}

// liveRows are the rewritten rows at the end of the screen.
type liveRows struct {
	cols []int // columns of each
	row  int   // of the cursor
	col  int
}

func (l *liveRows) forget() { *l = liveRows{} }

// clear erases the rows. A terminal that became narrower has folded each row into
// several.
func (l *liveRows) clear(b *strings.Builder, width int) {
	up := 0
	for i := range min(l.row, len(l.cols)) {
		up += max((l.cols[i]+width-1)/width, 1)
	}
	up += l.col / width
	if up > 0 {
		fmt.Fprintf(b, "\x1b[%dA", up)
	}
	b.WriteString("\r\x1b[J")
	l.forget()
}

func (l *liveRows) draw(b *strings.Builder, rows []string, row, col int) {
	b.WriteString(strings.Join(rows, "\r\n"))
	if up := len(rows) - 1 - row; up > 0 {
		fmt.Fprintf(b, "\x1b[%dA", up)
	}
	b.WriteString("\r")
	if col > 0 {
		fmt.Fprintf(b, "\x1b[%dC", col)
	}
	l.row, l.col = row, col
	l.cols = l.cols[:0]
	for _, r := range rows {
		l.cols = append(l.cols, cli.Columns(unstyled(r)))
	}
}

var sgr = lazyregexp.New("\x1b\\[[^m]*(m|$)")

// unstyled returns s without styles.
func unstyled(s string) string { return sgr().ReplaceAllString(s, "") }
