package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
)

// How far findTranscripts goes.
const (
	maxTranscriptDepth = 32      // of directories
	maxTranscriptNames = 500_000 // in all of them
	maxTranscriptHead  = 64      // lines read of a file to know whose it is
)

// transcriptKind is a tool that leaves transcripts behind.
type transcriptKind struct {
	Tool string // as in sessionlog.Meta.Agent
	read func(io.Reader) (transcript, error)
}

var (
	claudeCode = &transcriptKind{"claude-code", readClaudeCode}
	codex      = &transcriptKind{"codex", readCodex}
)

// foundTranscript is a file that looks like a tool's transcript.
type foundTranscript struct {
	Path string
	Kind *transcriptKind
	Size int64
}

// transcriptList is what there is under a path.
type transcriptList struct {
	Found  []foundTranscript // by path
	Others int               // .jsonl files of nobody known
	Failed []error           // what could not be read; each names its path
}

// findTranscripts lists the transcripts that name is or, when it is a
// directory, that are in it and under it, by what is in the files. A file
// that is given is taken whatever its name, or errNoTranscript; in directories
// only regular files *.jsonl are looked at, and links are not followed.
func findTranscripts(ctx context.Context, fsys vfs.FS, name string) (transcriptList, error) {
	name, err := fsys.Resolve(name)
	if err != nil {
		return transcriptList{}, err
	}
	fi, err := fsys.Lstat(name)
	if err != nil {
		return transcriptList{}, err
	}
	if !fi.IsDir() {
		kind, err := detectTranscript(fsys, name)
		if err == nil && kind == nil {
			err = &fs.PathError{Op: "import", Path: name, Err: errNoTranscript}
		}
		if err != nil {
			return transcriptList{}, err
		}
		return transcriptList{Found: []foundTranscript{{name, kind, fi.Size()}}}, nil
	}
	root, err := fsys.Root(name)
	if err != nil {
		return transcriptList{}, err
	}
	w := transcriptWalk{ctx: ctx, root: root, dir: name, limit: maxTranscriptNames}
	err = errors.Join(w.walk(".", 0), root.Close())
	slices.SortFunc(w.list.Found, func(a, b foundTranscript) int { return strings.Compare(a.Path, b.Path) })
	return w.list, err
}

// read reads the transcript. It may have grown since it was found.
func (f foundTranscript) read(fsys vfs.FS) (transcript, error) {
	file, err := fsys.Open(f.Path)
	if err != nil {
		return transcript{}, err
	}
	t, err := f.Kind.read(file)
	for _, bad := range t.Bad {
		bad.Path = f.Path
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = fmt.Errorf("%s: %w", f.Path, err)
	}
	return t, err
}

type transcriptWalk struct {
	ctx   context.Context
	root  vfs.Tree
	dir   string
	names int
	limit int // of names
	list  transcriptList
}

// walk lists a directory. Its error ends the walk.
func (w *transcriptWalk) walk(dir string, depth int) error {
	entries, err := w.root.ReadDir(dir)
	if err != nil && depth == 0 {
		return err
	}
	if err != nil {
		w.fail(dir, err)
		return nil
	}
	if w.names += len(entries); w.names > w.limit {
		return fmt.Errorf("%s: more than %d files and directories; name one below it", w.dir, w.limit)
	}
	for _, e := range entries {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && depth+1 == maxTranscriptDepth:
			w.fail(name, fmt.Errorf("deeper than %d directories", maxTranscriptDepth))
		case e.IsDir():
			if err := w.walk(name, depth+1); err != nil {
				return err
			}
		case e.Type().IsRegular() && path.Ext(name) == ".jsonl":
			w.file(name, e)
		}
	}
	return nil
}

func (w *transcriptWalk) file(name string, e fs.DirEntry) {
	kind, err := detectTranscript(w.root, name)
	var fi fs.FileInfo
	if err == nil {
		fi, err = e.Info()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // removed meanwhile
	case err != nil:
		w.fail(name, err)
	case kind == nil:
		w.list.Others++
	default:
		w.list.Found = append(w.list.Found, foundTranscript{w.path(name), kind, fi.Size()})
	}
}

func (w *transcriptWalk) path(name string) string {
	return filepath.Join(w.dir, filepath.FromSlash(name))
}

func (w *transcriptWalk) fail(name string, err error) {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	w.list.Failed = append(w.list.Failed, fmt.Errorf("%s: %w", w.path(name), err))
}

// detectTranscript tells by its first lines which tool wrote a file; nil for
// none of them.
func detectTranscript(t vfs.Tree, name string) (*transcriptKind, error) {
	f, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	kind, err := whoseTranscript(io.LimitReader(f, maxTranscriptLine+1<<20))
	return kind, errors.Join(err, f.Close())
}

func whoseTranscript(r io.Reader) (*transcriptKind, error) {
	lines := newLineReader(r)
	for lines.number < maxTranscriptHead {
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
			continue // torn, or damaged: others may tell
		}
		if kind := whoseLine(o); kind != nil {
			return kind, nil
		}
	}
	return nil, nil
}

func whoseLine(o object) *transcriptKind {
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
	}
	return nil
}
