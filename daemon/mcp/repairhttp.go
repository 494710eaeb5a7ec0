package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"crabmem/daemon/lazyregexp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// repairing repairs the responses of a server.
type repairing struct {
	http.RoundTripper
	repairer
}

func (r *repairing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if isEventStream(resp) {
		resp.Body = &repairedStream{ReadCloser: resp.Body, repairer: &r.repairer}
	} else if call := callID(req); call != nil {
		r.repairResponse(resp, call)
	}
	return resp, nil
}

// CloseIdleConnections implements an optional interface of http.Client.
func (r *repairing) CloseIdleConnections() {
	(&http.Client{Transport: r.RoundTripper}).CloseIdleConnections()
}

// repairedStream is an event stream whose messages are repaired. Messages of
// several lines are unchanged.
type repairedStream struct {
	io.ReadCloser
	*repairer
	lines *bufio.Reader
	ready []byte // to return
	long  bool   // the current line exceeds the buffer
	err   error
}

func (s *repairedStream) Read(p []byte) (int, error) {
	if s.lines == nil {
		s.lines = bufio.NewReaderSize(s.ReadCloser, 4<<10)
	}
	for len(s.ready) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		var line []byte
		for len(line) <= maxFrame {
			part, err := s.lines.ReadSlice('\n')
			line = append(line, part...)
			if s.err = err; !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
			s.err = nil
		}
		s.ready = s.line(line)
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// line returns a line of the stream with its message repaired.
func (s *repairedStream) line(line []byte) []byte {
	value, isData := bytes.CutPrefix(line, []byte("data:"))
	complete := bytes.HasSuffix(line, []byte{'\n'})
	if isData && complete && !s.long {
		if m := s.response(value); m != nil {
			line = append(append([]byte("data: "), m...), '\n')
		}
	}
	s.long = !complete
	return line
}

// aboutSession matches messages of servers that do not know a session.
var aboutSession = lazyregexp.New(`(?i)session`)

// repairResponse repairs the response to a call. If the server refused the call
// because the session has expired, the response becomes one from which the SDK
// detects that.
func (r *repairing) repairResponse(resp *http.Response, call json.RawMessage) {
	session := resp.Request.Header.Get("Mcp-Session-Id")
	switch {
	case resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json"):
		resp.Body = &repairedBody{ReadCloser: resp.Body, repairer: &r.repairer}
	case resp.StatusCode >= 400 && session != "":
		text, err := io.ReadAll(resp.Body)
		if isExpired(resp.StatusCode, text, call) {
			resp.StatusCode, resp.Status, text = http.StatusNotFound, "404 Not Found", nil
			resp.Header.Del("Content-Type")
		}
		resp.Body = &repairedBody{ReadCloser: resp.Body, text: text, err: cmp.Or(err, io.EOF)}
	default:
		return
	}
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
}

// repairedBody is a body that is one message.
type repairedBody struct {
	io.ReadCloser
	*repairer // nil: text is the body
	text      []byte
	err       error // after text; nil: not yet read
}

func (b *repairedBody) Read(p []byte) (int, error) {
	if b.err == nil {
		text, err := io.ReadAll(b.ReadCloser)
		b.text, b.err = text, cmp.Or(err, io.EOF)
		if m := b.response(text); m != nil && err == nil {
			b.text = m
		}
	}
	n := copy(p, b.text)
	b.text = b.text[n:]
	if n == 0 {
		return 0, b.err
	}
	return n, nil
}

// isExpired reports whether the response to a call of a session means that the
// server refused the call and does not know the session.
func isExpired(status int, text []byte, call json.RawMessage) bool {
	var m struct {
		ID    json.RawMessage
		Error jsonrpc.Error
	}
	decoded := json.Unmarshal(text, &m) == nil
	if decoded && bytes.Equal(m.ID, call) && m.Error.Code == jsonrpc.CodeMethodNotFound {
		return false
	}
	switch status {
	case http.StatusNotFound, http.StatusForbidden, http.StatusGone:
		return true
	}
	return aboutSession().Match(text)
}
