package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/box"
	"crabmem/daemon/display"
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
			return t.onSession(ctx, d, func(on op.Caller) error {
				_, err := op.PurgeSession.Do(ctx, on, op.SessionTexts{Session: p.Name, Texts: t.texts})
				return err
			})
		})
	}
	home := t.absHome()
	switch filepath.Dir(p.Path) {
	case home:
		return t.chatHistory(home, false)
	case filepath.Join(home, box.Webhook), filepath.Join(home, box.Telegram):
		_, err := box.Purge(t.fs, home, false, t.texts...)
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

// homePlaces lists the names in a home whose texts a purge searches by their own rules,
// or that contain no text of an entry. A name that ends with * is a prefix. A purge
// searches every other file for the bytes of the texts, and names the file.
var homePlaces = []string{
	"memory.db*", ".memory.db*", "spaces", // stores, searched with their history
	"sessions",                // searched with deleted and damaged sessions
	"history",                 // chat input, searched
	box.Webhook, box.Telegram, // searched
	"logs", // never texts of entries
	"daemon.sock", "daemon.lock",
	"secrets.json", "secrets.key", // encrypted
}

// isHomePlace reports whether homePlaces contains a name.
func isHomePlace(name string) bool {
	return slices.ContainsFunc(homePlaces, func(place string) bool {
		prefix, ok := strings.CutSuffix(place, "*")
		return name == place || ok && strings.HasPrefix(name, prefix)
	})
}

// otherFiles adds the files of a home outside homePlaces that contain a text, as it is or
// as a JSON string. No purge can change them.
func (t *textSearch) otherFiles(home string) error {
	list, err := t.fs.ReadDir(home)
	if missing(err) {
		return nil
	} else if err != nil {
		return err
	}
	var forms [][]byte
	for _, text := range t.texts {
		quoted, _ := json.Marshal(text) // a string: never fails
		forms = append(forms, []byte(text), quoted[1:len(quoted)-1])
	}
	for _, e := range list {
		if !isHomePlace(e.Name()) {
			t.otherFile(filepath.Join(home, e.Name()), forms)
		}
	}
	return nil
}

// otherFile is otherFiles for a file or a directory.
func (t *textSearch) otherFile(path string, forms [][]byte) {
	fi, err := t.fs.Lstat(path)
	switch {
	case missing(err) || t.full():
		return
	case err != nil:
		t.failed(err)
		return
	case fi.IsDir():
		list, err := t.fs.ReadDir(path)
		if err != nil && !missing(err) {
			t.failed(err)
		}
		for _, e := range list {
			t.otherFile(filepath.Join(path, e.Name()), forms)
		}
		return
	case !fi.Mode().IsRegular() || !t.takes(fi.Size()):
		return
	}
	b, err := vfs.ReadFile(t.fs, path, 1<<30)
	if err != nil {
		if !missing(err) {
			t.failed(err)
		}
		return
	}
	for _, form := range forms {
		if bytes.Contains(b, form) {
			t.add(textPlace{Kind: placeFile, Path: path, Reason: "no purge can change this file",
				Remedy: "remove the text from " + display.Printable(path) + ", then run the command again"})
			return
		}
	}
}
