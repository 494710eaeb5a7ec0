package importer

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/lazyregexp"
)

// maxZip bounds an archive.
const maxZip = 4 << 30

// chatFiles are the files of an export that have conversations.
var chatFiles = lazyregexp.New(`^conversations(-[0-9]{1,4})?\.json$`)

// noteFiles and noteDirs are the files of an export that have memories and
// projects, and the directories of such files.
var (
	noteFiles = lazyregexp.New(`^(memories|projects)(-[0-9]{1,4})?\.json$`)
	noteDirs  = lazyregexp.New(`^(memories|projects|conversations)(-[0-9]{1,4})?$`)
)

// maxExportDepth bounds the directories of an export.
const maxExportDepth = 3

// errNoExport is the error for a directory or an archive that is not an export.
var errNoExport = errors.New("no conversations.json, memories.json, or projects")

// Files provides the files of a source as streams.
type Files struct {
	Kind string
	Left []Left

	close []io.Closer
	open  []opener            // conversations, or any other file
	notes map[string][]opener // by part of an export of Claude
	names []string            // of the files in notes
	left  Tally
}

// opener is a file of a source.
type opener struct {
	size int64
	open func() (io.ReadCloser, error)
}

// Close closes the files.
func (f *Files) Close() error {
	var err error
	for _, c := range f.close {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Each calls read with every file of conversations, or with the single file. progress,
// unless it is nil, is called with the number of bytes read, and their total.
func (f *Files) Each(progress func(done, total int64), read func(io.Reader) error) error {
	return each(f.open, newCounter(progress, f.open), read)
}

func each(files []opener, c *counter, read func(io.Reader) error) error {
	for _, f := range files {
		r, err := f.open()
		if err != nil {
			return err
		}
		if err := errors.Join(read(c.reader(r)), r.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Open opens a file, an archive, or a directory with an unpacked export. If kind is
// "", Open detects the kind.
func Open(fsys vfs.FS, kind, name string) (*Files, error) {
	name, fi, err := resolved(fsys, name)
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
	if f.Kind = kind; kind == "" {
		if f.Kind, err = f.detect(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	if f.Kind != Claude {
		for _, name := range f.names {
			f.left.add("another file of the export", name)
		}
		f.notes = nil
	}
	f.Left = f.left.Sorted()
	return f, nil
}

// detect returns the kind of the first file.
func (f *Files) detect() (kind string, err error) {
	if len(f.open) == 0 {
		return Claude, nil
	}
	head, err := f.open[0].head()
	return detectJSON(head), err
}

// head returns the beginning of a file.
func (o opener) head() ([]byte, error) {
	r, err := o.open()
	if err != nil {
		return nil, err
	}
	head, err := io.ReadAll(io.LimitReader(r, headSize))
	return head, errors.Join(err, r.Close())
}

// add adds a file of an export. If the file has no conversations, memories, or
// projects, add counts it as an omission.
func (f *Files) add(name string, file opener) error {
	dirs := strings.Split(name, "/")
	base := dirs[len(dirs)-1]
	dirs = dirs[:len(dirs)-1]
	inNotes := path.Ext(base) == ".json" && slices.ContainsFunc(dirs, noteDirs().MatchString)
	switch {
	case len(dirs) > maxExportDepth:
	case chatFiles().MatchString(base):
		f.open = append(f.open, file)
		return nil
	case inNotes, noteFiles().MatchString(base):
		head, err := file.head()
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrNotRegular) {
			f.left.add("not readable, or removed during the import", name)
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", cut(name, maxExample), err)
		}
		if part := claudePart(head); part == partMemories || part == partProjects {
			if f.notes == nil {
				f.notes = make(map[string][]opener)
			}
			f.notes[part] = append(f.notes[part], file)
			f.names = append(f.names, name)
			return nil
		}
	}
	f.left.add("another file of the export", name)
	return nil
}

// openDir opens an unpacked export.
func openDir(fsys vfs.FS, name string) (*Files, error) {
	root, err := fsys.Root(name)
	if err != nil {
		return nil, err
	}
	f := &Files{close: []io.Closer{root}}
	n := 0
	err = f.walk(root, ".", &n)
	if err == nil && len(f.open)+len(f.names) == 0 {
		err = errNoExport
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return f, nil
}

// walk adds the files of a directory, and of subdirectories with the names that
// exports use. n counts the entries of all directories.
func (f *Files) walk(root vfs.Tree, dir string, n *int) error {
	entries, err := root.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) && dir != "." {
		f.left.add("not readable", dir)
		return nil
	}
	if err != nil {
		return err
	}
	if *n += len(entries); *n > maxNames {
		return fmt.Errorf("more than %d files", maxNames)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && noteDirs().MatchString(e.Name()) && strings.Count(name, "/") < maxExportDepth:
			err = f.walk(root, name, n)
		case e.Type().IsRegular():
			file := opener{open: func() (io.ReadCloser, error) { return root.Open(name) }}
			if fi, err := e.Info(); err == nil {
				file.size = fi.Size()
			}
			err = f.add(name, file)
		default:
			f.left.add("another file of the export", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
		fi, err := file.Stat()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		whole := opener{fi.Size(), func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(file, 0, fi.Size())), nil
		}}
		head, err := whole.head()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if part := claudePart(head); part == partMemories || part == partProjects {
			f.notes = map[string][]opener{part: {whole}}
		} else {
			f.open = []opener{whole}
		}
		return f, nil
	}
	if err := f.archive(file, name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// archive adds the files of an archive, without unpacking it to disk.
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
	for _, e := range z.File {
		switch {
		case strings.HasSuffix(e.Name, "/"):
			continue
		case strings.HasSuffix(e.Name, ".json") && e.UncompressedSize64 > maxSource:
			return sizeError(name+": "+cut(e.Name, maxExample), maxSource)
		}
		if err := f.add(e.Name, opener{int64(min(e.UncompressedSize64, maxZip)), e.Open}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(f.open)+len(f.names) == 0 {
		return fmt.Errorf("%s: %w", name, errNoExport)
	}
	return nil
}

// counter reports the bytes that its readers read.
type counter struct {
	done, total int64
	progress    func(done, total int64)
}

// newCounter returns a counter for files that are read once.
func newCounter(progress func(done, total int64), files ...[]opener) *counter {
	c := &counter{progress: progress}
	for _, list := range files {
		for _, f := range list {
			c.total += f.size
		}
	}
	return c
}

// reader returns a reader of r that reports progress, or r if progress is nil.
func (c *counter) reader(r io.Reader) io.Reader {
	if c.progress == nil {
		return r
	}
	return &counting{r, c}
}

type counting struct {
	io.Reader
	*counter
}

func (r *counting) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.done += int64(n)
	r.progress(r.done, r.total)
	return n, err
}
