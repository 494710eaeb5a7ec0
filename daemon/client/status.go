package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"crabmem/daemon/errtable"
	"crabmem/sessionlog"
)

// StatusCanceled is the status for a canceled run, and for a request whose client is
// gone. Clients do not repeat a request that has it.
const StatusCanceled = 499

// maxTries limits the runs that the daemon does not answer.
const maxTries = 8

// StatusOf returns the HTTP status and the row of an error of a request. Operations of RFC
// 0018 keep the status of the reference; here, each kind has one. The status is 502 if the
// daemon did not answer.
func StatusOf(err error) (int, errtable.Row) {
	row := errtable.Find(err)
	e, answered := errors.AsType[*Error](err)
	if answered {
		row.HTTP = e.Code
	}
	if _, ok := errors.AsType[*NoDaemonError](err); ok {
		return http.StatusServiceUnavailable, row
	}
	if _, ok := errors.AsType[*SkewError](err); ok {
		return http.StatusServiceUnavailable, row
	}
	if errors.Is(err, sessionlog.ErrNotFound) {
		return http.StatusNotFound, row
	}
	switch row.Kind {
	case errtable.Cancelled:
		return StatusCanceled, row
	case "not_found", "unknown_agent":
		return http.StatusNotFound, row
	case "busy":
		return http.StatusConflict, row
	case "outcome_unknown", "no_response":
		return http.StatusBadGateway, row
	case errtable.Failed:
		if !answered {
			return http.StatusBadGateway, row
		}
	}
	if row.HTTP < 400 || row.HTTP > 599 {
		return http.StatusInternalServerError, row
	}
	return int(row.HTTP), row
}

// Retry repeats a run, with longer waits each time. The zero value has no runs.
type Retry struct {
	unanswered int // runs that the daemon did not answer
	wait       time.Duration
}

// A Retry's waits.
const (
	firstWait = time.Second
	maxWait   = time.Minute
)

// Again reports whether to repeat a run that ended with a status and an error kind.
func (r *Retry) Again(status int, kind string) bool {
	switch status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return true
	case http.StatusConflict: // later runs followed the request's run, which cannot continue
		return kind != "request" && kind != "continued"
	case http.StatusBadGateway:
		r.unanswered++
		return r.unanswered < maxTries
	}
	return false
}

// Wait waits before the next run. It returns the error of ctx if ctx ends before that.
func (r *Retry) Wait(ctx context.Context) error {
	r.wait = max(r.wait, firstWait)
	t := time.NewTimer(r.wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.wait = min(2*r.wait, maxWait)
	return nil
}
