package gateway

import (
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"crabmem/daemon/op"
)

// The kinds of responses.
const (
	jsonKind    = "application/json"
	problemKind = "application/problem+json"
	streamKind  = "text/event-stream"
)

// route is what the server accepts on a path with a method.
type route struct {
	method, path string
	summary      string
	open         bool // without a key
	query        []op.Field
	match        bool                    // needs the header If-Match
	once         bool                    // accepts the header Idempotency-Key
	in           reflect.Type            // of the body; nil: none
	body         *jsonschema.Schema      // of in; nil: another vendor's contract describes it
	inName       string                  // of its schema; empty: the name of the type
	big          bool                    // the body contains the content of an entry
	out          reflect.Type            // of the response; nil: none
	outName      string                  // of its schema; empty: the name of the type
	status       int                     // of a success
	kind         string                  // of the response; empty: JSON
	events       map[string]reflect.Type // the named events of a stream
	fails        []int                   // statuses of refusals, besides those of every route
	style        string                  // of refusals; empty: problems
	waits        bool                    // takes the slot of a stream in place of that of a call
	run          func(*call) (any, error)
}

// of returns the type of a body.
func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

// own reports whether this program defines the body of a route. The others have the shape
// of another vendor's.
func (r *route) own() bool { return r.style == "" && !strings.HasPrefix(r.path, hookPath) }

// with returns the function of a route whose body is a T.
func with[T any](f func(*call, *T) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		in := new(T)
		if err := c.decode(in); err != nil {
			return nil, err
		}
		return f(c, in)
	}
}

// adapters is the table of the routes that are not operations, or have the shape of
// another vendor.
var adapters = slices.Concat(generalRoutes, messageRoutes, runRoutes, followRoutes, socketRoutes, adminRoutes, storeRoutes(), hookRoutes)

// routes returns the table of all routes of a configuration.
func (c *Config) routes() []route {
	list := slices.Concat(adapters, rowRoutes())
	if c.Gateway.OpenAI {
		list = append(list, openaiRoutes...)
	}
	return list
}

// newMux returns the handler of all paths.
func (g *Gateway) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	methods := make(map[string]map[string]*route)
	for i := range g.routes {
		r := &g.routes[i]
		if methods[r.path] == nil {
			methods[r.path] = make(map[string]*route)
		}
		methods[r.path][r.method] = r
	}
	for at, byMethod := range methods {
		allowed := make([]string, 0, len(byMethod))
		for method := range byMethod {
			allowed = append(allowed, method)
		}
		slices.Sort(allowed)
		mux.HandleFunc(at, func(w http.ResponseWriter, r *http.Request) {
			route := byMethod[r.Method]
			if route == nil {
				w.Header().Set("Allow", strings.Join(allowed, ", "))
				g.unrouted(w, r, problemf(http.StatusMethodNotAllowed, "method", "%s is not a method of this path", printable(r.Method)).fix("use %s", strings.Join(allowed, " or ")))
				return
			}
			g.serve(w, r, route)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { g.unrouted(w, r, noRoute()) })
	return mux
}

func noRoute() *Problem {
	return problemf(http.StatusNotFound, "no_route", "no such path").fix("see /api-docs/openapi.json")
}

// clean reports whether the server would redirect no request for the path. Redirected
// methods and bodies are not what the client sent.
func clean(p string) bool {
	return p != "" && p[0] == '/' && (path.Clean(p) == p || strings.HasSuffix(p, "/") && path.Clean(p)+"/" == p)
}
