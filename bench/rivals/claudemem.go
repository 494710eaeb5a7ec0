//go:build linux

package main

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
)

// claudeMem runs the worker that the hooks of claude-mem start. The worker saves a note
// without a model (POST /api/memory/save), and searches by words. All agents of a user
// share one worker, so a second session of a home uses the worker of the first.
func claudeMem(tools string) system {
	workers := map[string]*session{}
	bases := map[string]string{}
	pkg := filepath.Join(tools, "claude-mem", "node_modules")
	bun := filepath.Join(pkg, ".bin", "bun")
	worker := filepath.Join(pkg, "claude-mem", "plugin", "scripts", "worker-service.cjs")
	open := func(home string, wrap ...string) (*session, string, error) {
		if s := workers[home]; s != nil {
			return &session{add: s.add, search: s.search, stop: func() {}}, bases[home], nil
		}
		port, err := freePort()
		if err != nil {
			return nil, "", err
		}
		env := environment(home, "CLAUDE_MEM_WORKER_PORT="+strconv.Itoa(port), "CLAUDE_MEM_WORKER_HOST=127.0.0.1", "CLAUDE_MEM_CHROMA_ENABLED=false",
			"CLAUDE_MEM_DATA_DIR="+filepath.Join(home, ".claude-mem"))
		p, err := start(home, env, append(wrap, bun, worker, "--daemon"))
		if err != nil {
			return nil, "", err
		}
		base := fmt.Sprintf("http://127.0.0.1:%d/api/", port)
		err = settle("claude-mem", func() bool { _, err := fetch("GET", base+"readiness", nil); return err == nil })
		if err != nil {
			p.stop()
			return nil, "", fmt.Errorf("%w: %s", err, p.stderr)
		}
		s := &session{
			add: func(n note) error {
				_, err := fetch("POST", base+"memory/save", map[string]any{"title": n.name, "text": n.text, "project": "p"})
				return err
			},
			search: func(words string) (string, error) {
				return fetch("GET", base+"search?limit=5&query="+url.QueryEscape(words), nil)
			},
			stop: func() { delete(workers, home); p.stop() },
		}
		workers[home], bases[home] = s, base
		return s, base, nil
	}
	return system{
		name: "claude-mem", version: first("node", "-p", "require('"+filepath.Join(pkg, "claude-mem", "package.json")+"').version"),
		size: []string{pkg}, needs: "Node.js, Bun, a server, and a model to capture",
		open: func(home string, wrap ...string) (*session, error) { s, _, err := open(home, wrap...); return s, err },
		read: func(home string) (string, error) {
			s, base, err := open(home)
			if err != nil {
				return "", err
			}
			defer s.stop()
			var all string
			for offset := 0; offset < 1000; offset += 100 { // a page has at most 100
				page, err := fetch("GET", fmt.Sprintf("%sobservations?limit=100&offset=%d", base, offset), nil)
				if err != nil {
					return all, err
				}
				all += page
			}
			return all, nil
		},
		stores: []string{".claude-mem/claude-mem.db*"},
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
