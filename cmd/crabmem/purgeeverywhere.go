package main

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"crabmem/daemon/client"
	"crabmem/daemon/gateway/hook"
	"crabmem/daemon/op"
	"crabmem/sessionlog"
)

// key returns a key that is equal for the same place in two searches.
func (p *textPlace) key() string { return p.Kind + "\x00" + p.Path + "\x00" + p.Name }

// purgePlaces searches for places and purges them. It repeats this until a search finds
// no place that can be purged. It returns the purged places. t.places contains the
// remaining places, each with a reason.
func (t *textSearch) purgePlaces(ctx context.Context) (purged []textPlace, err error) {
	tried := make(map[string]string) // the reason why a place is not purged, by its key
	purged = []textPlace{}
	for progress := true; progress; {
		if err := t.search(); err != nil {
			return purged, err
		}
		progress = false
		for i := range t.places {
			p := &t.places[i]
			reason, again := tried[p.key()]
			switch {
			case p.Kind == placeTree:
				p.Reason = "its directory is unknown"
			case p.Reason != "":
			case again:
				p.Reason = cmp.Or(reason, "it contains the text again")
			default:
				if err := t.purgePlace(ctx, p); err == nil {
					purged, progress = append(purged, *p), true
				} else if ctx.Err() != nil {
					return purged, err
				} else {
					p.Reason = classify(err).Message
				}
				tried[p.key()] = p.Reason
			}
		}
	}
	return purged, nil
}

// purgePlace purges one place. Trees are not supported.
func (t *textSearch) purgePlace(ctx context.Context, p *textPlace) error {
	switch p.Kind {
	case placeEntry, placeVersion:
		return t.inStore(p, func() error {
			return t.write(ctx, "forget", false, func(s op.Memory) error {
				_, err := op.Purge.Do(ctx, s, op.Removal{Name: p.Name, Archive: true})
				return err
			})
		})
	case placeSession:
		return t.writeSessions("purge", true, func(d *sessionlog.Dir) error {
			return t.onSession(ctx, d, func() error {
				_, err := d.Purge(p.Name, t.texts...)
				return err
			}, func(daemon *client.Client) error {
				_, err := op.PurgeSession.Do(ctx, daemon, op.SessionTexts{Session: p.Name, Texts: t.texts})
				return err
			})
		})
	}
	home := t.absHome()
	switch filepath.Dir(p.Path) {
	case home:
		return t.chatHistory(home, false)
	case filepath.Join(home, hook.Dir):
		_, err := hook.Purge(t.fs, home, false, t.texts...)
		return err
	}
	return t.writeSessions("purge", true, func(d *sessionlog.Dir) error {
		paths, err := d.PurgeCopies(false, t.texts...)
		if _, lerr := t.fs.Lstat(p.Path); slices.Contains(paths, p.Path) || missing(lerr) {
			return nil
		}
		return err
	})
}

// inStore calls f with flags that select the store of a place.
func (t *textSearch) inStore(p *textPlace, f func() error) error {
	if t.sameFile(p.Path, t.storePath()) {
		return f()
	}
	home := t.absHome()
	db, old, name := t.db, t.home, t.space
	defer func() { t.db, t.home, t.space = db, old, name }()
	t.db, t.home, t.space = "", home, p.Space
	return f()
}

// removeBases removes the merge bases of the entries.
func (t *textSearch) removeBases() error {
	for _, path := range t.trees {
		if err := t.fs.Remove(path); err != nil && !missing(err) {
			return err
		}
		if err := t.fs.SyncDir(filepath.Dir(path)); err != nil {
			return err
		}
	}
	return nil
}
