package chat

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// The terminal modes of a chat: marks around pasted text, and codes for keys with
// modifiers if the terminal supports the kitty protocol.
const (
	rawBegin = "\x1b[?2004h\x1b[>1u"
	rawEnd   = "\x1b[<u\x1b[?2004l\x1b[0m"
)

// Terminal is a terminal in raw mode.
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

// Restore restores the state of the terminal. It is safe to call several times
// and concurrently.
func (r *Terminal) Restore() {
	r.once.Do(func() {
		io.WriteString(r.out, rawEnd)
		_ = term.Restore(int(r.in.Fd()), r.state) // no other way to restore it
	})
}

// Guard restores the terminal before a panic ends the process. Each goroutine of
// the chat defers it.
func (r *Terminal) Guard() {
	if p := recover(); p != nil {
		r.Restore()
		panic(p)
	}
}
