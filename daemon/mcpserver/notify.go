package mcpserver

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"crabmem/crmem"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// progressInterval is the time between two progress notifications of a call.
const progressInterval = 2 * time.Second

// reportProgress sends progress notifications during a call with a progress token: a
// call may wait for the store's lock or index the sessions. After end returns, it
// sends no notification.
func reportProgress(ctx context.Context, call *mcp.CallToolRequest) (end func()) {
	token := call.Params.GetProgressToken()
	if token == nil || call.Session == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			passed := time.Duration(n) * progressInterval
			err := call.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: passed.Seconds(), Message: fmt.Sprintf("%s: running for %s", call.Params.Name, passed),
			})
			if err != nil {
				return // the connection has ended
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// listWatch notifies a client of changes of the list of resources. The client must
// have listed the resources or subscribed to changes.
type listWatch struct {
	mu      sync.Mutex
	enabled bool   // the connection can carry notifications
	follows bool   // the client wants them
	names   uint64 // of the newest list that the client can know
}

// nameSeed makes the sums of names differ between processes.
var nameSeed = maphash.MakeSeed()

// sumNames returns a checksum of the list of resources: kinds and names of all
// entries.
func sumNames(st *crmem.Store) (sum uint64) {
	for e := range st.All() {
		sum += maphash.Comparable(nameSeed, struct {
			kind crmem.Kind
			name string
		}{e.Kind, e.Name})
	}
	return sum
}

// follow begins to watch the list, if the server can notify the client.
func (s *Server) follow() {
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	if !s.list.enabled || s.list.follows || s.o.Remote != nil {
		return
	}
	if names, err := s.store.names(); err == nil {
		s.list.names, s.list.follows = names, true
	}
}

// checkList notifies the client if the list of resources has changed. The server
// calls it after each tool call, so that it also detects changes by other programs.
func (s *Server) checkList() {
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	if !s.list.follows {
		return
	}
	names, err := s.store.names()
	if err != nil || names == s.list.names {
		return // the next call reports the error
	}
	s.list.names = names
	// Adding a resource makes the SDK send the notification. listResources omits
	// this resource, and no entry has its URI.
	s.sdk.AddResource(&mcp.Resource{URI: resourceScheme + "changed", Name: "changed"}, s.readResource)
}
