package model

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// ErrKey is returned if a provider responds but refuses the key.
var ErrKey = errors.New("the provider rejected the API key")

// A MissingModelError is returned if a local server does not have a model.
type MissingModelError struct{ Model string }

func (e *MissingModelError) Error() string { return "the server has no model " + e.Model }

// maxList is how much of a list of models is read.
const maxList = 4 << 20

// Probe checks whether a provider responds, without cost: it requests the list
// of models, or only connects if the provider has no list. It returns the
// address. The errors are ErrKey, a *MissingModelError, or the reason why the
// provider cannot be reached.
func (p Provider) Probe(ctx context.Context) (address string, err error) {
	if err := p.Check(); err != nil {
		return "", err
	}
	k, _ := p.kind()
	base, _, _ := p.base(k)
	t := newTransport()
	defer t.CloseIdleConnections()
	if k.name == "azure" || k.name == "bedrock" {
		return base.Host, connect(ctx, t, base)
	}
	e := p.endpoint("", t)
	address = e.URL + "models"
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return address, err
	}
	q.Header = e.Header
	client := http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := client.Do(q)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return address, err
	}
	defer r.Body.Close()
	switch {
	case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden:
		return address, ErrKey
	case r.StatusCode >= 500:
		return address, errors.New("the server returned " + r.Status)
	case r.StatusCode == http.StatusOK && k.name == "ollama":
		return address, p.has(r.Body)
	}
	return address, nil // it may have no list
}

// has checks that a server's list contains the provider's models.
func (p Provider) has(list io.Reader) error {
	var l struct {
		Object string
		Data   []struct{ ID string }
	}
	if json.NewDecoder(io.LimitReader(list, maxList)).Decode(&l) != nil || l.Object != "list" {
		return nil // unknown
	}
	for _, m := range p.Models {
		if !slices.ContainsFunc(l.Data, func(d struct{ ID string }) bool {
			return d.ID == m || d.ID == m+":latest"
		}) {
			return &MissingModelError{m}
		}
	}
	return nil
}

// connect opens and closes a connection, through the proxy if one is set.
func connect(ctx context.Context, t *http.Transport, base *url.URL) error {
	to := base
	if t.Proxy != nil {
		if via, err := t.Proxy(&http.Request{URL: base}); err == nil && via != nil {
			to = via
		}
	}
	port := to.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080"}[strings.TrimSuffix(to.Scheme, "h")]
		if port == "" {
			port = "80"
		}
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(to.Hostname(), port))
	if err != nil {
		return err
	}
	return c.Close()
}
