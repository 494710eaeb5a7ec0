package chat

import (
	"bufio"
	"bytes"
	"io"
)

// events reads a stream of server-sent events. It skips the events without data
// that keep a connection alive, and accepts the field "error", in which
// llama.cpp reported errors until 2025.
type events struct {
	lines  *bufio.Scanner
	data   []byte // of the event
	failed bool   // the event is an error
}

func newEvents(r io.Reader) *events {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent+1<<10)
	return &events{lines: lines}
}

// next advances to the next event with data.
func (e *events) next() bool {
	e.data, e.failed = e.data[:0], false
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if len(line) == 0 {
			if len(bytes.TrimSpace(e.data)) > 0 {
				return true
			}
			e.data, e.failed = e.data[:0], false
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.failed = string(value) == "error"
		case "error":
			e.failed = true
			fallthrough
		case "data":
			e.data = append(append(e.data, value...), '\n')
		}
	}
	return false
}

func (e *events) err() error { return e.lines.Err() }
