package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"crabmem/daemon/gateway/page"
)

// isOrigin reports whether a browser may send a text as an origin: a scheme and a host in
// lower case, and a port unless it is that of the scheme.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Hostname() != "" && text == strings.ToLower(u.Scheme+"://"+u.Host) && !strings.Contains(text, "*") &&
		(u.Scheme == "http" && u.Port() != "80" || u.Scheme == "https" && u.Port() != "443")
}

// share reports whether a request is from a page of another site that the configuration
// lists, and lets that page read the response. The page needs a key: browsers do not send
// cookies with the request, and no page of the gateway is shared.
func (g *Gateway) share(h http.Header, r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) != 1 || !slices.Contains(g.o.Config.Server.CORS, origins[0]) {
		return false
	}
	if p := r.URL.Path; p == "/" || strings.HasPrefix(p, page.Prefix) || strings.HasPrefix(p, swaggerPath) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Set("Access-Control-Expose-Headers", "ETag, Location, Retry-After, WWW-Authenticate, X-Crabmem-Ignored, X-Crabmem-Session")
	h.Set("Vary", "Origin")
	return true
}

// preflight permits the method and the headers that a browser asks for. The key of the
// request, not the response to a preflight request, decides what is permitted.
func preflight(h http.Header, r *http.Request) {
	h.Set("Access-Control-Allow-Methods", "DELETE, GET, PATCH, POST, PUT")
	if names := r.Header.Get("Access-Control-Request-Headers"); names != "" {
		h.Set("Access-Control-Allow-Headers", names)
	}
	h.Set("Access-Control-Max-Age", "600")
}
