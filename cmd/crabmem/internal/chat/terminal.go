package chat

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// What a chat asks of the terminal, and takes back: pasted text is marked, and
// keys with modifiers are told where the terminal knows how (the kitty protocol).
const (
	rawBegin = "\x1b[?2004h\x1b[>1u"
	rawEnd   = "\x1b[<u\x1b[?2004l\x1b[0m"
)

// Terminal is a terminal that gives every key as it is pressed.
type Terminal struct {
	in    *os.File
	out   io.Writer
	state *term.State
	once  sync.Once
}

func OpenTerminal(in *os.File, out io.Writer) (*Terminal, error) {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	io.WriteString(out, rawBegin)
	return &Terminal{in: in, out: out, state: state}, nil
}

// Restore makes the terminal what it was. It may be called several times, and
// from everywhere.
func (r *Terminal) Restore() {
	r.once.Do(func() {
		io.WriteString(r.out, rawEnd)
		_ = term.Restore(int(r.in.Fd()), r.state) // there is nothing else to try
	})
}

// Guard is deferred by what runs beside the chat: a panic is shown on a
// terminal that is as it was.
func (r *Terminal) Guard() {
	if p := recover(); p != nil {
		r.Restore()
		panic(p)
	}
}
