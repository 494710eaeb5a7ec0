package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"crabmem/daemon/client"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/usage"
	"crabmem/sessionlog"
)

// statusText returns the meaning of a status.
func statusText(status int) string { return cmp.Or(http.StatusText(status), "Client Closed Request") }

// event returns the name of the event or frame for the problem of a run.
func (p *Problem) event() string {
	if p.Kind == errtable.Cancelled {
		return p.Kind
	}
	return "error"
}

// Problem is the body of a refusal, as RFC 9457 defines it.
type Problem struct {
	Type    string    `json:"type" jsonschema:"always about:blank: status and kind determine the meaning"`
	Title   string    `json:"title" jsonschema:"the meaning of the status"`
	Status  int       `json:"status"`
	Detail  string    `json:"detail" jsonschema:"what went wrong"`
	Kind    string    `json:"kind" jsonschema:"a word for programs, such as not_found"`
	Remedy  string    `json:"remedy,omitempty" jsonschema:"what to do"`
	Current *op.Entry `json:"current,omitempty" jsonschema:"with status 412: the entry as it is now"`

	retry  int  // seconds; 0: no Retry-After
	close  bool // the connection ends, because the body is not read
	hidden error
}

func (p *Problem) Error() string { return p.Detail }

// problemf returns a problem with a status and a kind.
func problemf(status int, kind, format string, args ...any) *Problem {
	return &Problem{Type: "about:blank", Title: statusText(status), Status: status, Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

func invalidf(format string, args ...any) *Problem {
	return problemf(http.StatusBadRequest, "invalid", format, args...)
}

// fix sets the remedy.
func (p *Problem) fix(format string, args ...any) *Problem {
	p.Remedy = fmt.Sprintf(format, args...)
	return p
}

// after sets the header Retry-After.
func (p *Problem) after(seconds int) *Problem {
	p.retry = seconds
	return p
}

// problem returns the problem of an error, without the path of the home.
func (g *Gateway) problem(err error) *Problem {
	p := problemOf(err)
	p.Detail, p.Remedy = g.hide(p.Detail), g.hide(p.Remedy)
	return p
}

// hide replaces the path of the home in a text.
func (g *Gateway) hide(text string) string {
	for _, home := range g.homes {
		text = strings.ReplaceAll(text, home, "HOME")
	}
	return text
}

// modelRetry is the Retry-After, in seconds, if a model refuses calls for a while. The
// daemon has already waited and called again.
const modelRetry = 10

// problemOf returns the problem of an error. The details of an error of the daemon that
// is not about the request are for the log: they may name files of the machine.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if _, ok := errors.AsType[*client.NoDaemonError](err); ok {
		return problemf(http.StatusServiceUnavailable, "no_daemon", "no daemon answers").fix("run crabmem daemon start on the machine of the gateway").after(1)
	}
	if _, ok := errors.AsType[*client.SkewError](err); ok {
		return problemf(http.StatusServiceUnavailable, "version", "the daemon has another version than the gateway").fix("restart both: run crabmem daemon restart, and start the gateway again")
	}
	if errors.Is(err, sessionlog.ErrNotFound) {
		return problemf(http.StatusNotFound, "not_found", "no such session").fix("GET /v1/sessions lists the sessions")
	}
	status, row := client.StatusOf(err)
	if status == client.StatusCanceled {
		return problemf(status, row.Kind, "the run was canceled")
	}
	if _, ok := errors.AsType[*client.Error](err); !ok && row.Kind == errtable.Failed {
		p := problemf(http.StatusBadGateway, "no_response", "the daemon did not answer").fix("repeat the request; with an Idempotency-Key it has one effect")
		p.hidden = err
		return p
	}
	if status == http.StatusInternalServerError {
		p := problemf(status, row.Kind, "the daemon could not do it").fix("the log of the gateway has the cause")
		p.hidden = err
		return p
	}
	p := problemf(status, row.Kind, "%s", messageOf(err)).fix("%s", row.Fix)
	model, wait := row.Kind == "model" || strings.HasPrefix(row.Kind, "model_"), 1
	if model { // only the log has the message of the provider
		p.Detail, wait = "the call of the model failed", modelRetry
	}
	if e, ok := errors.AsType[*client.Error](err); ok && row.Kind == "limit" {
		var limit usage.Limit
		_ = json.Unmarshal(e.Details, &limit) // without a time, at once
		wait = max(1, int(time.Until(limit.Until)/time.Second)+1)
	}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		p.after(wait)
	}
	if model || status == http.StatusBadGateway {
		p.hidden = err
	}
	return p
}

// messageOf returns the message of an error without the prefix of its class.
func messageOf(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// headers sets the headers of the problem.
func (p *Problem) headers(w http.ResponseWriter) {
	h := w.Header()
	if p.retry > 0 {
		h.Set("Retry-After", fmt.Sprint(p.retry))
	}
	if p.close {
		h.Set("Connection", "close")
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="crabmem"`)
	}
}

// writeJSON sends a value as the response.
func writeJSON(w http.ResponseWriter, status int, kind string, v any) {
	b, err := json.Marshal(v)
	if err != nil { // the types of this package can be encoded
		panic(err)
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", fmt.Sprint(len(b)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // an error: the client is gone
}
