package importer

import (
	"archive/zip"
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"crabmem/crmem/vfs"
)

// errUnknown is returned if no kind matches a source.
var errUnknown = errors.New("detect format: found no Markdown with front matter, conversations.json, or list of memories")

// headSize is the number of bytes that detect the kind of a file.
const headSize = 256 << 10

// maxZip bounds an archive.
const maxZip = 4 << 30

// chatFiles are the files of an export that have conversations.
var chatFiles = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^conversations(-[0-9]{1,4})?\.json$`)
})

// Files are the files of a source, each a stream.
type Files struct {
	Kind string
	Left []Left

	close []io.Closer
	open  []func() (io.ReadCloser, error)
}

// Close closes them.
func (f *Files) Close() error {
	var err error
	for _, c := range f.close {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Each calls read with every file.
func (f *Files) Each(read func(io.Reader) error) error {
	for _, open := range f.open {
		r, err := open()
		if err != nil {
			return err
		}
		if err := errors.Join(read(r), r.Close()); err != nil {
			return err
		}
	}
	return nil
}

// IsTree reports whether sources of a kind are directories.
func IsTree(kind string) bool { return kind == RFC0038 || kind == BasicMemory }

// IsChats reports whether sources of a kind contain conversations.
func IsChats(kind string) bool { return kind == ChatGPT || kind == Claude }

// Detect returns the kind of a path, by its content.
func Detect(fsys vfs.FS, name string) (string, error) {
	name, err := fsys.Resolve(name)
	if err != nil {
		return "", err
	}
	fi, err := fsys.Lstat(name)
	if err != nil {
		return "", err
	}
	if fi.IsDir() {
		return detectDir(fsys, name)
	}
	f, err := Open(fsys, "", name)
	if err != nil {
		return "", err
	}
	return f.Kind, f.Close()
}

func detectDir(fsys vfs.FS, name string) (string, error) {
	root, err := fsys.Root(name)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if names, err := chatsIn(root); err != nil || len(names) > 0 {
		if err != nil {
			return "", err
		}
		f, err := root.Open(names[0])
		if err != nil {
			return "", err
		}
		kind, _ := DetectReader(f)
		if err := f.Close(); err != nil || IsChats(kind) {
			return kind, err
		}
	}
	if has(root, ".crabmem.json", false) {
		return "", fmt.Errorf("%s: crabmem dump wrote this tree: use crabmem load", name)
	}
	if looksRFC0038(root) {
		return RFC0038, nil
	}
	pages := 0
	t := treeReader{root: root}
	err = t.walk(".", 0, func(p *page) error {
		if pages++; pages >= 1 {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.SkipAll) {
		return "", err
	}
	if pages == 0 {
		return "", fmt.Errorf("%s: %w", name, errUnknown)
	}
	return BasicMemory, nil
}

// chatsIn are the files with conversations of an export that was unpacked.
func chatsIn(root vfs.Tree) ([]string, error) {
	entries, err := root.ReadDir(".")
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && chatFiles().MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// DetectReader returns the kind of a text, by its beginning, and a reader of
// the complete text. The default is the output of crabmem export.
func DetectReader(r io.Reader) (string, io.Reader) {
	in := bufio.NewReaderSize(r, headSize)
	head, _ := in.Peek(headSize)
	return detectJSON(head), in
}

// detectJSON detects the kind by the keys of the first object in head.
func detectJSON(head []byte) string {
	keys := firstKeys(head)
	has := func(key string) bool { return slices.Contains(keys, key) }
	switch {
	case has("mapping"):
		return ChatGPT
	case has("chat_messages"):
		return Claude
	case has("observations"), has("entities") && !has("name"), has("relationType"):
		return MemoryJSON
	case has("name"):
		return Crabmem
	case has("memory"), has("results"), has("memories"), has("id") && (has("text") || has("data")):
		return Mem0
	}
	return Crabmem
}

// firstKeys are the keys of the first object of a text, or of the first in the
// array that it is.
func firstKeys(head []byte) []string {
	dec := json.NewDecoder(strings.NewReader(strings.TrimPrefix(string(head), "\ufeff")))
	var keys []string
	depth, want, array := 0, false, 0
	for len(keys) < 1000 {
		tok, err := dec.Token()
		if err != nil {
			return keys
		}
		delim, isDelim := tok.(json.Delim)
		switch {
		case isDelim && delim == '[' && depth == 0 && array == 0:
			array = 1
			continue
		case isDelim && (delim == '{' || delim == '['):
			depth++
			if depth == 1 {
				want = delim == '{'
				if !want {
					return keys
				}
				continue
			}
		case isDelim:
			if depth--; depth <= 0 {
				return keys
			}
			want = depth == 1
			continue
		case depth == 0:
			return keys
		}
		if depth > 1 {
			continue
		}
		if want {
			if s, ok := tok.(string); ok {
				keys = append(keys, s)
			}
		}
		want = !want
	}
	return keys
}

// Open opens a file, an archive, or a directory with an unpacked export.
// Without a kind it detects the kind.
func Open(fsys vfs.FS, kind, name string) (*Files, error) {
	name, err := fsys.Resolve(name)
	if err != nil {
		return nil, err
	}
	fi, err := fsys.Lstat(name)
	if err != nil {
		return nil, err
	}
	var f *Files
	if fi.IsDir() {
		f, err = openDir(fsys, name)
	} else {
		f, err = openFile(fsys, name)
	}
	if err != nil {
		return nil, err
	}
	if f.Kind = kind; kind == "" && len(f.open) > 0 {
		r, err := f.open[0]()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.Kind, _ = DetectReader(r)
		if err := r.Close(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// openDir opens the conversations of a directory.
func openDir(fsys vfs.FS, name string) (*Files, error) {
	root, err := fsys.Root(name)
	if err != nil {
		return nil, err
	}
	f := &Files{close: []io.Closer{root}}
	entries, err := root.ReadDir(".")
	if err == nil && len(entries) > maxNames {
		err = fmt.Errorf("%s: more than %d files", name, maxNames)
	}
	var left tallies
	for _, e := range entries {
		switch {
		case e.Type().IsRegular() && chatFiles().MatchString(e.Name()):
			f.open = append(f.open, func() (io.ReadCloser, error) { return root.Open(e.Name()) })
		default:
			left.add("another file of the export", e.Name())
		}
	}
	if err == nil && len(f.open) == 0 {
		err = fmt.Errorf("%s: no conversations.json", name)
	}
	f.Left = left.sorted()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openFile opens a file or the content of an archive.
func openFile(fsys vfs.FS, name string) (*Files, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	var magic [4]byte
	n, err := file.ReadAt(magic[:], 0)
	if err != nil && err != io.EOF {
		return nil, errors.Join(err, file.Close())
	}
	f := &Files{close: []io.Closer{file}}
	if string(magic[:n]) != "PK\x03\x04" {
		f.open = []func() (io.ReadCloser, error){func() (io.ReadCloser, error) {
			fi, err := file.Stat()
			if err != nil {
				return nil, err
			}
			return io.NopCloser(io.NewSectionReader(file, 0, fi.Size())), nil
		}}
		return f, nil
	}
	if err := f.archive(file, name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// archive finds the conversations in an archive, without unpacking it to disk.
func (f *Files) archive(file vfs.File, name string) error {
	fi, err := file.Stat()
	if err != nil {
		return err
	}
	if fi.Size() > maxZip {
		return sizeError(name, maxZip)
	}
	z, err := zip.NewReader(file, fi.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(z.File) > maxNames {
		return fmt.Errorf("%s: more than %d files in it", name, maxNames)
	}
	var left tallies
	for _, e := range z.File {
		switch {
		case strings.HasSuffix(e.Name, "/"):
		case !chatFiles().MatchString(path.Base(e.Name)) || strings.Count(e.Name, "/") > 1:
			left.add("another file of the archive", e.Name)
		case e.UncompressedSize64 > maxSource:
			return sizeError(name+": "+cut(e.Name, maxExample), maxSource)
		default:
			f.open = append(f.open, e.Open)
		}
	}
	if len(f.open) == 0 {
		return fmt.Errorf("%s: no conversations.json", name)
	}
	f.Left = left.sorted()
	return nil
}
