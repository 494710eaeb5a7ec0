package guard

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// JSONBody reports whether the only Content-Type is JSON. Browsers send it to
// another site only after a preflight request.
func JSONBody(h http.Header) bool {
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return false
	}
	media, _, _ := strings.Cut(types[0], ";")
	return strings.EqualFold(strings.TrimSpace(media), "application/json")
}

// Loopback reports whether only this machine can reach an address.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Hosts contains the names of this server, in lower case.
type Hosts struct {
	port    string
	own     []string
	allowed []string // names of a proxy, with any port
}

// NewHosts returns the names of a server that listens on bound and port. allowed are
// further names, with any port.
func NewHosts(bound, port string, allowed []string) Hosts {
	h := Hosts{port: port, own: []string{"localhost", "crabmem.localhost", "127.0.0.1", "::1"}}
	if ip := net.ParseIP(bound); bound != "" && (ip == nil || !ip.IsUnspecified()) {
		h.own = append(h.own, strings.ToLower(bound))
	}
	for _, name := range allowed {
		h.allowed = append(h.allowed, strings.ToLower(strings.Trim(name, "[]")))
	}
	return h
}

// Host reports whether a Host header contains one of the names and the server's
// port.
func (h Hosts) Host(header string) bool {
	name, port, err := net.SplitHostPort(header)
	if err != nil {
		name, port = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]"), "80"
	}
	name = strings.ToLower(name)
	return slices.Contains(h.own, name) && port == h.port || slices.Contains(h.allowed, name)
}

// Origins reports whether Origin and Sec-Fetch-Site, if set, name this server.
func (h Hosts) Origins(header http.Header) bool {
	for _, o := range header.Values("Origin") {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !h.Host(u.Host) {
			return false
		}
	}
	site := header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin" || site == "none"
}
