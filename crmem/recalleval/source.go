package recalleval

import (
	"fmt"
	"path/filepath"
	"strings"

	"crabmem/crmem/vfs"
)

// A Source is a test set in files.
type Source struct {
	Path  string
	chats []string // the files, in a published form; nil: a directory in the format of BEIR
}

// Find returns the test sets at a path: a directory in the format of BEIR, the directories
// in it that are, or conversations in the form in which LoCoMo, REALTALK, BEAM, or
// LongMemEval is published, which are one set: a file, or a directory of files, of chats, or
// of one chat.
func Find(fsys vfs.FS, path string) ([]Source, error) {
	has := func(name string) bool {
		_, err := fsys.Lstat(name)
		return err == nil
	}
	chat := filepath.Join(path, beamChat)
	switch {
	case has(filepath.Join(path, Corpus)):
		return []Source{{Path: path}}, nil
	case has(chat):
		return []Source{{path, []string{chat}}}, nil
	case filepath.Ext(path) == ".json":
		return []Source{{path, []string{path}}}, nil
	}
	entries, err := fsys.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var sets []Source
	var files, dirs []string
	for _, e := range entries {
		name := filepath.Join(path, e.Name())
		if chat := filepath.Join(name, beamChat); has(chat) {
			dirs = append(dirs, chat)
		} else if has(filepath.Join(name, Corpus)) {
			sets = append(sets, Source{Path: name})
		} else if filepath.Ext(name) == ".json" {
			files = append(files, name)
		}
	}
	if len(dirs) > 0 {
		files = dirs // the files next to them are about all of them
	}
	if len(files) > 0 && len(sets) == 0 {
		sets = []Source{{path, files}}
	}
	if len(sets) == 0 {
		err = fmt.Errorf("%s: no %s and no JSON file in the directory or in its subdirectories", path, Corpus)
	}
	return sets, err
}

// Load reads a test set.
func (s Source) Load(open Open) (*Set, error) {
	if s.chats == nil {
		return Load(open, s.Path)
	}
	return loadChats(open, strings.TrimSuffix(filepath.Base(filepath.Clean(s.Path)), ".json"), s.chats)
}
