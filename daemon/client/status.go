package client

import (
	"errors"
	"net/http"

	"crabmem/daemon/errtable"
	"crabmem/sessionlog"
)

// StatusCanceled is the status of a run that was canceled, and of a request whose client is
// gone. Clients do not repeat a request that has it.
const StatusCanceled = 499

// maxTries limits the tries of a run that the daemon does not answer.
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

// RepeatsRun reports whether a run with this status is repeated, after tries runs that the
// daemon did not answer.
func RepeatsRun(status, tries int) bool {
	switch status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusConflict:
		return true
	case http.StatusBadGateway:
		return tries < maxTries
	}
	return false
}
