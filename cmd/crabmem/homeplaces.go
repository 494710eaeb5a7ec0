package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/daemon/gateway/hook"
)

// homePlaces lists the names in a home whose texts a purge searches by their own rules,
// or that contain no text of an entry. A name that ends with * is a prefix. A purge
// searches every other file for the bytes of the texts, and names the file.
var homePlaces = []string{
	"memory.db*", ".memory.db*", "spaces", // stores, searched with their history
	"sessions", // searched with deleted and damaged sessions
	"history",  // chat input, searched
	hook.Dir,   // searched
	"logs",     // never texts of entries
	"daemon.sock", "daemon.lock",
	"secrets.json", "secrets.key", // encrypted
}

// isHomePlace reports whether homePlaces contains a name.
func isHomePlace(name string) bool {
	for _, place := range homePlaces {
		if prefix, ok := strings.CutSuffix(place, "*"); name == place || ok && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
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
