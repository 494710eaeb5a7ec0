package daemon

import (
	"context"

	"crabmem/daemon/op"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"
)

// searchSessions searches the messages of sessions.
func (d *Daemon) searchSessions(ctx context.Context, q search.Query, tools, semantic bool) (*search.Result, error) {
	if semantic {
		q.Semantic = op.SemanticRequest(d.semantic)
	}
	found, err := d.searchIn(ctx, tools, q)
	if err == nil {
		op.NoteModel(found.Meaning, d.semantic)
	}
	return found, err
}

// searchIn searches the index. Calls and results of tools are in no index; for
// them it reads the files.
func (d *Daemon) searchIn(ctx context.Context, tools bool, q search.Query) (*search.Result, error) {
	if !tools {
		x, err := d.sessionIndex()
		if err != nil {
			return nil, err
		}
		if err := x.Refresh(); err != nil {
			return nil, err
		}
		return x.Search(ctx, q)
	}
	dir, err := sessionlog.OpenDir(d.sessions.Path(), &sessionlog.Options{FS: d.fs, Now: d.now})
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	x, err := search.NewIndex(dir, &search.IndexOptions{Tools: true})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	return x.Search(ctx, q)
}
