package gateway

import (
	"net/http"

	"crabmem/daemon/gateway/memstores"
)

// storeStyle is the style of a route whose refusals have the shape of Anthropic's.
const storeStyle = "anthropic"

// storeRoutes returns the routes of package memstores.
func storeRoutes() []route {
	list := make([]route, len(memstores.Routes))
	for i, s := range memstores.Routes {
		list[i] = route{method: s.Method, path: s.Path, summary: s.Summary, in: s.In, out: s.Out, query: s.Query, once: s.Once, fails: s.Fails, status: http.StatusOK, style: storeStyle}
		list[i].run = func(c *call) (any, error) {
			return s.Run(&memstores.Request{Request: c.r, Out: c.w.Header(), Query: c.query, Key: c.key.Name, Created: c.key.CreatedAt,
				Once: c.once, Owners: c.g.owners, Daemon: c.daemon.Client, Decode: c.decode, Sum: c.sumOf})
		}
	}
	return list
}
