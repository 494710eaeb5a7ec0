//lint:file-ignore SA1019 clients of protocol versions before 2026-07-28 have roots

package mcpserver

import (
	"context"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"crabmem/sessionlog"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// rootsWait bounds the time for the client's list of roots, and maxRoot the address of one.
// From protocol version noRoots on, a server asks no client.
const (
	noRoots   = "2026-07-28"
	rootsWait = 2 * time.Second
	maxRoot   = 4 << 10
)

// project is the present project: that of the client on standard input.
type project struct {
	mu    sync.Mutex
	known bool
	name  string // "": the client gives no root
}

// changed makes the next call ask for the roots again.
func (p *project) changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = false
}

// projectOf returns the project of the client's first root, or "". It asks the client once,
// and again after its roots changed. Over HTTP, it asks no client.
func (s *Server) projectOf(ctx context.Context, session *mcp.ServerSession) string {
	if !s.list.enabled || session == nil || s.o.Remote != nil { // the project of a request is the owner's
		return ""
	}
	client := session.InitializeParams()
	if client == nil || client.Capabilities == nil || client.Capabilities.RootsV2 == nil || client.ProtocolVersion >= noRoots {
		return ""
	}
	p := &s.project
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return p.name
	}
	ctx, cancel := context.WithTimeout(ctx, rootsWait)
	defer cancel()
	p.known, p.name = true, ""
	list, err := session.ListRoots(ctx, nil)
	if err != nil {
		s.o.Log.Warn("list the roots of the client", "error", err)
		return ""
	}
	for _, root := range list.Roots {
		if root != nil {
			p.name = sessionlog.ProjectOf(s.o.FS, rootDir(root.URI))
			break
		}
	}
	return p.name
}

// rootDir returns a root's directory, or "" if it is not on this machine.
func rootDir(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || len(uri) > maxRoot || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || strings.ContainsRune(u.Path, 0) {
		return ""
	}
	dir := u.Path
	if runtime.GOOS == "windows" {
		dir = strings.TrimPrefix(dir, "/")
	}
	if dir = filepath.Clean(filepath.FromSlash(dir)); !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}
