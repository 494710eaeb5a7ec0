package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"

	"crabmem/crmem/embed"
	"crabmem/crmem/fusion"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"
)

// sessions indexes the sessions of the home at the first search. The index omits
// results of tools, which contain files and secrets.
type sessions struct {
	open  func() (*sessionlog.Dir, error)
	log   *slog.Logger
	model *embed.Model // nil: by words only
	// semantic is how the search uses the model.
	semantic *fusion.Request

	mu    sync.Mutex
	dir   *sessionlog.Dir
	index *search.Index
}

// search searches by words and, with a model, by meaning.
func (m *sessions) search(ctx context.Context, q search.Query, _, _ bool) (*search.Result, error) {
	q.Semantic = cmp.Or(q.Semantic, m.semantic)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.index != nil {
		if err := m.index.Refresh(); err != nil {
			return nil, err
		}
		return m.index.Search(ctx, q)
	}
	dir, err := m.open()
	if errors.Is(err, fs.ErrNotExist) {
		return &search.Result{}, nil // no conversation yet
	} else if err != nil {
		return nil, err
	}
	index, err := search.NewIndex(dir, &search.IndexOptions{Embed: m.model})
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	m.dir, m.index = dir, index
	if n := len(index.Unread()); n > 0 {
		m.log.Warn("omitted unreadable sessions from the search: run crabmem sessions verify", "files", n)
	}
	return index.Search(ctx, q)
}

func (m *sessions) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.index == nil {
		return nil
	}
	return errors.Join(m.index.Close(), m.dir.Close())
}
