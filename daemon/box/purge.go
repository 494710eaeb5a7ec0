package box

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"crabmem/crmem/vfs"
)

// purged replaces a purged text.
const purged = "[purged]"

// Purge replaces texts in the messages and answers of a home. It returns the files that
// contained one. If dry is set, it changes no file. With an error about files that it
// cannot read, the others are purged. Other processes may use the files concurrently.
func Purge(fsys vfs.FS, home string, dry bool, texts ...string) (paths []string, err error) {
	for _, name := range Dirs {
		dir := filepath.Join(home, name)
		if _, serr := fsys.Lstat(dir); errors.Is(serr, fs.ErrNotExist) {
			continue
		}
		purge := func() error {
			found, err := purgeFiles(fsys, dir, dry, texts)
			paths = append(paths, found...)
			return err
		}
		if dry {
			err = errors.Join(err, purge())
		} else {
			err = errors.Join(err, withLock(fsys, home, name, purge))
		}
	}
	return paths, err
}

// purgeFiles purges the files in a directory, with the lock or without changes.
func purgeFiles(fsys vfs.FS, dir string, dry bool, texts []string) (paths []string, err error) {
	list, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		found, perr := purgeFile(fsys, path, dry, texts)
		if found {
			paths = append(paths, path)
		}
		err = errors.Join(err, perr)
	}
	return paths, err
}

// purgeFile is purgeFiles for one file. It reports whether the file contains a text.
func purgeFile(fsys vfs.FS, path string, dry bool, texts []string) (found bool, err error) {
	b, err := vfs.ReadFile(fsys, path, maxRead)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	var f File
	if err := json.Unmarshal(b, &f); err != nil {
		return false, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	replace := func(s *string) {
		for _, text := range texts {
			if strings.Contains(*s, text) {
				*s, found = strings.ReplaceAll(*s, text, purged), true
			}
		}
	}
	for i := range f.Waiting {
		replace(&f.Waiting[i].Content)
		replace(&f.Waiting[i].FileText)
		replace(&f.Waiting[i].Quote)
	}
	for i := range f.Answers {
		replace(&f.Answers[i].Content)
	}
	for _, q := range f.Questions {
		for i := range q.Labels {
			replace(&q.Labels[i])
		}
	}
	if f.Turn != nil {
		replace(&f.Turn.Content)
	}
	if !found || dry {
		return found, nil
	}
	text, err := json.Marshal(f)
	if err != nil {
		return true, err
	}
	return true, vfs.WriteFile(fsys, path, 0o600, text)
}
