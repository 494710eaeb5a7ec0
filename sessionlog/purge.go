package sessionlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// Contains reports whether a record of the session contains one of the texts, also in
// JSON in a string or across text records. The error is that of the system, or
// ErrFormat for a line that is too long to be searched.
func (s *Session) Contains(texts ...string) (bool, error) {
	p, err := s.plan(texts)
	return p.found, err
}

// Purge replaces each string with one of the texts by "[purged]" in the records of a
// session (FORMAT.md, S34), and returns the number of changed lines. An open session
// cannot be purged.
//
// Errors: [ErrNotFound], [ErrNotApplied], [ErrUnknown], ErrFormat for a line that is
// too long to be searched, *[vfs.LockedError], and the system's.
func (d *Dir) Purge(id string, texts ...string) (lines int, err error) {
	l, err := d.Open(id) // recovers the end of the file
	if err == nil {
		if e := eraser(texts); e.isIn(l.Meta().Title) {
			err = l.SetTitle(record.Purged) // the file's name contains the title
		}
		err = errors.Join(err, l.Close())
	}
	if err != nil && !errors.Is(err, ErrReadOnly) && !errors.Is(err, ErrFormat) {
		return 0, err
	}
	err = d.located(d.path, id, func(name string) (err error) {
		lines, err = d.purgeFile(d.path, name, texts)
		return err
	})
	return lines, err
}

// PurgeCopies purges the deleted sessions, and removes quarantine files and kept
// copies that contain one of the texts. If dry is set, it changes nothing. It returns
// the paths of these files. After an error, it continues with the next file.
func (d *Dir) PurgeCopies(dry bool, texts ...string) (paths []string, err error) {
	for _, folder := range []string{trashFolder, tornFolder, damagedFolder, keptFolder} {
		folder = d.folder(folder)
		list, lerr := d.fs.ReadDir(folder)
		if lerr != nil && !errors.Is(lerr, fs.ErrNotExist) {
			err = errors.Join(err, lerr)
		}
		removed := false
		for _, e := range list {
			path := filepath.Join(folder, e.Name())
			found, ferr := d.fileContains(path, texts)
			if ferr != nil {
				err = errors.Join(err, inFile(ferr, path))
			}
			if !found || !e.Type().IsRegular() {
				continue
			}
			switch {
			case dry:
			case filepath.Base(folder) == trashFolder && strings.HasSuffix(path, nameExt):
				_, ferr = d.purgeFile(folder, e.Name(), texts)
			default:
				ferr, removed = d.fs.Remove(path), true
			}
			if ferr != nil {
				err = errors.Join(err, ferr)
				continue
			}
			paths = append(paths, path)
		}
		if removed {
			err = errors.Join(err, d.fs.SyncDir(folder))
		}
	}
	return paths, err
}

// fileContains is Session.Contains for a file. A missing file contains no text.
func (d *Dir) fileContains(path string, texts []string) (bool, error) {
	f, err := d.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	s := Session{Path: path, fs: d.fs, file: f, maxLine: d.opts.MaxLine}
	if err := s.Refresh(); err != nil {
		return false, err
	}
	return s.Contains(texts...)
}

// purgeFile is Purge for a file of a folder.
func (d *Dir) purgeFile(folder, name string, texts []string) (lines int, err error) {
	path := filepath.Join(folder, name)
	m, err := d.readMetaLine(path)
	if err != nil && !errors.Is(err, ErrFormat) {
		return 0, err
	}
	id, _ := idOf(name, &m)
	lock, _, _, err := d.acquire(id, d.opts.LockWait)
	if err != nil {
		return 0, err
	}
	lines, err = d.purgeLocked(&Session{ID: id, File: name, Path: path, fs: d.fs, maxLine: d.opts.MaxLine}, lock, texts)
	return lines, errors.Join(err, lock.Unlock())
}

func (d *Dir) purgeLocked(s *Session, lock *sessionLock, texts []string) (lines int, err error) {
	if s.file, err = d.fs.Open(s.Path); err != nil {
		return 0, err
	}
	defer s.file.Close()
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	s.Size = info.Size()
	p, err := s.plan(texts)
	if err != nil || !p.found {
		return 0, err
	}
	if err := d.fs.Remove(filepath.Join(d.path, VectorFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	err = d.replaceLocked(s, lock, info, func(w io.Writer) (size int64, err error) {
		lines, size, err = s.writePurged(w, &p)
		return size, err
	})
	return lines, err
}

// purgePlan describes which lines of a session a purge changes.
type purgePlan struct {
	eraser
	found bool
	parts map[int64]bool // offsets of text records that contain a text together
}

// plan reads the session.
func (s *Session) plan(texts []string) (p purgePlan, err error) {
	p = purgePlan{eraser: texts, parts: make(map[int64]bool)}
	var streamed strings.Builder
	var parts []int64
	end := func() {
		if p.isIn(streamed.String()) {
			p.found = true
			for _, at := range parts {
				p.parts[at] = true
			}
		}
		streamed.Reset()
		parts = parts[:0]
	}
	var scan line.Scanner
	var rec line.Record
	scan.Reset(s.file, 0, s.Size, s.maxLine)
	for scan.Next() {
		l := &scan.Line
		if l.Bytes == nil {
			err = &record.FormatError{Path: s.Path, Line: scan.Number, Msg: fmt.Sprintf("the line has %d bytes: it cannot be searched", l.Size)}
			continue
		}
		_, found := p.line(l.Bytes, l.Offset == 0)
		p.found = p.found || found
		rec.Decode(l.Bytes, l.Offset == 0)
		t, ok := record.ParseTurn(l.Bytes)
		switch {
		case rec.Kind == record.KindUnknown && ok && t.Kind == "":
			streamed.WriteString(t.Text)
			parts = append(parts, l.Offset)
		case rec.Kind == record.KindMessage, rec.Kind == record.KindMarker, ok:
			end()
		}
	}
	end()
	return p, errors.Join(scan.Err, err)
}

// writePurged writes the lines without the texts, and the other lines unchanged.
func (s *Session) writePurged(w io.Writer, p *purgePlan) (lines int, size int64, err error) {
	var scan line.Scanner
	scan.Reset(s.file, 0, s.Size, s.maxLine)
	first := true // the next text record is the first of those that contain a text together
	for scan.Next() {
		l := &scan.Line
		b, changed := p.line(l.Bytes, l.Offset == 0)
		if p.parts[l.Offset] {
			text := ""
			if first {
				text = record.Purged
			}
			b, changed = bytes.TrimSuffix(line.AppendTurnText(nil, text), []byte("\n")), true
		}
		first = !p.parts[l.Offset]
		if changed {
			lines++
		}
		if changed || !l.Unended {
			b = append(slices.Clip(b), '\n')
		}
		n, err := w.Write(b)
		size += int64(n)
		if err != nil {
			return lines, size, err
		}
	}
	return lines, size, scan.Err
}

// eraser contains texts to purge.
type eraser []string

// isIn reports whether a string contains one of the texts.
func (e eraser) isIn(text string) bool {
	return slices.ContainsFunc(e, func(part string) bool { return strings.Contains(text, part) })
}

// line returns a line without the texts, and whether that changes it. A joined line
// becomes a line for each complete record.
func (e eraser) line(b []byte, first bool) (purged []byte, changed bool) {
	var rec line.Record
	switch rec.Decode(b, first); rec.Kind {
	case record.KindBlank:
		return b, false
	case record.KindBad:
		return e.badLine(b, first)
	}
	return e.value(b, rec.Kind == record.KindMessage || rec.Kind == record.KindCopy || rec.Kind == record.KindMeta, record.IsWork(b))
}

// badLine is like line, for a bad line.
func (e eraser) badLine(b []byte, first bool) (purged []byte, changed bool) {
	changed = slices.ContainsFunc(e, func(text string) bool {
		return bytes.Contains(b, []byte(text)) || bytes.Contains(b, bytes.Trim(appendJSON(nil, text), `"`))
	})
	var lines [][]byte
	for i, p := range line.Pieces(nil, b, first) {
		part, has := e.line(slices.Clip(b[p.Lo:p.Hi]), first && i == 0)
		lines, changed = append(lines, part), changed || has
	}
	switch {
	case !changed:
		return b, false
	case len(lines) == 0:
		return []byte(`{"purged":true}`), true
	}
	return bytes.Join(lines, []byte("\n")), true
}

// fixed are the keys of a message or meta line whose values identify or pair records.
// workKeys are those of a work record.
var (
	fixed    = []string{"agent", "created_by", "created_at", "source", "parent", "role", "tool_call_id", "id", "type", "work"}
	workKeys = []string{"id", "op", "kind", "agent", "session", "state", "reason", "at", "to", "call"}
)

// value returns a JSON text whose strings do not contain the texts, and whether that
// changes it. If isRecord is set, keys, and the values of fixed keys, stay; if isWork is
// set, those of a work record.
func (e eraser) value(b []byte, isRecord, isWork bool) (purged []byte, changed bool) {
	key, copied, stay := "", 0, fixed
	if isWork {
		isRecord, stay = true, workKeys
	}
	for i := 0; i < len(b); i++ {
		if b[i] != '"' {
			continue
		}
		end := i + 1
		for ; b[end] != '"'; end++ {
			if b[end] == '\\' {
				end++
			}
		}
		end++
		var text string
		if json.Unmarshal(b[i:end], &text) != nil {
			text = string(b[i:end])
		}
		isKey := bytes.HasPrefix(bytes.TrimLeft(b[end:], " \t\r\n"), []byte(":"))
		if isKey {
			key = text
		}
		if !isRecord || !isKey && !slices.Contains(stay, key) {
			with, has := e.text(text)
			if isWork && key == "was" && e.isDigest(text) {
				with, has = record.Purged, true
			}
			if has {
				if isRecord && key == "arguments" && !json.Valid([]byte(with)) {
					with = "{}"
				}
				purged = appendJSON(append(purged, b[copied:i]...), with)
				copied, changed = end, true
			}
		}
		i = end - 1
	}
	if !changed {
		return b, false
	}
	return append(purged, b[copied:]...), true
}

// isDigest reports whether a string is the SHA-256 of one of the texts, with or without a line
// end.
func (e eraser) isDigest(text string) bool {
	return slices.ContainsFunc(e, func(part string) bool {
		return text == fmt.Sprintf("%x", sha256.Sum256([]byte(part))) || text == fmt.Sprintf("%x", sha256.Sum256([]byte(part+"\n")))
	})
}

// text returns a string without the texts, and whether that changes it. If the string
// is JSON, text replaces only the strings in it.
func (e eraser) text(text string) (purged string, changed bool) {
	if b := []byte(text); strings.ContainsAny(text, `[{`) && json.Valid(b) {
		if b, changed = e.value(b, false, false); changed {
			text = string(b)
		}
	}
	if e.isIn(text) {
		return record.Purged, true
	}
	return text, changed
}

// appendJSON appends a string as JSON.
func appendJSON(dst []byte, text string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string has no error
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
