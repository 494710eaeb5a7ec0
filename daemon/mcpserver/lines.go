package mcpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"crabmem/daemon/display"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// messageLines reads the lines of a client, and returns only JSON-RPC messages. It
// responds to any other line with an error without an ID: the MCP SDK would end the
// session at such a line.
type messageLines struct {
	in     *bufio.Reader
	closer io.Closer // nil if the input has no Close
	out    io.Writer
	line   []byte // the rest of a message
}

// byteOrderMark is before the first message of some clients on Windows.
var byteOrderMark = []byte("\xef\xbb\xbf")

func newMessageLines(in io.Reader, out io.Writer) *messageLines {
	closer, _ := in.(io.Closer)
	return &messageLines{in: bufio.NewReader(in), closer: closer, out: out}
}

// Close closes the input, which ends a Read.
func (m *messageLines) Close() error {
	if m.closer == nil {
		return nil
	}
	return m.closer.Close()
}

func (m *messageLines) Read(p []byte) (int, error) {
	for len(m.line) == 0 {
		line, tooLong, err := m.next()
		line = bytes.TrimPrefix(line, byteOrderMark)
		if fault := checkMessage(line); tooLong {
			err = errors.Join(err, m.refuse(jsonrpc.CodeInvalidRequest, "the message is larger than "+display.Size(maxMessage)))
		} else if fault != nil {
			err = errors.Join(err, m.refuse(fault.Code, fault.Message))
		} else if len(bytes.TrimSpace(line)) > 0 {
			m.line = append(line, '\n')
			break // err occurs again
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, m.line)
	m.line = m.line[n:]
	return n, nil
}

// next returns the next line without its end. It skips the text of a line that is
// too long for a message.
func (m *messageLines) next() (line []byte, tooLong bool, err error) {
	for {
		part, err := m.in.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			line, tooLong = nil, true
		}
		if !tooLong {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), tooLong, err
		}
	}
}

func (m *messageLines) refuse(code int64, why string) error {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": why}})
	if err == nil {
		_, err = m.out.Write(append(b, '\n'))
	}
	return err
}

// checkMessage returns an error unless a line is empty, a message, or a list of
// messages.
func checkMessage(line []byte) *jsonrpc.Error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	if !json.Valid(line) {
		var v any
		err := json.Unmarshal(line, &v)
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: fmt.Sprintf("parse message: %v: send one JSON-RPC message per line", err)}
	}
	messages := []json.RawMessage{line}
	if line[0] == '[' {
		messages = nil
		if err := json.Unmarshal(line, &messages); err != nil || len(messages) == 0 {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "an empty list is not a message"}
		}
	}
	seen := make(map[jsonrpc.ID]bool)
	for _, b := range messages {
		m, err := jsonrpc.DecodeMessage(b)
		if err != nil {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "not a JSON-RPC message: " + err.Error()}
		}
		if r, ok := m.(*jsonrpc.Request); ok && seen[r.ID] {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "two requests of a list have the same ID or no ID"}
		} else if ok {
			seen[r.ID] = true
		}
	}
	return nil
}

// bodyWithoutMark is the body of a request without a byte order mark.
type bodyWithoutMark struct {
	io.Closer
	*bufio.Reader
}

func withoutMark(body io.ReadCloser) io.ReadCloser {
	r := bufio.NewReader(body)
	if start, _ := r.Peek(len(byteOrderMark)); bytes.Equal(start, byteOrderMark) {
		_, _ = r.Discard(len(byteOrderMark)) // Peek has read them
	}
	return bodyWithoutMark{body, r}
}

// lockedWriter writes complete lines from several goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Close does nothing: the caller owns standard output.
func (l *lockedWriter) Close() error { return nil }
