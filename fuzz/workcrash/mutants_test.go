package workcrash

import (
	"testing"

	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/mutation/protocol"
)

const (
	stateFile   = "daemon/work/state.go"
	itemFile    = "daemon/work/item.go"
	parentFile  = "daemon/work/parent.go"
	recoverFile = "daemon/work/recover.go"
	recordFile  = "sessionlog/record/work.go"
)

const appendDelivery = "	if err := p.log.Append(m); err != nil { // ◄"

// mutant is the program with one broken rule. Test is the test that must fail.
type mutant struct {
	Name, Test string
	Edits      []edit
}

type edit = protocol.Edit

var mutants = []mutant{
	{"delivery before its end", "TestEnumerate", []edit{{itemFile, "	if err := i.write(w); err != nil {\n		return err\n	}\n	i.parent.put(i.outcome(w))",
		"	next, err := i.p.after(w)\n	if err != nil {\n		return err\n	}\n	i.p = next\n	i.parent.put(i.outcome(w))"}}},
	{"spawn acknowledged before its line is synced", "TestEnumerate", []edit{{"sessionlog/work.go", "l.write(b, l.dir.opts.Sync != SyncNone); err", "l.write(b, false); err"}}},
	{"inbox emptied before the user message is synced", "TestEnumerate", []edit{
		{parentFile, appendDelivery, "	p.inbox = slices.Clone(p.inbox[len(out):])\n" + appendDelivery},
		{parentFile, "		return nil, err\n	}\n	p.inbox = slices.Clone(p.inbox[len(out):])\n", "		return nil, err\n	}\n"}}},
	{"no file of the parent before a start", "TestEnumerate", []edit{{parentFile, "	if p.marked {\n		return nil\n	}\n", "	if true {\n		return nil\n	}\n"}}},
	{"file of the parent without a sync", "TestEnumerate", []edit{{parentFile, "errors.Join(f.Close(), p.home.FS.SyncDir(dir)); err", "f.Close(); err"}}},
	{"file of the parent removed before the delivery", "TestEnumerate", []edit{{parentFile, appendDelivery, "	_ = p.home.unmark(p.log.ID())\n" + appendDelivery}}},
	{"children of spawns without a start stay", "TestEnumerate", []edit{{recoverFile, "a == Trash {", "a == Trash && false {"}}},
	{"delivered again after a restart", "TestEnumerate", []edit{{recoverFile, "		if w.N > delivered {", "		if w.N > 0 {"}}},
	{"tail trusted after a marker of another program", "TestHistories", []edit{{"sessionlog/internal/line/work.go", "x.c.WorkKnown = !x.c.Compacted", "x.c.WorkKnown = true"}}},
	{"recovery trusts lines that are only visible", "TestEnumerate", []edit{{recoverFile, "	err := i.use() //", "	err := error(nil) //"}}},
	{"branch resumed", "TestEnumerate", []edit{{recoverFile, "(f.Kind == record.Branch || f.External", "(f.External"}}},
	{"later end of ended work", "TestEnumerate", []edit{{stateFile, "	p.Status = to\n	return p, err\n", "	p.Status = to\n	_ = err\n	return p, nil\n"}}},
	{"IDs used again after a marker", "TestEnumerate", []edit{{recordFile, "o.Next = WorkNext{max(o.Next.B, w.Next.B), max(o.Next.W, w.Next.W)}", "o.Next = WorkNext{}"}}},
	{"interactive work closed by a delivery", "TestEnumerate", []edit{{recordFile, "o.Items[i].N = n; !o.Items[i].Interactive {", "o.Items[i].N = n; true {"}}},
	{"delivered work stays open", "TestEnumerate", []edit{{parentFile, "			delete(p.items, o.ID)\n", ""}}},
	{"continued work is not open", "TestHistories", []edit{{itemFile, "	if i.p.State == record.Failed { // its", "	if false { // its"}}},
	{"answer acknowledged before its line is synced", "TestEnumerate", []edit{{"sessionlog/work.go", "l.write(b, l.dir.opts.Sync != SyncNone); err", "l.write(b, l.dir.opts.Sync != SyncNone && w.Op != record.WorkAnswer); err"}}},
	{"call begins before its use is synced", "TestEnumerate", []edit{{"sessionlog/work.go", "l.write(b, l.dir.opts.Sync != SyncNone); err", "l.write(b, l.dir.opts.Sync != SyncNone && w.Op != record.WorkUse); err"}}},
	{"answer used twice", "TestEnumerate", []edit{{recordFile, "	case WorkUse, WorkEnd:", "	case WorkEnd:"}}},
	{"answer not delivered after a restart", "TestEnumerate", []edit{{recoverFile, "q != nil && q.Answer != \"\"", "q != nil && false"}}},
	{"question lost by a marker", "TestHistories", []edit{{recordFile, "N: c.Asks, Ask: c.Ask}", "N: c.Asks}"}}},
	{"message taken in twice", "TestHistories", []edit{{stateFile, "bool { return slices.Contains(keys, routeKey(w.N)) })", "bool { return false })"}}},
}

// TestMutants runs the test of each mutant, which must fail. Each mutant needs a build, so
// the tests run only with CRABMEM_CRASH=full. Otherwise TestMutants checks only that the
// edits apply.
func TestMutants(t *testing.T) {
	protocol.Run(t, "../..", mutants, crashtest.Full, "CRABMEM_CRASH=calls")
}
