package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog"
)

// How far Find goes.
const (
	maxDepth = 32      // of directories
	maxNames = 500_000 // in all of them
	maxHead  = 64      // lines that detect reads of a file
	maxRoot  = 4096    // bytes of the path of a project
)

// Kind is a program that writes transcripts.
type Kind struct {
	Tool string // as in sessionlog.Meta.Agent
	read func(io.Reader, Mark) (Transcript, error)
}

var (
	claudeCode = &Kind{"claude-code", readClaudeCode}
	codex      = &Kind{"codex", readCodex}
	gemini     = &Kind{"gemini-cli", readGemini}
	kinds      = []*Kind{claudeCode, codex, gemini}
)

// File is a file that looks like a tool's transcript.
type File struct {
	Path string
	Kind *Kind
	Size int64 // as it is stored, which may be compressed
}

// List is the result of Find.
type List struct {
	Found  []File  // by path
	Others int     // .jsonl files of unknown programs
	Failed []error // files that could not be read; each error contains the path
}

// Find returns the transcript with a name or, if name is a directory, all
// transcripts in it and its subdirectories. It detects them by content. A
// single file may have any name; Find returns ErrNoTranscript if it is not a
// transcript. In directories Find examines only regular files *.jsonl, also
// compressed as .zst, .gz, or .bz2. It does not follow links.
func Find(ctx context.Context, fsys vfs.FS, name string) (List, error) {
	name, err := fsys.Resolve(name)
	if err != nil {
		return List{}, err
	}
	fi, err := fsys.Lstat(name)
	if err != nil {
		return List{}, err
	}
	if !fi.IsDir() {
		kind, err := detect(fsys, name)
		if err == nil && kind == nil {
			err = &fs.PathError{Op: "import", Path: name, Err: ErrNoTranscript}
		}
		if err != nil {
			return List{}, err
		}
		return List{Found: []File{{name, kind, fi.Size()}}}, nil
	}
	root, err := fsys.Root(name)
	if err != nil {
		return List{}, err
	}
	w := walker{ctx: ctx, root: root, dir: name, limit: maxNames}
	err = errors.Join(w.walk(".", 0), root.Close())
	sort.Slice(w.list.Found, func(i, j int) bool { return w.list.Found[i].Path < w.list.Found[j].Path })
	return w.list, err
}

// Read reads the transcript. It may have grown since it was found.
func (f File) Read(fsys vfs.FS) (Transcript, error) {
	file, err := fsys.Open(f.Path)
	if err != nil {
		return Transcript{}, err
	}
	r, err := uncompressed(file)
	if err != nil {
		return Transcript{}, errors.Join(fmt.Errorf("%s: %w", f.Path, err), file.Close())
	}
	t, err := f.Kind.read(r, Mark{})
	if _, plain := r.(plainFile); !plain || t.Mark.Offset < minMark {
		t.Mark.Offset = 0
	} else if err == nil {
		t.Mark.Sum, err = sumBefore(file, t.Mark.Offset)
	}
	r.Close()
	if f.Kind == gemini { // the directory of its chats has the working directory's path
		root, _ := vfs.ReadFile(fsys, filepath.Join(filepath.Dir(filepath.Dir(f.Path)), ".project_root"), maxRoot)
		t.dir = strings.TrimSpace(string(root))
	}
	t.Meta.Project = sessionlog.ProjectOf(fsys, t.dir)
	for _, bad := range t.Bad {
		bad.Path = f.Path
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = fmt.Errorf("%s: %w", f.Path, err)
	}
	return t, err
}

type walker struct {
	ctx   context.Context
	root  vfs.Tree
	dir   string
	names int
	limit int // of names
	list  List
}

// walk lists a directory. Its error ends the walk.
func (w *walker) walk(dir string, depth int) error {
	entries, err := w.root.ReadDir(dir)
	if err != nil && depth == 0 {
		return err
	}
	if err != nil {
		w.fail(dir, err)
		return nil
	}
	if w.names += len(entries); w.names > w.limit {
		return fmt.Errorf("%s: more than %d files and directories; import a subdirectory", w.dir, w.limit)
	}
	for _, e := range entries {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && depth+1 == maxDepth:
			w.fail(name, fmt.Errorf("deeper than %d directories", maxDepth))
		case e.IsDir():
			if err := w.walk(name, depth+1); err != nil {
				return err
			}
		case !e.Type().IsRegular():
		case isTranscriptName(name):
			w.file(name, e)
		case strings.Contains(path.Base(name), ".jsonl.") && slices.Contains(otherCompressions, path.Ext(name)):
			w.fail(name, errors.New("compressed in a format that import does not read: decompress it"))
		}
	}
	return nil
}

func (w *walker) file(name string, e fs.DirEntry) {
	kind, err := detect(w.root, name)
	var fi fs.FileInfo
	if err == nil {
		fi, err = e.Info()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // removed concurrently
	case err != nil:
		w.fail(name, err)
	case kind == nil:
		w.list.Others++
	default:
		w.list.Found = append(w.list.Found, File{w.path(name), kind, fi.Size()})
	}
}

func (w *walker) path(name string) string {
	return filepath.Join(w.dir, filepath.FromSlash(name))
}

func (w *walker) fail(name string, err error) {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	w.list.Failed = append(w.list.Failed, fmt.Errorf("%s: %w", w.path(name), err))
}

// detect returns the program that wrote a file, by its first lines, or nil if
// no program matches.
func detect(t vfs.Tree, name string) (*Kind, error) {
	f, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	r, err := uncompressed(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	kind, err := detectReader(io.LimitReader(r, maxLine+1<<20))
	r.Close()
	return kind, errors.Join(err, f.Close())
}

func detectReader(r io.Reader) (*Kind, error) {
	lines := newLineReader(r)
	for lines.number < maxHead {
		err := lines.read()
		if err == io.EOF {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if lines.long || len(lines.line) == 0 {
			continue
		}
		o, err := parseObject(lines.line)
		if err != nil {
			continue // torn or damaged: other lines may match
		}
		if kind := detectLine(o); kind != nil {
			return kind, nil
		}
	}
	return nil, nil
}

func detectLine(o object) *Kind {
	typ, id := o.text("type"), o.text("id")
	switch {
	case typ != "" && o.text("sessionId") != "",
		typ == "summary" && o.text("leafUuid") != "",
		typ == "file-history-snapshot" && o.text("messageId") != "":
		return claudeCode
	case typ == "session_meta",
		slices.Contains([]string{"response_item", "event_msg", "turn_context", "compacted"}, typ) && o.has("payload"),
		typ == "" && id != "" && o.text("timestamp") != "" && (o["instructions"] != nil || o["git"] != nil),
		typ == "" && o.text("record_type") == "state":
		return codex
	case typ == "" && o.text("projectHash") != "" && o.text("sessionId") != "":
		return gemini
	}
	return nil
}
