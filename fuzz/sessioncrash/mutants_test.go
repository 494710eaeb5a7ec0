package sessioncrash

import (
	"testing"

	"crabmem/fuzz/mutation/protocol"
)

const (
	logFile     = "sessionlog/log.go"
	titleFile   = "sessionlog/title.go"
	writeFile   = "sessionlog/write.go"
	openFile    = "sessionlog/open.go"
	recoverFile = "sessionlog/recover.go"
	createFile  = "sessionlog/create.go"
)

const commitPoint = "if err := l.open.file.Datasync(); err != nil { // ◄"

const syncOfWrite = `	l.synced = false
	if durable {
		if err := l.sync(); err != nil {
			return err
		}
	}
`

const writeTitle = `	if err := l.write(l.buf, l.dir.opts.Sync != SyncNone); err != nil {
		return false, err
	}
	l.meta.Title = title
	return true, l.rename()
`

// mutant is the program with one broken rule. Test is the test that must fail.
type mutant struct {
	Name, Test string
	Edits      []edit
}

type edit = protocol.Edit

var mutants = []mutant{
	{"no sync of an append", "TestEnumerate", []edit{{writeFile, commitPoint, "if err := error(nil); err != nil { // ◄"}}},
	{"acknowledge before the sync", "TestEnumerate", []edit{{writeFile, syncOfWrite, "\tl.synced = false\n"}}},
	{"no sync of a marker", "TestEnumerate", []edit{{logFile, "return l.write(l.buf, l.dir.opts.Sync != SyncNone)", "return l.write(l.buf, false)"}}},
	{"no sync of a work record", "TestEnumerate", []edit{{"sessionlog/work.go", "l.write(b, l.dir.opts.Sync != SyncNone); err", "l.write(b, false); err"}}},
	{"no sync of a title", "TestEnumerate", []edit{{titleFile, "err := l.write(l.buf, l.dir.opts.Sync != SyncNone); err", "err := l.write(l.buf, false); err"}}},
	{"a durable message after unsynced bytes", "TestEnumerate", []edit{{writeFile, `	if durable {
		// Sync earlier`, `	if false {
		// Sync earlier`}}},
	{"torn tail not truncated", "TestEnumerate", []edit{{recoverFile, `	if end < size {
		if err := f.Truncate(end)`, `	if false {
		if err := f.Truncate(end)`}}},
	{"torn tail not quarantined", "TestEnumerate", []edit{{recoverFile,
		`		name, err = d.setAside(tornFolder, fmt.Sprintf("%s-%d", shortSlug(l.id, maxAside), end), f, end, size-end)`,
		`		name, err = "nowhere", nil`}}},
	{"line end not added", "TestEnumerate", []edit{{recoverFile, `	if end > from {
		if n, err := f.Write`, `	if false {
		if n, err := f.Write`}}},
	{"no search for a tear before the tail", "TestEnumerate", []edit{{recoverFile, "if l.dir.cut(before, ours, size) {", "if false {"}}},
	{"no sync of the lock file's name", "TestEnumerate", []edit{{"sessionlog/dir.go", "err = d.fs.SyncDir(locks)", "err = nil"}}},
	{"rewrite line 1", "TestEnumerate", []edit{{titleFile, "\tl.meta.Title = title\n\treturn true, l.rename()\n", `	l.meta.Title = title
	if b, err := vfs.ReadFile(l.dir.fs, l.dir.file(l.name), 1<<30); err == nil {
		_ = l.dir.replace(l.dir.file(l.name), func(w io.Writer) error {
			_, err := w.Write(append(line.AppendMeta(nil, &l.meta), b[strings.Index(string(b), "\n")+1:]...))
			return err
		}, nil)
		l.open.info, _ = l.dir.fs.Lstat(l.dir.file(l.name))
		l.size = l.open.info.Size()
	}
	return true, l.rename()
`},
		{titleFile, "\t\"io/fs\"\n", "\t\"io\"\n\t\"io/fs\"\n"},
		{titleFile, "\t\"crabmem/sessionlog/internal/feed\"\n", "\t\"crabmem/crmem/vfs\"\n\t\"crabmem/sessionlog/internal/feed\"\n"}}},
	{"marker and record in two writes", "TestOneWrite", []edit{{logFile, `	l.buf = append(line.AppendMetaRecord(b, l.meta.Title, l.meta.UptimeSecs), l.openRecord()...)
	l.buf = append(l.buf, copies...)
	return l.write(`, `	if err := l.write(b, l.dir.opts.Sync != SyncNone); err != nil {
		return err
	}
	l.buf = append(line.AppendMetaRecord(l.buf[:0], l.meta.Title, l.meta.UptimeSecs), copies...)
	return l.write(`}}},
	{"marker without keep", "TestEnumerate", []edit{{logFile, "b = line.AppendTailMarker(l.buf[:0], summary, len(tail))", "b = line.AppendMarker(l.buf[:0], summary)"}}},
	{"missing copies not read", "TestEnumerate", []edit{{"sessionlog/internal/line/context.go", "if n <= 0 || x.nested {", "if true {"}}},
	{"missing copies not written", "TestEnumerate", []edit{{recoverFile, "len(missing) > 0 {", "len(missing) > 0 && c.Start == 0 {"}}},
	{"a copy counts as durable", "TestEnumerate", []edit{{recoverFile, "rec.Kind == record.KindMessage && endsTurn", "(rec.Kind == record.KindMessage || rec.Kind == record.KindCopy) && endsTurn"}}},
	{"title before its record", "TestEnumerate", []edit{{titleFile, writeTitle, `	l.meta.Title = title
	if err := l.rename(); err != nil {
		return false, err
	}
	return true, l.write(l.buf, l.dir.opts.Sync != SyncNone)
`}}},
	{"no sync of a title's name", "TestEnumerate", []edit{{titleFile, `		err = d.fs.SyncDir(d.path)
	}
	if err != nil {
		// A later`, `	}
	if err != nil {
		// A later`}}},
	{"stale title after an eviction", "TestTurns", []edit{{logFile,
		"	if err := l.use(); err != nil { // as in Compact\n\t\treturn err\n\t}\n", ""}}},
	{"retry a failed sync", "TestLyingCache", []edit{{writeFile, commitPoint, "if err := l.open.file.Datasync(); err != nil && l.open.file.Datasync() != nil { // ◄"}}},
	{"continue after a failed sync", "TestLyingCache", []edit{{writeFile, `	if l.stopped == nil {
		l.stopped = err
	}
	if l.open != nil {`, "	if false {"}}},
	{"no truncation after a failed write", "TestErrors", []edit{{writeFile, `	if terr := l.open.file.Truncate(l.size); terr != nil {
		return l.unknown(errors.Join(err, terr))
	}
`, ""}}},
	{"unsynced truncation", "TestErrors", []edit{{writeFile, `	if serr := l.open.file.Datasync(); serr != nil {
		return l.unknown(errors.Join(err, serr))
	}
`, ""}}},
	{"trust unsynced bytes in a reopen", "TestLyingCache", []edit{{recoverFile, `return same && (before.Boot != "" || before.Torn) && before.Clean != size`, "_ = same\n\treturn false"}}},
	{"no holder in the lock file before a write", "TestLyingCache", []edit{{openFile, "	if err := l.open.lock.SetText(l.holder(-1).Text()); err != nil {\n\t\treturn err\n\t}\n\tl.open.dirty = true\n", "	l.open.dirty = true\n"}}},
	{"close and evict without a sync", "TestEnumerate", []edit{{openFile, `	if l.open.dirty {
		if err := l.sync(); err != nil {
			return err
		}
	}
`, ""}}},
	{"close does not report a lost sync", "TestLostWhenEvicted", []edit{{openFile, "o.unreported = o.stopped != nil", ""}}},
	{"no sync of the folder on create", "TestEnumerate", []edit{{"crmem/vfs/vfs.go", "return t.SyncDir(filepath.Dir(name))", "return nil"}}},
	{"create in place", "TestEnumerate", []edit{{createFile, `	err := d.replace(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}, func(p vfs.Pending) (err error) {
		if info, err = p.Stat(); err != nil {
			return err
		}
		held := d.holder(-1)
		held.Inodes = inodes(info)
		if err := lock.SetText(held.Text()); err != nil {
			return err
		}
		return d.checkFree(lock, path)
	})
`, `	err := func() error {
		f, err := d.fs.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		info, _ = f.Stat()
		return errors.Join(err, f.Sync(), f.Close(), d.fs.SyncDir(d.path))
	}()
`}}},
	{"reuse the number of a deleted session", "TestEnumerate", []edit{{createFile, "range []string{d.path, d.folder(trashFolder), d.folder(keptFolder)} {", "range []string{d.path} {"}}},
	{"no second check of the number", "TestCreateAtOnce", []edit{{createFile, "err == nil && top < seq {", "err == nil {"}}},
	{"move without a sync", "TestEnumerate", []edit{{createFile,
		"sync := func() error { return errors.Join(d.fs.SyncDir(filepath.Dir(to)), d.fs.SyncDir(filepath.Dir(from))) }",
		"sync := func() error { return nil }"}}},
	{"open despite a lock", "TestLocked", []edit{{openFile, "	lock, before, ours, err := d.acquire(l.id, d.opts.LockWait)\n", `	lock, before, ours, err := d.acquire(l.id, d.opts.LockWait)
	if errors.Is(err, vfs.ErrLocked) {
		lock, before, ours, err = d.acquire(l.id+".other", 0)
	}
`}}},
	{"no lock", "TestLocked", []edit{{"crmem/vfs/holder.go", "fsys.Lock(name)", "fsys.Lock(fmt.Sprint(name, rand.Uint64()))"}}},
}

// TestMutants runs the test of each mutant, which must fail. Each mutant needs a
// build, so the tests run only with CRABMEM_CRASH=full. Otherwise TestMutants
// checks only that the edits apply.
func TestMutants(t *testing.T) {
	protocol.Run(t, "../..", mutants, full, "CRABMEM_CRASH=calls")
}
