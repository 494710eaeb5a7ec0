package chat

import (
	"bufio"
	"bytes"
	"io"
	"slices"
)

// lines prepares a stream for the decoder of events. It bounds the length of an event,
// turns the field "error", in which llama.cpp reported errors until 2025, into an event
// of that type, and ends the last event, which some endpoints do not.
type lines struct {
	from  *bufio.Reader
	ready []byte // of the current line
	event int    // bytes since an empty line
	cont  bool   // the next bytes continue a line
	cut   bool   // the stream ended in a line
	err   error
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.ready) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		l.next()
	}
	n := copy(p, l.ready)
	l.ready = l.ready[n:]
	return n, nil
}

// next reads a line, or a part of a long one.
func (l *lines) next() {
	line, err := l.from.ReadSlice('\n')
	l.event += len(line)
	if !l.cont {
		if rest, failed := bytes.CutPrefix(line, []byte("error:")); failed {
			line = slices.Concat([]byte("event:error\ndata:"), rest)
		} else if err == nil && len(bytes.TrimRight(line, "\r\n")) == 0 {
			l.event = 0
		}
	}
	l.cont = err == bufio.ErrBufferFull
	switch {
	case l.event > maxEvent:
		line, l.err = nil, permanent("an event of the stream is longer than %d bytes; the call was canceled", maxEvent)
	case err == io.EOF:
		l.cut = len(line) > 0 || l.cut
		line, l.err = append(bytes.Clone(line), "\n\n"...), err
	case !l.cont:
		l.err = err
	}
	l.ready = line
}
