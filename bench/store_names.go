package main

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"crabmem/bench/measure"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// names measures the cost of the check of file names in a group commit. It compares
// the CPU time of commits with real Lstat calls and with stored results. It runs 100
// passes of each in turn and takes the least. The file system does not sync, so that
// commits only use CPU time.
func names(t *measure.Limits, path string, _ int) error {
	fsys := &knownFS{infos: map[string]fs.FileInfo{}}
	s, err := crmem.Open(filepath.Join(filepath.Dir(path), "names.db"), &crmem.Options{FS: fsys, LogLimit: 1 << 40, CheckpointOnClose: crmem.CheckpointNever})
	if err != nil {
		return err
	}
	defer s.Close()
	const passes, commits = 100, 2000
	text := strings.Repeat("word ", 46)
	pass := func(known bool) (time.Duration, error) {
		fsys.known = known
		start := measure.CPU()
		for i := range commits {
			if _, err := s.Remember("n"+strconv.Itoa(i%100), text, nil); err != nil {
				return 0, err
			}
		}
		return measure.CPU() - start, nil
	}
	var with, without time.Duration
	for range passes {
		a, err := pass(false)
		if err != nil {
			return err
		}
		b, err := pass(true)
		if err != nil {
			return err
		}
		with, without = measure.Least(with, a), measure.Least(without, b)
	}
	cost := float64(with-without) / commits / float64(time.Microsecond)
	t.Most("check of names, CPU of one group commit", cost, 3, "us")
	return nil
}

// knownFS is the real file system without syncs of the log. If known is set, Lstat
// returns the stored result of an earlier call.
type knownFS struct {
	vfs.OS
	known bool
	infos map[string]fs.FileInfo
	end   atomic.Int64 // size of the log
}

func (f *knownFS) Lstat(name string) (fs.FileInfo, error) {
	seen := f.infos[name]
	if f.known && seen != nil {
		return &knownInfo{seen, f.size(name, seen)}, nil
	}
	fi, err := f.OS.Lstat(name)
	if err != nil {
		return nil, err
	}
	if seen == nil {
		f.infos[name] = fi
	}
	return &knownInfo{fi, fi.Size()}, nil
}

func (f *knownFS) size(name string, fi fs.FileInfo) int64 {
	if strings.HasSuffix(name, "-wal") {
		return f.end.Load()
	}
	return fi.Size()
}

func (f *knownFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.OS.OpenFile(name, flag, perm)
	if err != nil || !strings.HasSuffix(name, "-wal") {
		return file, err
	}
	fi, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f.end.Store(fi.Size())
	return &unsyncedFile{file, &f.end}, nil
}

func (f *knownFS) Pending(name string, perm fs.FileMode) (vfs.Pending, error) {
	p, err := f.OS.Pending(name, perm)
	return knownPending{p}, err
}

func (f *knownFS) Lock(name string) (vfs.Locked, error) {
	l, err := f.OS.Lock(name)
	return knownLock{l}, err
}

type unsyncedFile struct {
	vfs.File
	end *atomic.Int64
}

func (f *unsyncedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.end.Add(int64(n))
	return n, err
}

func (*unsyncedFile) Datasync() error { return nil }

// knownInfo contains the identity of the file, so that vfs.SameFile can compare it.
type knownInfo struct {
	fs.FileInfo
	size int64
}

func (i *knownInfo) Size() int64 { return i.size }
func (i *knownInfo) Sys() any    { return vfs.Identify(i.FileInfo) }

type knownPending struct{ vfs.Pending }

func (p knownPending) Stat() (fs.FileInfo, error) { return known(p.Pending.Stat()) }

type knownLock struct{ vfs.Locked }

func (l knownLock) Stat() (fs.FileInfo, error) { return known(l.Locked.Stat()) }

func known(fi fs.FileInfo, err error) (fs.FileInfo, error) {
	if err != nil {
		return nil, err
	}
	return &knownInfo{fi, fi.Size()}, nil
}
