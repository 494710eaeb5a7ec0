package gateway

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"time"
)

// answersWait limits the wait for a gateway.
const answersWait = 2 * time.Second

// Answers reports whether a gateway answers at an address.
func Answers(ctx context.Context, s *Server) bool {
	if s.Port == 0 {
		return false
	}
	host := s.Host
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, answersWait)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, strconv.Itoa(s.Port))+"/health", nil)
	if err != nil {
		return false
	}
	q.Close = true
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		return false
	}
	defer p.Body.Close()
	var h health
	return json.NewDecoder(http.MaxBytesReader(nil, p.Body, 1<<10)).Decode(&h) == nil && h.Status != "" && h.Version != ""
}
