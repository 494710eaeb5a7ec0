package sessionlog

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/feed"
	"crabmem/sessionlog/internal/line"
)

// SyncPolicy selects the writes that are synced before they are acknowledged.
type SyncPolicy uint8

// A marker and a title are synced under every policy but SyncNone.
const (
	// SyncTurns syncs a user message and an assistant message without tool calls,
	// which begin and end a turn.
	SyncTurns SyncPolicy = iota
	// SyncAll syncs every write.
	SyncAll
	// SyncNone leaves syncing to [Log.Sync] and to closing.
	SyncNone
)

// Options configure a [Dir]. The zero value is ready to use.
type Options struct {
	FS vfs.FS // nil means vfs.OS{}

	// LockWait is how long Open waits for another process to release a session.
	// 0 does not wait.
	LockWait time.Duration

	// Command and Socket identify this process in lock files.
	Command, Socket string

	// MaxOpen limits the sessions with open files; 0 means 128. Over the limit,
	// the Dir closes the files of the least recently used session until its next
	// write. Each session uses two descriptors.
	MaxOpen int

	// MaxLine is the longest line in bytes; 0 means 64 MiB.
	MaxLine int64

	Sync SyncPolicy

	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// Warn receives one line per repair or anomaly, such as a torn tail. If nil,
	// they are discarded.
	Warn func(string)
}

const defaultMaxOpen = 128

// The subfolders of the sessions.
const (
	locksFolder   = ".locks"
	tornFolder    = ".torn"
	damagedFolder = ".damaged"
	keptFolder    = ".kept"
	trashFolder   = ".trash"
)

// VectorFile is the name of the file in the folder that contains the vectors of texts of
// sessions (FORMAT.md, "Vectors"). Package search writes it.
const VectorFile = "search-vectors"

// Dir is a folder of sessions. It is safe for concurrent use.
type Dir struct {
	path string
	fs   vfs.FS
	opts Options

	watcher atomic.Pointer[feed.Watcher] // nil if no index is attached

	mu      sync.Mutex      // guards the fields below; acquired after a Log's mu
	logs    map[string]*Log // open sessions by id
	recent  list.List       // of *Log: those with open files, latest first
	made    map[string]bool // folders that durably exist
	workers map[string]bool // whether a file is a session that does work
	closed  bool
}

// OpenDir returns the folder path. It does not create the folder: the first
// session does.
func OpenDir(path string, o *Options) (*Dir, error) {
	d := &Dir{logs: make(map[string]*Log), made: make(map[string]bool), workers: make(map[string]bool)}
	if o != nil {
		d.opts = *o
	}
	if d.opts.FS == nil {
		d.opts.FS = vfs.OS{}
	}
	if d.opts.MaxOpen <= 0 {
		d.opts.MaxOpen = defaultMaxOpen
	}
	d.opts.MaxLine = line.LimitOf(d.opts.MaxLine)
	if d.opts.Now == nil {
		d.opts.Now = time.Now
	}
	d.fs = d.opts.FS
	resolved, err := d.fs.Resolve(path)
	if err != nil {
		return nil, err
	}
	d.path = resolved
	return d, nil
}

func init() {
	feed.Attach = func(dir any, w feed.Watcher) (feed.Folder, func(), bool) { return dir.(*Dir).attach(w) }
}

// attach implements [feed.Attach].
func (d *Dir) attach(w feed.Watcher) (folder feed.Folder, detach func(), ok bool) {
	folder = feed.Folder{FS: d.fs, Path: d.path, MaxLine: d.opts.MaxLine, Now: d.opts.Now,
		Names: func() ([]string, error) {
			names, err := d.names(d.path)
			return d.withoutWork(d.path, names), err
		}, ID: idOf}
	w = workFilter{d, w}
	detach = func() { d.watcher.CompareAndSwap(&w, nil) }
	return folder, detach, d.watcher.CompareAndSwap(nil, &w)
}

// notify calls tell with the folder's watcher, if it has one.
func (d *Dir) notify(tell func(feed.Watcher)) {
	if p := d.watcher.Load(); p != nil {
		tell(*p)
	}
}

// Path returns the folder, with links resolved.
func (d *Dir) Path() string { return d.path }

// Close closes every session that is open.
func (d *Dir) Close() error {
	d.mu.Lock()
	d.closed = true
	logs := make([]*Log, 0, len(d.logs))
	for _, l := range d.logs {
		logs = append(logs, l)
	}
	d.mu.Unlock()
	var errs []error
	for _, l := range logs {
		errs = append(errs, l.end())
	}
	return errors.Join(errs...)
}

func (d *Dir) warn(format string, args ...any) {
	if d.opts.Warn != nil {
		d.opts.Warn(fmt.Sprintf(format, args...))
	}
}

// file returns the path of a session's file.
func (d *Dir) file(name string) string { return filepath.Join(d.path, name) }

// folder returns the path of a subfolder of the sessions.
func (d *Dir) folder(name string) string { return filepath.Join(d.path, name) }

// makeFolder creates the folder of the sessions or a subfolder.
func (d *Dir) makeFolder(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made[path] {
		return nil
	}
	if err := vfs.MkdirAll(d.fs, path, 0o700); err != nil {
		return err
	}
	d.made[path] = true
	return nil
}

// acquire takes the lock of a session. It returns the text that the previous
// holder left in the file. ours reports that the lock file existed, so that
// this implementation wrote the session.
func (d *Dir) acquire(id string, wait time.Duration) (lock *sessionLock, before vfs.LockHolder, ours bool, err error) {
	locks := d.folder(locksFolder)
	if err := d.makeFolder(locks); err != nil {
		return nil, before, false, err
	}
	path := d.lockPath(id)
	if _, err = d.fs.Lstat(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, before, false, err // without the previous text a power cut would go undetected
	}
	ours = err == nil
	l, err := vfs.Acquire(d.fs, path, wait)
	if err != nil {
		return nil, before, false, err
	}
	if !ours {
		err = d.fs.SyncDir(locks) // after a power cut the lock file must show that this implementation wrote the session
	}
	text := ""
	if err == nil {
		text, err = l.Text()
	}
	lock = &sessionLock{Locked: l, path: path}
	if err == nil {
		lock.info, err = l.Stat()
	}
	if err != nil {
		return nil, before, false, errors.Join(err, l.Unlock())
	}
	return lock, vfs.ParseLockHolder(text), ours, nil
}

func (d *Dir) lockPath(id string) string { return filepath.Join(d.folder(locksFolder), id+".lock") }

// holder returns the text for a lock file of this process.
func (d *Dir) holder(clean int64) vfs.LockHolder {
	return vfs.LockHolder{PID: os.Getpid(), Boot: d.fs.BootID(), Command: d.opts.Command, Socket: d.opts.Socket, Clean: clean}
}

// names returns the session files of the folder or of a subfolder, in order of
// their names. A missing folder has no files.
func (d *Dir) names(folder string) ([]string, error) {
	names, _, err := d.listFolder(folder)
	return names, err
}

// listFolder returns the session files of a folder, and the temporary files of
// interrupted replacements.
func (d *Dir) listFolder(folder string) (names, leftovers []string, err error) {
	list, err := d.fs.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	names = make([]string, 0, len(list))
	for _, e := range list {
		name := e.Name()
		if stem, ok := strings.CutSuffix(name, nameExt); ok && name[0] != '.' && vfs.OriginalIn(list, stem, nameExt) == "" { // a sync program's copy has the ID of another session
			names = append(names, name)
		} else if _, ok := leftoverOf(name); ok {
			leftovers = append(leftovers, name)
		}
	}
	return names, leftovers, nil
}

// maxMoves limits how often find looks again for a file that concurrent titles
// rename.
const maxMoves = 10

// find returns the name of a session's file in the folder or its trash. If no
// session has the id, the name may match instead. An id that ends in .jsonl is
// compared with file names first.
func (d *Dir) find(folder, id string) (string, error) {
	for try := 1; ; try++ {
		name, moved, err := d.findOnce(folder, id)
		if !moved || try == maxMoves {
			return name, err
		}
	}
}

// located calls do with the name of a session's file in the folder, or in its
// trash, and again when the file had another by then.
func (d *Dir) located(folder, id string, do func(name string) error) error {
	for try := 1; ; try++ {
		name, err := d.find(folder, id)
		if err == nil {
			err = do(name)
			if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrUnknown) && try < maxMoves {
				continue
			}
		}
		return err
	}
}

// findOnce is find in one listing of the folder. moved reports that a candidate
// was renamed or removed before it could be read.
func (d *Dir) findOnce(folder, id string) (found string, moved bool, err error) {
	stem := strings.TrimSuffix(id, nameExt)
	if !validID(stem) {
		return "", false, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	if stem != id {
		if _, err := d.fs.Lstat(filepath.Join(folder, id)); err == nil {
			return id, false, nil
		}
	}
	id = stem
	names, err := d.names(folder)
	if err != nil {
		return "", false, err
	}
	var owners []string
	named := ""
	for _, name := range names {
		stem := strings.TrimSuffix(name, nameExt)
		if stem == id {
			named = name
		}
		if stem != id && !strings.HasPrefix(stem, id+"_") {
			continue
		}
		// An empty meta line identifies a file by its name.
		m, err := d.readMetaLine(filepath.Join(folder, name))
		moved = moved || errors.Is(err, fs.ErrNotExist)
		if got, _ := idOf(name, &m); got == id {
			owners = append(owners, name)
		}
	}
	switch {
	case len(owners) == 1:
		return owners[0], false, nil
	case len(owners) > 1:
		return "", moved, fmt.Errorf("%w: %s: use one of the file names: %s", ErrAmbiguous, id, strings.Join(owners, ", "))
	case named != "":
		return named, moved, nil
	}
	return "", moved, fmt.Errorf("%w: %q in %s", ErrNotFound, id, folder)
}

// readMetaLine reads the first line of a session file. With an error it returns
// an empty Meta.
func (d *Dir) readMetaLine(path string) (Meta, error) {
	m, _, err := d.firstLine(path)
	return m, err
}

// firstLine returns the meta line of a file, decoded and as it is.
func (d *Dir) firstLine(path string) (Meta, string, error) {
	f, err := d.fs.Open(path)
	if err != nil {
		return Meta{}, "", err
	}
	defer f.Close()
	return readFirstLine(f, path)
}

// maxMetaLine limits the bytes that are read of a meta line.
const maxMetaLine = 1 << 20

// Latest returns the id of an agent's newest session with a sender in a workspace, or
// outside all if it is "": the session with the highest number. Error: [ErrNotFound].
func (d *Dir) Latest(agent, createdBy, workspace string) (string, error) {
	for try := 1; ; try++ {
		id, moved, err := d.latestOnce(agent, createdBy, workspace)
		if !moved || try == maxMoves {
			return id, err
		}
	}
}

// latestOnce is Latest in one listing of the folder. moved reports that a
// candidate was renamed or removed before it could be read.
func (d *Dir) latestOnce(agent, createdBy, workspace string) (id string, moved bool, err error) {
	names, err := d.names(d.path)
	if err != nil {
		return "", false, err
	}
	// The reference implementation does not make a slug of the agent.
	prefixes := [...]string{prefixOf(agent, createdBy), agent + "_" + slugOf(createdBy) + "_"}
	best, top := "", uint64(0)
	for _, name := range names {
		for _, prefix := range prefixes {
			seq, ok := seqOf(prefix, name)
			if !ok || seq <= top {
				continue
			}
			m, err := d.readMetaLine(d.file(name))
			moved = moved || errors.Is(err, fs.ErrNotExist)
			if err != nil || m.Agent != agent || m.CreatedBy != createdBy || m.Workspace != workspace || m.Source != "" || m.IsWork() {
				continue
			}
			best, _ = idOf(name, &m)
			top = seq
		}
	}
	if best == "" {
		return "", moved, fmt.Errorf("%w of agent %q and sender %q", ErrNotFound, agent, createdBy)
	}
	return best, moved, nil
}
