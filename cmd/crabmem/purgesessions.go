package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"crabmem/daemon/errtable"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// sessions searches the sessions of the home, and the files of deleted, damaged, and
// kept ones.
func (t *textSearch) sessions() {
	path, err := t.sessionsPath()
	if err != nil {
		t.failed(err)
		return
	}
	if _, err := t.fs.Lstat(path); missing(err) {
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
	folders, err := t.fs.ReadDir(d.Path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.failed(err)
	}
	for _, f := range folders {
		if f.IsDir() && f.Name() != ".locks" {
			t.rawFiles(filepath.Join(d.Path(), f.Name()))
		}
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
	for l, err := range joinStreamed(s.Lines(0)) {
		if err != nil {
			t.failed(err)
			return
		}
		if t.full() {
			return
		}
		if t.inLine(&l) {
			t.add(textPlace{Kind: placeSession, Name: s.ID, Path: s.Path, Remedy: "run crabmem sessions delete " + errtable.ShellWord(s.ID) +
				", then remove the file from " + errtable.ShellWord(filepath.Join(d.Path(), ".trash"))})
			return
		}
	}
}

// inLine reports whether a line of a session contains one of the texts.
func (t *textSearch) inLine(l *sessionlog.Line) bool {
	switch l.Kind {
	case record.KindMessage:
	case record.KindMarker:
		return t.contains(l.Summary)
	default:
		return t.containsAny(string(l.Raw), t.escaped)
	}
	if t.contains(l.Message.Content) || t.contains(l.Message.ReasoningContent) {
		return true
	}
	for _, c := range l.Message.ToolCalls {
		if t.contains(stringsIn(c.Function.Arguments)) {
			return true
		}
	}
	return false
}

// stringsIn returns the text of the strings in a JSON text, or the JSON text if it is
// invalid.
func stringsIn(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	var b strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			b.WriteString(v + "\n")
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return b.String()
}
