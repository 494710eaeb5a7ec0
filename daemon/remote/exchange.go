package remote

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

const (
	maxBody  = 256 << 20 // bytes of a response
	maxWaits = 5         // waits of one request for the rate of the key
	maxWait  = 10 * time.Second
)

// answer is a complete response.
type answer struct {
	status int
	header http.Header
	body   []byte
	sent   bool // the gateway may have received the request
}

// once sends a request once. After an error, sent is valid.
func (c *Client) once(ctx context.Context, q *request) (a answer, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { a.sent = true }})
	p, err := c.send(ctx, q)
	if err != nil {
		return a, err
	}
	defer p.Body.Close()
	a.status, a.header = p.StatusCode, p.Header
	a.body, err = io.ReadAll(io.LimitReader(p.Body, c.limit+1))
	if err == nil && int64(len(a.body)) > c.limit {
		err = fmt.Errorf("the response has more than %d bytes", c.limit)
	}
	return a, err
}

// exchange sends a request, and returns the body of a success. If the response is lost, it
// repeats once a request that has one effect.
func (c *Client) exchange(ctx context.Context, row *op.Row, q *request) ([]byte, error) {
	var lost error
	for waits := 0; ; {
		a, err := c.once(ctx, q)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		switch {
		case err != nil && !a.sent && lost == nil:
			return nil, c.unreachable(err)
		case err == nil && a.status < 300:
			return a.body, nil
		case err == nil:
			if wait, ok := a.wait(); ok && waits < maxWaits {
				waits++
				if err := pause(ctx, wait); err != nil {
					return nil, err
				}
				continue
			}
			if err = c.refusal(row, &a); lost == nil && !isLost(row, &a) {
				return nil, err
			}
			if lost != nil && !isEarly(&a) {
				return nil, err // of the request that was repeated: the first had no effect
			}
		}
		if lost != nil || !row.Repeats && !row.Retry {
			return nil, c.unknown(row, err)
		}
		if lost = err; row.Effect != op.Reads && c.Warn != nil {
			c.Warn("the response of the gateway was lost: " + cause(err).Error() + "; the same request was sent again, and has one effect")
		}
	}
}

// wait returns how long to wait for the rate of the key.
func (a *answer) wait() (time.Duration, bool) {
	seconds, err := strconv.ParseUint(a.header.Get("Retry-After"), 10, 16)
	wait := time.Duration(seconds) * time.Second
	return wait, err == nil && wait <= maxWait && a.status == http.StatusTooManyRequests && a.problem().Kind == "rate"
}

func pause(ctx context.Context, wait time.Duration) error {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isLost reports whether a refusal says that a request may have had an effect.
func isLost(row *op.Row, a *answer) bool {
	return a.status == http.StatusBadGateway && row.Family == errtable.Store || a.status == http.StatusGatewayTimeout
}

// isEarly reports whether a refusal says nothing of an earlier request with the same key.
func isEarly(a *answer) bool {
	return a.status >= 500 || a.problem().Kind == "spent" || slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, a.status)
}

// problem is a refusal of a gateway. Without a kind, it is of another server.
type problem struct {
	Detail string `json:"detail"`
	Kind   string `json:"kind"`
	Remedy string `json:"remedy"`
}

func (a *answer) problem() (p problem) {
	if json.Unmarshal(a.body, &p) != nil {
		return problem{}
	}
	return p
}

// refusal returns the error of a response that is no success. The errors of an operation
// are the same as over the daemon's socket.
func (c *Client) refusal(row *op.Row, a *answer) error {
	p := a.problem()
	e := &errtable.Error{Kind: "gateway", Exit: errtable.ExitUnreachable, Fix: "set the URL that crabmem gateway prints when it starts"}
	switch {
	case a.status < 400:
		e.Message = fmt.Sprintf("%s redirects to %q, which was not called", c.base, a.header.Get("Location"))
		e.Fix = "set the URL of the gateway itself"
		return e
	case p.Kind == "":
		e.Message = fmt.Sprintf("%s responded %d %s, as no crabmem gateway does", c.base, a.status, http.StatusText(a.status))
		return e
	case p.Kind == "no_route" || p.Kind == "method":
		e.Message, e.Fix = fmt.Sprintf("the gateway does not serve %s: it has another version than this program", row.Name), "update the older one"
		return e
	case p.Kind == "no_daemon" || p.Kind == "version":
		e.Kind, e.Message, e.Fix = p.Kind, "call gateway: "+p.Detail, p.Remedy
		return e
	}
	if _, what, ok := strings.Cut(p.Remedy, " lists "); ok && strings.HasPrefix(p.Remedy, http.MethodGet+" ") { // for programs over HTTP
		p.Remedy = "list " + what + ", then retry"
	}
	return &op.Error{Code: uint32(a.status), Message: p.Detail, Kind: p.Kind, Remedy: p.Remedy, Family: row.Family}
}

// unreachable returns the error of a request that was not sent.
func (c *Client) unreachable(err error) error {
	e := &errtable.Error{Kind: "no_gateway", Exit: errtable.ExitUnreachable, Err: err, Message: fmt.Sprintf("no gateway answers at %s: %v", c.base, cause(err)),
		Fix: "check the URL and the network; on its machine, run crabmem gateway"}
	if errors.As(err, new(*tls.CertificateVerificationError)) {
		e.Kind, e.Message = "certificate", fmt.Sprintf("verify certificate of %s: %v", c.base, cause(err))
		e.Fix = "use a host name that the certificate contains; if your own authority signed it, set CRABMEM_GATEWAY_CA to the file with its certificate"
	}
	return e
}

// unknown returns the error of a request that was sent, and has no response.
func (c *Client) unknown(row *op.Row, err error) error {
	e := &errtable.Error{Kind: "no_response", Exit: errtable.ExitFailure, Err: err, Message: fmt.Sprintf("wait for response of %s: %v", c.base, cause(err)), Fix: "retry"}
	if row.Effect != op.Reads {
		e.Kind, e.Exit = "outcome_unknown", errtable.ExitUnknown
		e.Message = fmt.Sprintf("wait for response of %s: outcome unknown: %v", c.base, cause(err))
		e.Fix = "check whether the change was made, such as with crabmem log, before you retry"
	}
	return e
}

// cause returns the error without the method and the URL.
func cause(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
