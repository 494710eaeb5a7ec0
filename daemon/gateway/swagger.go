package gateway

import (
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/swaggest/swgui/v5/static"
)

// swaggerPath is the path of Swagger UI, a page that describes the paths of the gateway
// and sends requests with a key that a person enters. It is on only if the configuration
// says so: it does not need a key.
const swaggerPath = "/swagger-ui/"

// swaggerPage and swaggerScript are separate, so that the policy permits no script in a page.
const (
	swaggerPage = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>crabmem: paths of the gateway</title>
<link rel="stylesheet" href="swagger-ui.css"></head>
<body><div id="swagger-ui"></div>
<script src="swagger-ui-bundle.js"></script><script src="start.js"></script></body></html>
`
	swaggerScript = `SwaggerUIBundle({url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null, defaultModelsExpandDepth: 0});
`
	swaggerPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

// swaggerFiles are the files of Swagger UI that the page loads, with their types.
var swaggerFiles = map[string]string{"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}

// serveSwagger answers a request for a file of Swagger UI.
func (g *Gateway) serveSwagger(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", swaggerPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	name := strings.TrimPrefix(r.URL.Path, swaggerPath)
	kind, isFile := swaggerFiles[name]
	switch {
	case r.Method != http.MethodGet:
		h.Set("Allow", http.MethodGet)
		g.refuse(w, r, problemf(http.StatusMethodNotAllowed, "method", "%s is not a method of this path", printable(r.Method)).fix("use GET"))
	case name == "":
		h.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, swaggerPage) // an error: the client is gone
	case name == "start.js":
		h.Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = io.WriteString(w, swaggerScript)
	case name == "openapi.json":
		h.Set("Content-Type", jsonKind)
		_, _ = w.Write(g.document)
	case isFile:
		h.Set("Content-Type", kind+"; charset=utf-8")
		sendCompressed(w, r, name+".gz")
	default:
		g.refuse(w, r, noRoute())
	}
}

// sendCompressed sends a compressed file of Swagger UI.
func sendCompressed(w http.ResponseWriter, r *http.Request, name string) {
	f, err := static.FS.Open(name)
	if err != nil { // a version of the module without the file
		w.WriteHeader(http.StatusNotFound)
		return
	}
	defer f.Close()
	w.Header().Set("Vary", "Accept-Encoding")
	var from io.Reader = f
	if accepted := strings.FieldsFunc(r.Header.Get("Accept-Encoding"), func(r rune) bool { return r == ',' || r == ' ' }); slices.Contains(accepted, "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
	} else if from, err = gzip.NewReader(f); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, _ = io.Copy(w, from) // an error: the client is gone
}
