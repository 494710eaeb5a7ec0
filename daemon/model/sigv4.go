package model

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// signer signs requests with AWS Signature Version 4.
type signer struct {
	region, service      string
	accessKey, secretKey string
	now                  func() time.Time
}

// sign adds X-Amz-Date and Authorization. It signs the host, the content type,
// and the date; proxies may change other headers.
func (s *signer) sign(r *http.Request, body []byte) error {
	at := s.now().UTC()
	r.Header.Set("X-Amz-Date", at.Format("20060102T150405Z"))
	headers := map[string]string{"host": r.URL.Host, "x-amz-date": r.Header.Get("X-Amz-Date")}
	if t := r.Header.Get("Content-Type"); t != "" {
		headers["content-type"] = strings.TrimSpace(t)
	}
	var names []string
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	signed := strings.Join(names, ";")

	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, canonicalPath(r.URL), r.URL.Query().Encode())
	for _, name := range names {
		fmt.Fprintf(&canonical, "%s:%s\n", name, headers[name])
	}
	fmt.Fprintf(&canonical, "\n%s\n%s", signed, hash(body))

	scope := fmt.Sprintf("%s/%s/%s/aws4_request", at.Format("20060102"), s.region, s.service)
	text := "AWS4-HMAC-SHA256\n" + at.Format("20060102T150405Z") + "\n" + scope + "\n" + hash([]byte(canonical.String()))
	key := []byte("AWS4" + s.secretKey)
	for _, part := range strings.Split(scope, "/") {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x",
		s.accessKey, scope, signed, mac(key, text)))
	return nil
}

// canonicalPath returns the path of the request with each part escaped once
// more.
func canonicalPath(u *url.URL) string {
	path := u.EscapedPath()
	if path == "" {
		return "/"
	}
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.QueryEscape(p), "+", "%20")
	}
	return strings.Join(parts, "/")
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
