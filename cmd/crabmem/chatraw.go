package main

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

// raw is a terminal that gives every key as it is pressed.
type raw struct {
	in    *os.File
	out   io.Writer
	state *term.State
	once  sync.Once
}

func makeRaw(in *os.File, out io.Writer) (*raw, error) {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	io.WriteString(out, rawBegin)
	return &raw{in: in, out: out, state: state}, nil
}

// restore makes the terminal what it was. It may be called several times, and
// from everywhere.
func (r *raw) restore() {
	r.once.Do(func() {
		io.WriteString(r.out, rawEnd)
		_ = term.Restore(int(r.in.Fd()), r.state) // there is nothing else to try
	})
}

// guard is deferred by what runs beside the chat: a panic is shown on a
// terminal that is as it was.
func (r *raw) guard() {
	if p := recover(); p != nil {
		r.restore()
		panic(p)
	}
}

// restoreTerminal is called before the program ends in whatever way it chooses.
func (c *app) restoreTerminal() {
	if r := c.raw.Load(); r != nil {
		r.restore()
	}
}
