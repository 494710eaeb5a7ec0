package main

import (
	"errors"
	"path/filepath"

	"crabmem/daemon/errtable"
	"crabmem/sessionlog"
)

// sessions searches the sessions of the home, and the files of deleted, damaged, and
// kept ones.
func (t *textSearch) sessions() {
	if _, err := t.fs.Lstat(t.sessionsPath()); missing(err) {
		return
	}
	d, err := t.openSessions("", true)
	if err != nil {
		t.failed(err)
		return
	}
	defer d.Close()
	infos, err := d.List()
	if err != nil {
		t.failed(err)
	}
	for i := range infos {
		if !t.full() {
			t.session(d, infos[i].File)
		}
	}
	copies, err := d.PurgeCopies(true, t.texts...)
	if err != nil {
		t.failed(err)
	}
	for _, path := range copies {
		t.add(textPlace{Kind: placeFile, Path: path, Remedy: "remove the file"})
	}
}

// session searches a session.
func (t *textSearch) session(d *sessionlog.Dir, file string) {
	s, err := d.Read(file)
	if errors.Is(err, sessionlog.ErrNotFound) {
		return // deleted or renamed
	}
	if err != nil {
		t.failed(err)
		return
	}
	defer s.Close()
	if !t.takes(s.Size) {
		return
	}
	found, err := s.Contains(t.texts...)
	if err != nil {
		t.failed(err)
	}
	if found {
		t.add(textPlace{Kind: placeSession, Name: s.ID, Path: s.Path, Remedy: "run crabmem sessions delete " + errtable.ShellWord(s.ID) +
			", then remove the file from " + errtable.ShellWord(filepath.Join(d.Path(), ".trash"))})
	}
}
