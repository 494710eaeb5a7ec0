package gateway

import (
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// maxPEM limits the size of a certificate chain and of a key, in bytes.
const maxPEM = 1 << 20

// URL returns the address of a gateway that listens on a port of host.
func (c *Server) URL(host string, port int) string {
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// tls returns the configuration of TLS, or nil without a certificate. WebSocket
// connections need HTTP/1.1, so the server offers no other protocol. The error is an
// *errtable.Error, and contains no text of the key.
func (c *Server) tls(fsys vfs.FS, home string) (*tls.Config, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	cert, err := readPEM(fsys, home, "tls_cert", c.TLSCert, false)
	if err != nil {
		return nil, err
	}
	key, err := readPEM(fsys, home, "tls_key", c.TLSKey, true)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &errtable.Error{Kind: "config", Exit: errtable.ExitUsage, Message: fmt.Sprintf("read server.tls_cert and server.tls_key: %v", err), Err: err,
			Fix: "set both to PEM files: the certificate with its chain, and the private key of this certificate"}
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}

// readPEM reads a file of a setting. A relative path begins at the home. If private, it
// refuses a file that other users can access.
func readPEM(fsys vfs.FS, home, setting, file string, private bool) ([]byte, error) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(home, file)
	}
	text, fi, err := vfs.ReadFileInfo(fsys, file, maxPEM)
	if err != nil {
		return nil, &errtable.Error{Kind: "config", Exit: errtable.ExitUsage, Path: file, Message: fmt.Sprintf("read server.%s: %v", setting, err), Err: err,
			Fix: "set " + setting + " in gateway.toml to a PEM file that this user can read"}
	}
	if private && !vfs.OnlyOwner(fi) {
		return nil, &errtable.Error{Kind: "permission", Exit: errtable.ExitPermission, Path: file, Message: fmt.Sprintf("other users can access %s: mode %04o", file, fi.Mode().Perm()),
			Fix: "run chmod 600 " + errtable.ShellWord(file) + ", and replace the key if another user may have read it"}
	}
	return text, nil
}
