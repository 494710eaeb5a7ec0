package telegramtest

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
)

// file answers a request for a file's content.
func (a *API) file(w http.ResponseWriter, id string) {
	a.mu.Lock()
	a.counts["file"]++
	text, ok := a.files[id]
	a.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = io.WriteString(w, text) // an error: the client is gone
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if id, ok := strings.CutPrefix(r.URL.Path, "/file/bot"+Token+"/documents/"); ok {
		a.file(w, id)
		return
	}
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+Token+"/")
	if err := r.ParseMultipartForm(1 << 20); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		panic(http.ErrAbortHandler) // the client is gone
	}
	a.mu.Lock()
	a.counts[method]++
	record(method, r.Form)
	var fault Fault
	if list := a.faults[method]; len(list) > 0 {
		fault, a.faults[method] = list[0], list[1:]
	}
	a.mu.Unlock()
	if !ok {
		fault = WrongToken
	}
	if fault != "" && fault != CutAfter {
		refuse(w, fault)
		return
	}
	result, err := a.do(method, r)
	if a.Do != nil {
		a.Do(method)
	}
	switch {
	case fault == CutAfter:
		panic(http.ErrAbortHandler)
	case err != nil:
		if !errors.Is(err, errSame) && err != errRemoved {
			a.Fail(err)
		}
		respond(w, 400, map[string]any{"ok": false, "error_code": 400, "description": "Bad Request: " + err.Error()})
	default:
		respond(w, 200, map[string]any{"ok": true, "result": result})
	}
}

// Record, if set, receives each request as a line of JSON.
var Record io.Writer

func record(method string, form url.Values) {
	if Record == nil {
		return
	}
	params := map[string]string{}
	for key := range form {
		params[key] = form.Get(key)
	}
	b, err := json.Marshal(map[string]any{"method": method, "params": params})
	if err == nil {
		_, err = Record.Write(append(b, '\n'))
	}
	if err != nil {
		panic(err) // the test must not pass without the record
	}
}

func respond(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of plain values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // an error: the client is gone
}

// Transport returns a transport that calls the API in the request's goroutine.
func (a *API) Transport() http.RoundTripper { return transport{a} }

type transport struct{ *API }

func (t transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	_, method, _ := strings.Cut(r.URL.Path[1:], "/")
	t.mu.Lock()
	if list := t.faults[method]; len(list) > 0 && list[0] == NoConnection {
		t.faults[method] = list[1:]
		t.counts[method]++
		t.mu.Unlock()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	t.mu.Unlock()
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			resp, err = nil, errors.Join(io.ErrUnexpectedEOF, r.Context().Err())
		} else if p != nil {
			panic(p)
		}
	}()
	w := httptest.NewRecorder()
	t.ServeHTTP(w, r)
	return w.Result(), nil
}
