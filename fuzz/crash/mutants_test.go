package crash

import (
	"testing"

	"crabmem/fuzz/mutation/protocol"
)

// mutant is the program with one broken rule. Test is the test that must fail.
type mutant struct {
	Name, Test string
	Edits      []edit
}

type edit = protocol.Edit

const commitPoint = `	if err := s.log.Datasync(); err != nil { // ◄ the commit point: when this returns nil, the group is acknowledged
		return s.unknown(err)
	}
`

const writeLog = `	if err := writeAll(s.log, g.buf); err != nil {
		return s.undo(g.start, err)
	}
`

var mutants = []mutant{
	{"no sync of the log", "TestEnumerate", []edit{{"crmem/commit.go", commitPoint, ""}}},
	{"acknowledge before the sync", "TestEnumerate", []edit{{"crmem/commit.go", writeLog + commitPoint, `	if err := s.log.Datasync(); err != nil {
		return s.unknown(err)
	}
` + writeLog}}},
	{"retry a failed sync", "TestErrors", []edit{{"crmem/commit.go",
		"if err := s.log.Datasync(); err != nil { // ◄", "if err := s.log.Datasync(); err != nil && s.log.Datasync() != nil { // ◄"}}},
	{"continue after a failed sync", "TestErrors", []edit{{"crmem/commit.go", `	if s.stopped == nil {
		s.stopped = err
	}
	return err`, "\treturn err"}}},
	{"publish before the sync", "TestErrors", []edit{
		{"crmem/commit.go", `	} else if s.path != "" {
		g.err = s.write(g)
	}
`, `	} else {
		s.wmu.Lock()
		s.publish(g)
		s.wmu.Unlock()
		if s.path != "" {
			g.err = s.write(g)
		}
	}
`},
		{"crmem/commit.go", "\ts.publish(g)\n\tif len(g.buf)", "\tif len(g.buf)"}}},
	{"no file of an unfinished purge", "TestEnumerate", []edit{{"crmem/checkpoint.go", `	if c.purging != "" {
		if err := s.writePurge(`, `	if false {
		if err := s.writePurge(`}}},
	{"purge without the history", "TestEnumerate", []edit{{"crmem/purge.go", "if err := p.history(); err != nil {", "if err := error(nil); err != nil {"}}},
	{"purge without the other files", "TestEnumerate", []edit{{"crmem/purge.go", "if err := p.files(); err != nil {", "if err := error(nil); err != nil {"}}},
	{"purge keeps old bases", "TestEnumerate", []edit{{"crmem/rewrite.go", "range p.unused {", "range p.unused[:0] {"}}},
	{"prune does not hide older segments", "TestEnumerate", []edit{{"crmem/past.go", "		if first {\n", "		if first && false {\n"}}},
	{"prune before the new segment", "TestEnumerate", []edit{{"crmem/prune.go", `			if err := p.shorten(l, &w); err != nil {
				return err
			}
			return p.keepFrom(l.n)
`, `			if err := p.keepFrom(l.n); err != nil {
				return err
			}
			return p.shorten(l, &w)
`}}},
	{"prune what it could not read", "TestErrors", []edit{{"crmem/prune.go", "		case err != errDone && !isDamage(err):", "		case false:"}}},
	{"no batch flag", "TestEnumerate", []edit{{"crmem/commit.go", `		if i < len(st.effects)-1 {
			typ |= format.FrameMore
		}
`, ""}}},
	{"no truncation after a failed write", "TestErrors", []edit{{"crmem/commit.go", `	if err := s.log.Truncate(end); err != nil {
		return err
	}
`, ""}}},
	{"unsynced truncation", "TestErrors", []edit{{"crmem/commit.go", "	return s.log.Datasync()", "	return nil"}}},
	{"no sync of the temporary file", "TestEnumerate", []edit{
		{"crmem/checkpoint.go", `	if err := p.Sync(); err != nil {
		return nil, dig, err
	}
`, ""},
		{"crmem/checkpoint.go", "p.Commit()\n\ts.dbStat", "errors.Join(p.Close(), s.fs.Rename(p.Name(), s.path))\n\ts.dbStat"}}},
	{"no sync of the directory", "TestEnumerate", []edit{{"crmem/checkpoint.go", `	if err := s.fs.SyncDir(dirOf(s.path)); err != nil {
		return s.fail(err)
	}
`, ""}}},
	{"no sync of the new log", "TestEnumerate", []edit{{"crmem/newlog.go",
		"p.Commit()\n\ts.logStat", "errors.Join(p.Close(), s.fs.Rename(p.Name(), name))\n\ts.logStat"}}},
	{"no sync of the new log's name", "TestEnumerate", []edit{{"crmem/newlog.go", `	if err := s.fs.SyncDir(dirOf(name)); err != nil {
		return err
	}
	f, err :=`, `	f, err :=`}}},
	{"rename before the checkpoint frame", "TestEnumerate", []edit{{"crmem/checkpoint.go", `	if err := s.announce(dig, c.seq); err != nil {
		return errors.Join(err, p.Discard())
	}
	if err := s.swap(p, dig); err != nil {
		return err
	}
`, `	if err := s.swap(p, dig); err != nil {
		return err
	}
	if err := s.announce(dig, c.seq); err != nil {
		return err
	}
`}}},
	{"checkpoint drops concurrent operations", "TestEnumerate", []edit{{"crmem/checkpoint.go",
		"s.newLog(c.seq, frames, c.last)", "s.newLog(s.w.Seq-1, nil, s.w.Last)"}}},
	{"no sync of names in Replace", "TestEnumerate", []edit{{"crmem/vfs/vfs.go", "return t.SyncDir(filepath.Dir(name))", "return nil"}}},
	{"replay by position", "TestEnumerate", []edit{{"crmem/replay.go", `	for i := range v.scan.Frames {
		f := &v.scan.Frames[i]
		if f.Type == format.FrameCheckpoint || f.Seq <= seq {
`, `	start := 0
	for i := range v.scan.Frames {
		if f := &v.scan.Frames[i]; f.Type == format.FrameCheckpoint && format.ReadDigest(f.Payload) == v.dig {
			start = i
		}
	}
	for i := range v.scan.Frames {
		f := &v.scan.Frames[i]
		if f.Type == format.FrameCheckpoint || i < start {
`}}},
	{"replay operations in the snapshot", "TestEnumerate", []edit{{"crmem/replay.go",
		"if f.Type == format.FrameCheckpoint || f.Seq <= seq {", "if f.Type == format.FrameCheckpoint {"}}},
	{"no check of sequence numbers", "TestSequence", []edit{{"crmem/internal/format/scan.go", "if f.Seq != seq {", "if false {"}}},
	{"skip an invalid frame", "TestEnumerate", []edit{
		{"crmem/internal/format/scan.go", `			s.Why = why
			break
`, `			s.Why = why
			off++
			continue
`},
		{"crmem/internal/format/scan.go", "if f.prev != w.prev {", "if false {"},
		{"crmem/internal/format/scan.go", "if f.Seq != seq {", "if false {"}}},
	{"treat corruption as a torn tail", "TestRotRefused", []edit{{"crmem/internal/format/scan.go", "s.Verdict = Corrupt", "s.Verdict = TornTail"}}},
	{"trust unsynced bytes in a reopen", "TestErrors", []edit{{"crmem/recover.go",
		"if !s.trusts(v, before) || dirty || v.scan.Verdict == format.TornTail {", "if _ = s.trusts(v, before); v.scan.Verdict == format.TornTail {"}}},
	{"no quarantine of a torn tail", "TestEnumerate", []edit{{"crmem/recover.go",
		`name, err := quarantine(s.fs, fmt.Sprintf("%s%s%d", s.path, tornSuffix, w.Seq), tail)`, `name, err := "nowhere", error(nil)`}}},
	{"leave temporary files", "TestEnumerate", []edit{{"crmem/recover.go", "fsys.Remove(filepath.Join(dir, e.Name()))", "error(nil)"}}},
	{"no sync of a segment", "TestEnumerate", []edit{{"crmem/fold.go", `	if err := file.Datasync(); err != nil {
		return false, err
	}
`, ""}}},
	{"no sync of a compressed segment", "TestEnumerate", []edit{{"crmem/segment.go", "	return f.s.fs.Remove(g.path)", "	return errors.Join(f.s.fs.Remove(g.path), f.s.fs.SyncDir(f.dir))"},
		{"crmem/vfs/vfs.go", "		err := p.Sync()\n		if err == nil {\n			err = check(p)\n		}", "		err := check(p)"},
		{"crmem/vfs/vfs.go", "	if err := p.Commit(); err != nil {", "	if check != nil {\n		if err := errors.Join(p.Close(), t.Rename(p.Name(), name)); err != nil {\n			return err\n		}\n	} else if err := p.Commit(); err != nil {"}}},
	{"remove a segment before it is compressed", "TestEnumerate", []edit{{"crmem/segment.go", "	if err := writeCompressed(f.s.fs, w, g.otherPath(), b); err != nil {", "	if err := errors.Join(f.s.fs.Remove(g.path), f.s.fs.SyncDir(f.dir), writeCompressed(f.s.fs, w, g.otherPath(), b)); err != nil {"}}},
	{"no base", "TestEnumerate", []edit{{"crmem/fold.go", "if !found || f.sinceBase() >= baseEvery || f.readable(true) == nil {", "if found && f.sinceBase() >= baseEvery {"}}},
	{"no copy of a log that was not read", "TestErrors", []edit{{"crmem/checkpoint.go", "if c.unread != nil {", "if false {"}}},
	{"checkpoint without a fold", "TestErrors", []edit{
		{"crmem/checkpoint.go", "if err := s.fold(c); err != nil {", "if err := s.fold(c); false {"}}},
	{"count operations of an interrupted fold", "TestEnumerate", []edit{{"crmem/past.go", "return i, h.Before.Seq", "return i, noLimit"}}},
	{"append to an interrupted fold", "TestEnumerate", []edit{{"crmem/fold.go", `	w, ok := f.tail(fi.Size())
	if !ok {
		return false, nil
	}
`, `	old, err := vfs.ReadFile(f.s.fs, name, 1<<30)
	if err != nil {
		return false, err
	}
	scan, err := format.ScanLog(old)
	if err != nil {
		return false, nil
	}
	w := scan.Writer()
	for len(f.frames) > 0 && f.frames[0].Seq < w.Seq {
		f.frames = f.frames[1:]
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
