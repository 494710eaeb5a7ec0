package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A MissingModelError is returned if a local server does not have a model.
type MissingModelError struct{ Model string }

func (e *MissingModelError) Error() string { return "the server has no model " + e.Model }

// maxList is how much of a list of models is read.
const maxList = 4 << 20

// Probe is the result of a check of a provider. Its texts contain no key.
type Probe struct {
	Provider string `json:"provider"`
	Message  string `json:"message"`           // what was checked, and the result
	Fix      string `json:"fix,omitempty"`     // empty: no problem
	Missing  string `json:"missing,omitempty"` // the model that a server of Ollama does not have; usually empty
}

// DefaultProbeTimeout is the usual time limit for [ProbeAll].
const DefaultProbeTimeout = 5 * time.Second

// ProbeAll checks the providers that are not broken concurrently, each for up to limit.
func ProbeAll(ctx context.Context, providers []Provider, limit time.Duration) []Probe {
	providers = slices.DeleteFunc(slices.Clone(providers), func(p Provider) bool { return p.Broken != nil })
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	probes := make([]Probe, len(providers))
	var wg sync.WaitGroup
	for i, p := range providers {
		wg.Go(func() {
			address, message, err := p.Probe(ctx)
			probes[i] = Probe{Provider: p.Name, Message: message}
			if err != nil {
				probes[i].Message, probes[i].Fix = p.explain(address, err, limit)
			}
			if e, ok := errors.AsType[*MissingModelError](err); ok {
				probes[i].Missing = e.Model
			}
		})
	}
	wg.Wait()
	return probes
}

// explain returns the message and the fix for an error of Probe.
func (p Provider) explain(address string, err error, limit time.Duration) (message, fix string) {
	switch {
	case errors.Is(err, ErrKey) && p.hasKey():
		return address + " rejects " + p.key(), "put a valid key into api_key; if api_key names a variable, change it in the daemon's environment and restart the daemon"
	case errors.Is(err, ErrKey):
		return address + " requires a key, and no key is set", "set api_key or api_key_file of the provider in config.toml"
	case errors.As(err, new(*MissingModelError)):
		return fmt.Sprintf("%s: %v", address, err), "run ollama pull for this model, or correct its name in config.toml"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("%s did not respond within %v", address, limit), "check the network, the proxy, and base_url, or raise --timeout"
	case address == "":
		return err.Error(), "fix it in config.toml"
	}
	return fmt.Sprintf("%s cannot be reached: %v", address, err), "check base_url, the network, and that the server runs"
}

func (p Provider) hasKey() bool { return p.APIKey != "" || p.AccessKey != "" }

// key names the key of the provider in a message.
func (p Provider) key() string {
	if !p.hasKey() {
		return "no key"
	}
	if p.KeySource == "" {
		return "the key"
	}
	return "the key from " + p.KeySource
}

// Probe checks, without cost, whether the provider responds and accepts the key. It
// requests the list of models, or only connects if the kind has no list. It returns
// the address and a description of the check. It returns ErrKey, a
// *MissingModelError, or another error if the provider cannot be reached.
func (p Provider) Probe(ctx context.Context) (address, checked string, err error) {
	if err := p.Check(); err != nil {
		return "", "", err
	}
	k, _ := p.kind()
	base, _, _ := p.base(k)
	t := newTransport()
	defer t.CloseIdleConnections()
	if k.name == "azure" || k.name == "bedrock" {
		checked = fmt.Sprintf("%s accepts connections; %s was not checked: kind %s has no free check", base.Host, p.key(), k.name)
		return base.Host, checked, connect(ctx, t, base)
	}
	address, status, list, err := p.requestList(ctx, t)
	checked = fmt.Sprintf("GET %s: %d %s; ", address, status, http.StatusText(status))
	switch {
	case err != nil:
		return address, "", err
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return address, "", ErrKey
	case status >= 500:
		return address, "", fmt.Errorf("the server returned %d %s", status, http.StatusText(status))
	case status == http.StatusOK && k.name == "ollama":
		err = p.has(list)
	}
	switch {
	case !p.hasKey():
		checked += "no key is set"
	case status != http.StatusOK:
		checked += p.key() + " was not checked"
	case p.open(ctx, t, address):
		checked += p.key() + " was not checked: the list is public"
	default:
		checked += p.key() + " was accepted"
	}
	return address, checked, err
}

// List returns the names of the provider's models. It returns ErrKey if the provider
// refuses the key.
func (p Provider) List(ctx context.Context) (names []string, err error) {
	p.Models = []string{"any"}
	if err := p.Check(); err != nil {
		return nil, err
	}
	t := newTransport()
	defer t.CloseIdleConnections()
	address, status, body, err := p.requestList(ctx, t)
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		return nil, ErrKey
	}
	var l struct{ Data []struct{ ID string } }
	if err == nil && (status != http.StatusOK || json.Unmarshal(body, &l) != nil || l.Data == nil) {
		err = fmt.Errorf("%s returned %d and no list of models", address, status)
	}
	for _, m := range l.Data {
		name := strings.TrimPrefix(m.ID, "models/") // of Gemini
		if name != "" && len(name) <= 256 && len(names) < 1000 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, err
}

// requestList requests the list of models of a checked provider. It returns the address, and
// the status and the beginning of the body.
func (p Provider) requestList(ctx context.Context, t http.RoundTripper) (address string, status int, body []byte, err error) {
	e := p.endpoint("", t)
	address = e.URL + "models"
	status, body, err = get(ctx, t, address, p.listHeader(e.Header))
	return address, status, body, err
}

// listHeader returns the header of a request for the list of models. The list of Anthropic is
// not part of its OpenAI-compatible endpoint, so it needs the key in another form.
func (p *Provider) listHeader(h http.Header) http.Header {
	if k, _ := p.kind(); k.name == "anthropic" && p.APIKey != "" {
		h = h.Clone()
		h.Set("X-Api-Key", p.APIKey)
		h.Set("Anthropic-Version", "2023-06-01")
	}
	return h
}

// open reports whether the provider responds at an address without a key.
func (p Provider) open(ctx context.Context, t http.RoundTripper, address string) bool {
	status, _, err := get(ctx, t, address, nil)
	return err == nil && status == http.StatusOK
}

// get returns the status and the beginning of the body of an address.
func get(ctx context.Context, t http.RoundTripper, address string, header http.Header) (status int, body []byte, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, err
	}
	if header != nil {
		q.Header = header.Clone()
	}
	return fetch(t, q)
}

// fetch sends a request and returns the status and the beginning of the body. It
// follows no redirect.
func fetch(t http.RoundTripper, q *http.Request) (status int, body []byte, err error) {
	client := http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := client.Do(q)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return 0, nil, err
	}
	defer r.Body.Close()
	body, _ = io.ReadAll(io.LimitReader(r.Body, maxList)) // a partial list is unknown
	return r.StatusCode, body, nil
}

// has checks that a server's list contains the provider's models.
func (p Provider) has(list []byte) error {
	var l struct {
		Object string
		Data   []struct{ ID string }
	}
	if json.Unmarshal(list, &l) != nil || l.Object != "list" {
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
