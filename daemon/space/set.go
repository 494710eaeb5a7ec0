package space

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// Options configure a Set. All fields are required.
type Options struct {
	FS   vfs.FS
	Home string
	Main *crmem.Store // of the space main; the Set does not close it
	// Open opens the file of another space, and creates it if it is missing.
	Open func(file string) (*crmem.Store, error)
	// Max returns the limit of spaces, without main.
	Max func() int
	// MaxOpen limits the open spaces, without main. If all of them are in use, Use
	// waits.
	MaxOpen int
}

// Set opens the spaces of a home when they are used, and keeps them open until it
// is closed or needs their place. It is safe for concurrent use.
type Set struct {
	o Options

	mu     sync.Mutex
	unused *sync.Cond // signaled when a space is no longer in use
	open   map[string]*opened
	clock  int64 // counts uses
	closed bool

	describing sync.Mutex // held while a description changes
}

// opened is a space that is open or being opened.
type opened struct {
	ready chan struct{} // closed when store or err is set
	store *crmem.Store
	err   error
	uses  int
	last  int64 // clock at the last use
}

// NewSet returns a Set without open spaces.
func NewSet(o Options) *Set {
	s := &Set{o: o, open: make(map[string]*opened)}
	s.unused = sync.NewCond(&s.mu)
	return s
}

// Dir returns the directory of a space, without main.
func Dir(home, name string) string { return filepath.Join(home, "spaces", name) }

// File returns the file of a space.
func File(home, name string) string {
	if name == Main {
		return filepath.Join(home, "memory.db")
	}
	return filepath.Join(Dir(home, name), "memory.db")
}

// Use calls f with the store of a space. It never creates a space, except that a
// write creates one of a sender. f must not call Use. The error for a missing space
// is crmem.ErrNoStore.
func (s *Set) Use(name string, write bool, f func(*crmem.Store) error) error {
	if name == Main {
		return f(s.o.Main)
	}
	o, err := s.acquire(name, write)
	if err != nil {
		return err
	}
	defer s.release(o)
	return f(o.store)
}

// acquire returns an open space for use.
func (s *Set) acquire(name string, write bool) (*opened, error) {
	s.mu.Lock()
	for {
		if s.closed {
			s.mu.Unlock()
			return nil, errors.New("the spaces are closed")
		}
		o := s.open[name]
		if o == nil && len(s.open) >= s.o.MaxOpen && !s.evict() {
			s.unused.Wait()
			continue
		}
		s.clock++
		if o != nil {
			o.uses, o.last = o.uses+1, s.clock
			s.mu.Unlock()
			<-o.ready
			if o.err != nil {
				s.release(o)
			}
			return o, o.err
		}
		o = &opened{ready: make(chan struct{}), uses: 1, last: s.clock}
		s.open[name] = o
		s.mu.Unlock()
		if o.store, o.err = s.load(name, write); o.err != nil {
			s.mu.Lock()
			s.forget(name, o)
			s.mu.Unlock()
			s.release(o)
		}
		close(o.ready)
		return o, o.err
	}
}

// forget removes o from the open spaces, unless a removal replaced it. The caller holds mu.
func (s *Set) forget(name string, o *opened) {
	if s.open[name] == o {
		delete(s.open, name)
	}
}

func (s *Set) release(o *opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.uses--
	s.unused.Broadcast() // also to Remove
}

// evict closes the space that was not used for the longest time. It returns false if
// all are in use. The caller holds mu.
func (s *Set) evict() bool {
	oldest := ""
	for name, o := range s.open {
		if o.uses == 0 && (oldest == "" || o.last < s.open[oldest].last) {
			oldest = name
		}
	}
	if oldest == "" {
		return false
	}
	o := s.open[oldest]
	delete(s.open, oldest)
	_ = o.store.Close() // of a checkpoint, which the next opener does: writes are on disk
	return true
}

// load opens a space that exists, or creates that of a sender for a write.
func (s *Set) load(name string, write bool) (*crmem.Store, error) {
	if err := Check(name); err != nil {
		return nil, invalid(err)
	}
	err := exists(s.o.FS, s.o.Home, name)
	if errors.Is(err, crmem.ErrNoStore) && write && IsOfSender(name) {
		err = makeDir(s.o.FS, s.o.Home, name, s.o.Max())
	}
	if err != nil {
		return nil, err
	}
	return s.o.Open(File(s.o.Home, name))
}

// Close closes the open spaces. No Use may be active.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.unused.Broadcast()
	var errs []error
	for _, o := range s.open {
		if o.store != nil {
			errs = append(errs, o.store.Close())
		}
	}
	clear(s.open)
	return errors.Join(errs...)
}

// Exists returns an error unless the space main is meant or the space has a
// directory. The error is crmem.ErrNoStore.
func Exists(fsys vfs.FS, home, name string) error {
	if name == Main {
		return nil
	}
	if err := Check(name); err != nil {
		return invalid(err)
	}
	return exists(fsys, home, name)
}

func exists(fsys vfs.FS, home, name string) error {
	fi, err := fsys.Lstat(Dir(home, name))
	if err == nil && fi.IsDir() {
		return nil
	}
	return &errtable.Error{Kind: "not_found", HTTP: http.StatusNotFound, Exit: errtable.ExitNotFound, Err: crmem.ErrNoStore,
		Message: fmt.Sprintf("open space %q: %s is not a directory", name, Dir(home, name)),
		Fix:     "run crabmem spaces create " + name + ", or crabmem spaces list to see the names"}
}

// makeDir creates the directory of a space, of at most limit spaces.
func makeDir(fsys vfs.FS, home, name string, limit int) error {
	parent := filepath.Join(home, "spaces")
	if err := vfs.MkdirAll(fsys, parent, 0o700); err != nil {
		return err
	}
	names, err := Names(fsys, home)
	if err != nil {
		return err
	}
	if len(names)-1 >= limit {
		return &errtable.Error{Kind: "full", HTTP: http.StatusInsufficientStorage, Exit: errtable.ExitFailure,
			Message: fmt.Sprintf("create space %q: there are %d spaces, at most %d", name, len(names)-1, limit),
			Fix:     "remove spaces with crabmem spaces rm, or raise [memory] max_spaces"}
	}
	if err := fsys.Mkdir(Dir(home, name), 0o700); err != nil {
		return err
	}
	if err := fsys.SyncDir(parent); err != nil {
		// A later sync could succeed although the name is not on disk: writes would be lost.
		return errors.Join(err, fsys.Remove(Dir(home, name)))
	}
	return nil
}
