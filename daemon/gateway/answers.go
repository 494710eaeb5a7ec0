package gateway

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/op"
)

// answersWait limits the wait for a gateway.
const answersWait = 2 * time.Second

// HomeID identifies a home to programs that do not know its path.
func HomeID(fsys vfs.FS, home string) string {
	if real, err := fsys.Resolve(home); err == nil {
		home = real
	}
	return op.SHA256("home " + home)[:16]
}

// Answers reports whether the gateway of a home answers at an address. home is a HomeID.
// It sends no secret, so it does not verify the name of the certificate.
func Answers(ctx context.Context, s *Server, home string) bool {
	if s.Port == 0 {
		return false
	}
	host := s.Host
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, answersWait)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL(host, s.Port)+"/health", nil)
	if err != nil {
		return false
	}
	q.Close = true
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	p, err := transport.RoundTrip(q)
	if err != nil {
		return false
	}
	defer p.Body.Close()
	var h health
	return json.NewDecoder(http.MaxBytesReader(nil, p.Body, 1<<10)).Decode(&h) == nil && h.Status != "" && h.Version != "" && h.Home == home
}
