// Package memstores serves the spaces of a daemon in the shapes of Anthropic's Memory
// Stores. A store is a space, a memory is a note, and its path is a slash and the name of
// the note. Other names have no path: these notes, and archives, are not visible here.
package memstores

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
)

const maxShown = 80 // bytes of what a client sent, in a message

// Route is a method of a path. Its success has the status 200.
type Route struct {
	Method, Path string
	Summary      string
	Query        []op.Field
	In, Out      reflect.Type // of the bodies; nil: none
	Once         bool         // accepts the header Idempotency-Key
	Fails        []int        // statuses of refusals, besides those of every route
	Run          func(*Request) (any, error)
}

// Routes is the table of all routes.
var Routes = slices.Concat(storeRoutes, memoryRoutes, versionRoutes)

// Request is a request for a route, whose query is checked.
type Request struct {
	*http.Request
	Out     http.Header // of the response
	Query   url.Values
	Key     string // its name
	Created string // when the key was created
	Once    string // Idempotency-Key; may be empty
	Owners  func() *space.Owners
	Daemon  *client.Client
	Decode  func(to any) error           // decodes the body
	Sum     func(in any) ([]byte, error) // returns a digest of all that determines the effect

	begun bool // an earlier request with the Idempotency-Key may have had its effect
}

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

// param returns a parameter of the query that is a text. If words are given, they are its
// only values.
func param(name, doc string, words ...string) op.Field {
	return op.Field{Name: name, Doc: doc, Type: of[string](), Words: words}
}

// text returns a parameter, which the route declares.
func (r *Request) text(name string) string { return r.Query.Get(name) }

// number returns a parameter, or absent if the request has none.
func (r *Request) number(name string, absent uint64) uint64 {
	if n, err := strconv.ParseUint(r.text(name), 10, 53); err == nil {
		return n
	}
	return absent
}

// refuse returns the error of a refused request.
func refuse(status uint32, kind, fix, format string, args ...any) *errtable.Error {
	e := errtable.Errorf(status, kind, format, args...)
	e.Fix = fix
	return e
}

// printable returns a text for a message, without control characters, and not long.
func printable(s string) string { return display.Short(s, maxShown) }
