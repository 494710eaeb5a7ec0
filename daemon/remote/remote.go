// Package remote carries out operations through a gateway. It is a client of the paths that
// package op gives to operations, and that package gateway serves.
package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
	"crabmem/daemon/guard"
	"crabmem/daemon/op"
	"crabmem/daemon/secret"
)

const (
	connectTime  = 10 * time.Second
	responseTime = 5 * time.Minute // for a header: the limit of the gateway
	maxRoots     = 1 << 20         // bytes
)

// Client is a client of one gateway. It is an [op.Memory] of one space. It sends the key to
// no other origin, and follows no redirect.
type Client struct {
	// Space is the space of operations on a store. Empty: the key's own.
	Space string
	// Warn, if set, receives a message if the client repeats a request that writes.
	Warn func(message string)

	base  *url.URL
	key   string
	http  *http.Client
	limit int64 // of a response, in bytes
	runs  runs
}

// New returns a client of the gateway at a URL that [ParseURL] returned. roots verify the
// certificate; nil: those of the system. The caller closes the client.
func New(base *url.URL, key string, roots *x509.CertPool) *Client {
	dialer := &net.Dialer{Timeout: connectTime}
	return &Client{base: base, key: key, limit: maxBody, http: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTime, ResponseHeaderTimeout: responseTime,
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func usagef(fix, format string, args ...any) error {
	return &errtable.Error{Kind: "usage", Exit: errtable.ExitUsage, Message: fmt.Sprintf(format, args...), Fix: fix}
}

// ParseURL returns the URL of a gateway: https://HOST[:PORT]. It permits http only if no other
// machine can read the key in transit.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Path != "" && u.Path != "/":
		return nil, usagef("set https://HOST or https://HOST:PORT", "the gateway %q is no URL of a host", clean(text))
	case u.Scheme == "http" && !guard.Loopback(u.Hostname()):
		return nil, usagef("use https://, or run ssh -L 3000:127.0.0.1:3000 HOST and use http://127.0.0.1:3000",
			"the gateway %s has no TLS: other machines could read the key in transit", clean(text))
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, usagef("set https://HOST or https://HOST:PORT", "the gateway %q has the scheme %q: want https", clean(text), u.Scheme)
	}
	return &url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host)}, nil
}

// clean returns a URL without the password that it may contain.
func clean(text string) string {
	if at := strings.LastIndex(text, "@"); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// SecretName returns the name of the secret with the key of a gateway. Each origin has
// its own name, so that a wrong URL receives no key of another gateway.
func SecretName(base *url.URL) string {
	name := "gateway-" + strings.NewReplacer("-", "--", ".", "-", ":", "-", "[", "", "]", "").Replace(base.Host)
	if secret.CheckName(name) != nil {
		return "gateway-" + op.SHA256(base.Host)[:32]
	}
	return name
}

// ReadRoots reads a file of PEM certificates.
func ReadRoots(fsys vfs.FS, file string) (*x509.CertPool, error) {
	text, err := vfs.ReadFile(fsys, file, maxRoots)
	roots := x509.NewCertPool()
	if err == nil && !roots.AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s contains no PEM certificate", file)
	}
	if err != nil {
		return nil, &errtable.Error{Kind: "usage", Exit: errtable.ExitUsage, Path: file, Message: "read certificates: " + err.Error(), Err: err,
			Fix: "set CRABMEM_GATEWAY_CA to a file with the PEM certificate that signed that of the gateway"}
	}
	return roots, nil
}

// Path returns the URL of the gateway. It is a method of [op.Memory].
func (c *Client) Path() string { return c.base.String() }

// Read is a method of [op.Memory]. It returns an error: this process has no entries.
func (c *Client) Read(func(*crmem.Store) error) error { return c.Refused("this use of the store") }

// Update is a method of [op.Memory]. It returns an error, as Read does.
func (c *Client) Update(context.Context, func(*crmem.Store) ([]crmem.Op, error)) ([]crmem.Entry, error) {
	return nil, c.Refused("this change of the store")
}

// Close closes the connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Refused returns the error for a use that a gateway does not serve.
func (c *Client) Refused(what string) error {
	return usagef("run it on the machine of the gateway, or without --gateway and CRABMEM_GATEWAY", "a gateway does not serve %s", what)
}
