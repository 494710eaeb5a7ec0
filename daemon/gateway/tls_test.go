package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// writePair writes a certificate for 127.0.0.1 and its key into a directory.
func writePair(t *testing.T, dir, cert, key string) *x509.CertPool {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(filepath.Join(dir, cert), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, key), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

// TestTLSFiles refuses certificates and keys that cannot serve.
func TestTLSFiles(t *testing.T) {
	home := t.TempDir()
	writePair(t, home, "a.pem", "a.key")
	writePair(t, home, "b.pem", "b.key")
	writePair(t, home, "c.pem", "c.key")
	if err := os.Chmod(filepath.Join(home, "c.key"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ cert, key, kind, want string }{
		{"a.pem", "a.key", "", ""},
		{filepath.Join(home, "b.pem"), "b.key", "", ""},
		{"no.pem", "a.key", "config", "read server.tls_cert: "},
		{"a.pem", "no.key", "config", "read server.tls_key: "},
		{"a.pem", "b.key", "config", "private key does not match public key"},
		{"a.key", "a.pem", "permission", "mode 0644"},
		{"c.pem", "c.key", "permission", "mode 0640"},
	} {
		s := Server{TLSCert: c.cert, TLSKey: c.key}
		conf, err := s.tls(vfs.OS{}, home)
		if c.kind == "" && (err != nil || conf.MinVersion != tls.VersionTLS12) {
			t.Errorf("%s, %s: %v", c.cert, c.key, err)
		}
		if c.kind != "" && (err == nil || errtable.Find(err).Kind != c.kind || errtable.Find(err).Fix == "" || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %s: %v, want %s, %s", c.cert, c.key, err, c.kind, c.want)
		}
	}
	conf := DefaultConfig()
	conf.Server.TLSKey = "a.key"
	if err := conf.check(); err == nil || !strings.Contains(err.Error(), "set both, or neither") {
		t.Errorf("a key without a certificate: %v", err)
	}
}

// TestTLS serves HTTPS alone, and verifies connections as without TLS.
func TestTLS(t *testing.T) {
	var pool *x509.CertPool
	dir := t.TempDir()
	r := newRig(t, func(c *Config) {
		pool = writePair(t, dir, "a.pem", "a.key")
		c.Server.TLSCert, c.Server.TLSKey = filepath.Join(dir, "a.pem"), filepath.Join(dir, "a.key")
	})
	addr := strings.TrimPrefix(r.url, "http://")
	get := func(url string, conf *tls.Config) (int, error) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/memories", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+r.keys["root"])
		tr := &http.Transport{TLSClientConfig: conf}
		defer tr.CloseIdleConnections()
		p, err := tr.RoundTrip(q)
		if err != nil {
			return 0, err
		}
		return p.StatusCode, p.Body.Close()
	}
	for range unverified + 2 {
		if status, err := get("https://"+addr, &tls.Config{RootCAs: pool}); status != http.StatusOK || err != nil {
			t.Fatalf("HTTPS: %d, %v", status, err)
		}
	}
	if status, err := get("http://"+addr, nil); status == http.StatusOK {
		t.Errorf("plain HTTP: %d, %v", status, err)
	}
	if status, err := get("https://"+addr, &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Errorf("TLS 1.1: %d", status)
	}
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	at := r.g.o.Config.Server
	at.Host, at.Port = "127.0.0.1", n
	if !Answers(t.Context(), &at, HomeID(vfs.OS{}, r.home)) {
		t.Error("the gateway does not answer")
	}
	r.eventually("the log has the address", func() bool { return strings.Contains(r.log.String(), "url=https://"+addr) })
}
