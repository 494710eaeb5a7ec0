package daemoncrash

import (
	"testing"

	"crabmem/fuzz/mutation/protocol"
)

const (
	logFile     = "sessionlog/log.go"
	titleFile   = "sessionlog/title.go"
	writeFile   = "sessionlog/write.go"
	commitFile  = "crmem/commit.go"
	cronFile    = "daemon/cron/cron.go"
	loopFile    = "daemon/agent/loop.go"
	compactFile = "daemon/agent/compact.go"
	archiveFile = "daemon/session/archived.go"
	openFile    = "daemon/session/open.go"
	configFile  = "daemon/config/set.go"
	vfsFile     = "crmem/vfs/vfs.go"
)

const replaceCrons = `	err := vfs.WriteFile(t.fsys, t.path, 0o600, []byte(text))
`

const replaceConfig = `		err = vfs.WriteFile(l.fsys, name, 0o600, text)
`

func edit(file, old, new string) []protocol.Edit {
	return []protocol.Edit{{file, old, new}}
}

var mutants = []protocol.Mutant{
	{Name: "no sync of the store's log", Edits: edit(commitFile, "if err := s.log.Datasync(); err != nil { // ◄", "if err := error(nil); err != nil { // ◄")},
	{Name: "no sync of a message", Edits: edit(writeFile, "if err := l.open.file.Datasync(); err != nil { // ◄", "if err := error(nil); err != nil { // ◄")},
	{Name: "no sync of a marker", Edits: edit(logFile, "return l.write(l.buf, l.dir.opts.Sync != SyncNone)", "return l.write(l.buf, false)")},
	{Name: "no sync of a title", Edits: edit(titleFile, "err := l.write(l.buf, l.dir.opts.Sync != SyncNone); err", "err := l.write(l.buf, false); err")},
	{Name: "no sync at the end of a run", Edits: append(edit(loopFile, "\treturn l.Sync()\n}", "\treturn nil\n}"),
		edit("daemon/session/failure.go", "err = l.log.Sync()", "err = nil")...)},
	{Name: "no sync of a replacement's name", Edits: edit(vfsFile, "return t.SyncDir(filepath.Dir(name))", "return nil")},
	{Name: "no sync of the name of the cron file", Edits: edit(cronFile, replaceCrons, `	p, err := t.fsys.Pending(t.path, 0o600)
	if err == nil {
		_, err = p.Write([]byte(text))
		err = errors.Join(err, p.Commit())
	}
`)},
	{Name: "keep cron entries in memory only", Edits: edit(cronFile, replaceCrons, "\tvar err error\n\t_ = vfs.WriteFile\n")},
	{Name: "delete a cron entry in memory only", Edits: edit(cronFile,
		"e.warning == \"\" && e.cron.ID == id })\n\treturn t.replace(next)", "e.warning == \"\" && e.cron.ID == id })\n\tt.adopt(next.text())\n\treturn nil")},
	{Name: "no sync of the configuration's name", Edits: edit(configFile, replaceConfig, `		var p vfs.Pending
		if p, err = l.fsys.Pending(name, 0o600); err == nil {
			if _, err = p.Write(text); err == nil {
				err = p.Commit()
			}
		}
`)},
	{Name: "count an archive before it is stored", Edits: edit(archiveFile, "\tif a.Memory {\n\t\tif name,", "\t_ = m.setArchived(s.Log.ID(), archiveState{done: sum.Number})\n\tif a.Memory {\n\t\tif name,")},
	{Name: "a summary without an archive", Edits: edit(compactFile, "\treturn r.ArchivePending(a, s)\n", "\treturn \"lost\", nil\n")},
	{Name: "no later archive after a power cut prevented it", Edits: edit(openFile, "s.Unarchived = m.unarchived(", "_ = m.unarchived(")},
	{Name: "acknowledge an entry without writing it", Edits: edit("daemon/op/entries.go",
		"e, before, err := s.Overwrite(o, s.by()...)", "e, before, err := crmem.Entry{Name: o.Name, Content: o.Content}, crmem.Entry{}, error(nil)")},
}

// TestMutants breaks one rule of the daemon or of the packages that it uses at a
// time. TestPowerCuts must fail for each mutant. Without CRABMEM_CRASH=full,
// TestMutants checks only that the edits apply.
func TestMutants(t *testing.T) {
	for i := range mutants {
		mutants[i].Test = "TestPowerCuts"
	}
	protocol.Run(t, "../..", mutants, full, "CRABMEM_CRASH=calls")
}
