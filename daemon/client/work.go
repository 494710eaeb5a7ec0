package client

import (
	"context"
	"net/http"
	"slices"

	"crabmem/daemon/op"
)

// CancelWork cancels sessions' open work, and returns the canceled work. Work that ends earlier is no
// error. After another error, the remaining work continues.
func CancelWork(ctx context.Context, d op.Caller, sessions []string) (canceled []op.WorkID, err error) {
	list, err := op.ListWork.Do(ctx, d, op.WorkQuery{})
	if err != nil {
		return nil, err
	}
	for i := range list {
		id := op.WorkID{Session: list[i].Session, Work: list[i].ID}
		if id.Session == "" || !slices.Contains(sessions, id.Session) {
			continue
		}
		_, err := op.CancelWork.Do(ctx, d, id)
		status, _ := StatusOf(err)
		switch {
		case err == nil:
			canceled = append(canceled, id)
		case status != http.StatusNotFound && status != http.StatusConflict:
			return canceled, err
		}
	}
	return canceled, nil
}
