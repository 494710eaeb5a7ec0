package sessioncrash

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/sessionref"
	"crabmem/sessionlog"
)

// oracle recovers crash states, checks them, and caches the results.
type oracle struct {
	recrashEvery uint64 // crash during every n-th recovery, too; 0: never
	writeEvery   uint64 // write after every n-th recovery
	count        atomic.Uint64

	seen   crashtest.Memo[uint64, []found]             // recovered sessions, by image and lock files
	images crashtest.Memo[uint64, struct{}]            // distinct images, without lock files
	seen2  crashtest.Memo[uint64, struct{}]            // images of crashes during a recovery
	refs   crashtest.Memo[string, *sessionref.Session] // results of reference, by text

	kills    atomic.Int64 // checked states after a kill
	torn     atomic.Int64 // torn tails in quarantine files
	ended    atomic.Int64 // complete records whose missing line end recovery added
	repaired atomic.Int64 // repairs of a torn write of several messages
	read     atomic.Int64 // contexts that equal those of the reference reader
	written  atomic.Int64 // writes after a recovery that survived a second crash
	bad      atomic.Int64 // violations
}

func newOracle() *oracle { return &oracle{writeEvery: 1} }

// crashed checks a machine after a power cut. It recovers each distinct image
// once.
func (j *oracle) crashed(m *faultfs.Mem, w *world) error {
	image, locks := imageOf(m)
	all, ok := j.seen.Get(image ^ locks)
	if !ok {
		var err error
		if all, err = j.recover(m, w, true); err != nil {
			return err
		}
		j.seen.Put(image^locks, all)
		j.images.Put(image, struct{}{})
	}
	return w.accepts(all, true)
}

// killed checks a machine after a kill, which the page cache survives. If sick is
// true, the disk has a permanent fault, and killed does not write messages.
func (j *oracle) killed(m *faultfs.Mem, w *world, sick bool) error {
	all, err := j.recover(m, w, !sick)
	if err != nil {
		return fmt.Errorf("killed: %w", err)
	}
	j.kills.Add(1)
	if err := w.accepts(all, false); err != nil {
		return fmt.Errorf("killed: %w", err)
	}
	return nil
}

// fileState is a session with its file's content at each stage of a recovery.
type fileState struct {
	found
	before    string // before the recovery
	recovered string // after Open
	repaired  string // after Repair; recovered if no repair was necessary
	source    bool   // imported
	damaged   bool   // written by the symbol repair
	l         *sessionlog.Log
}

// recover opens every session of a machine and checks the rules of every recovery.
// If writeAgain is true, it then writes to the sessions.
func (j *oracle) recover(m *faultfs.Mem, w *world, writeAgain bool) ([]found, error) {
	var copied *faultfs.Mem
	n := j.count.Add(1)
	if j.recrashEvery > 0 && n%j.recrashEvery == 0 {
		copied = m.Kill()
	}
	var warned []string
	d, err := openDir(m, 64, &warned)
	if err != nil {
		return nil, wrong("open the folder: %v", err)
	}
	all, err := look(m, d)
	if err != nil {
		return nil, err
	}
	torn := quarantined(m, ".torn")
	for _, f := range all {
		if err := j.openFile(m, d, f, &warned); err != nil {
			return nil, err
		}
	}
	if err := j.checkQuarantine(m, all, torn, warned); err != nil {
		return nil, err
	}
	if writeAgain && n%j.writeEvery == 0 {
		if err := j.writeAgain(m, d, all); err != nil {
			return nil, err
		}
	}
	result := make([]found, len(all))
	for i, f := range all {
		result[i] = f.found
	}
	if copied != nil {
		if err := j.crashAgain(copied, w, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// look lists the sessions and reads their files without a lock.
func look(m *faultfs.Mem, d *sessionlog.Dir) ([]*fileState, error) {
	var all []*fileState
	live, err := d.List()
	if err != nil {
		return nil, wrong("list: %v", err)
	}
	trashed, err := d.Trashed()
	if err != nil {
		return nil, wrong("list the trash: %v", err)
	}
	for k, i := range slices.Concat(live, trashed) {
		f := &fileState{found: found{id: i.ID, name: i.File, trash: k >= len(live)}}
		if i.Err != nil || i.Meta.Agent == "" {
			return nil, wrong("%s is listed without its meta line: %v", i.File, i.Err)
		}
		f.before = read(m, f.path())
		if f.trash {
			f.before = read(m, dir+"/.trash/"+f.name)
		}
		f.source, f.damaged = i.Meta.Source != "", i.Meta.Agent == "hurt"
		all = append(all, f)
	}
	return all, nil
}

func (f *fileState) path() string { return dir + "/" + f.name }

// openFile opens a session for writing. It restores a session in the trash, and
// repairs a session with a tear that recovery does not find.
func (j *oracle) openFile(m *faultfs.Mem, d *sessionlog.Dir, f *fileState, warned *[]string) error {
	f.recovered = f.before
	defer func() {
		f.sum, f.size = sumOf(f.recovered), len(f.recovered)
		if f.at == 0 {
			f.repaired = f.recovered
		}
	}()
	if f.trash {
		if err := d.Restore(f.id); err != nil {
			return wrong("restore %s: %v", f.id, err)
		}
	}
	switch {
	case f.source:
		if _, err := d.Open(f.id); !errors.Is(err, sessionlog.ErrReadOnly) {
			return wrong("open an imported session for writing: %v, want ErrReadOnly", err)
		}
		return nil
	case f.damaged:
		return nil
	}
	unlocked, err := contextOf(d, f.id)
	if err != nil {
		return err
	}
	l, err := d.Open(f.id)
	if err != nil {
		return wrong("open %s: %v", f.id, err)
	}
	f.l = l
	f.recovered = read(m, f.path())
	c, err := l.Context()
	if errors.Is(err, sessionlog.ErrFormat) {
		// Recovery does not find every tear in a write of several messages. A
		// repair does. session.accepts checks that such a tear is possible.
		i := firstBad(f.recovered)
		f.prefix, f.at = sumOf(f.recovered[:i]), i
		if err := l.Close(); err != nil {
			return wrong("close: %v", err)
		}
		if did, err := d.Repair(f.id); err != nil || did.Copy == "" {
			return wrong("repair %s: %+v, %v", f.id, did, err)
		}
		if f.l, err = d.Open(f.id); err != nil {
			return wrong("open %s after a repair: %v", f.id, err)
		}
		if f.repaired = read(m, f.path()); !strings.HasPrefix(f.repaired, f.recovered[:i]) {
			return wrong("a repair of %s changed bytes before the tear", f.id)
		}
		j.repaired.Add(1)
		c, err = f.l.Context()
	}
	if err != nil {
		return wrong("context of %s: %v", f.id, err)
	}
	f.context = flatten(c.Messages)
	if strings.HasPrefix(f.recovered, f.before[:strings.LastIndexByte(f.before, '\n')+1]) && f.at == 0 && !slices.Equal(unlocked, f.context) {
		return wrong("%s: context before the recovery: %.200q, after: %.200q", f.name, unlocked, f.context)
	}
	text := f.recovered
	if f.at > 0 {
		text = f.repaired
	}
	if sumOf(text)%4 == 0 {
		if err := j.agrees(text, c); err != nil {
			return wrong("%s: %v", f.name, err)
		}
		j.read.Add(1)
	}
	return nil
}

// contextOf returns the context of a session without its lock.
func contextOf(d *sessionlog.Dir, id string) ([]string, error) {
	s, err := d.Read(id)
	if err != nil {
		return nil, wrong("read %s: %v", id, err)
	}
	defer s.Close()
	c, err := s.LenientContext()
	if err != nil {
		return nil, wrong("context of %s: %v", id, err)
	}
	return flatten(c.Messages), nil
}

// firstBad returns the offset of the first line that is not JSON.
func firstBad(text string) int {
	off := 0
	for line := range strings.Lines(text) {
		if line != "\n" && !json.Valid([]byte(line)) {
			return off
		}
		off += len(line)
	}
	return off
}

// reference returns a session as the reference reader reads it.
func (j *oracle) reference(text string) (*sessionref.Session, error) {
	if ref, ok := j.refs.Get(text); ok {
		return ref, nil
	}
	ref, err := sessionref.Read([]byte(text))
	if err == nil {
		j.refs.Put(text, ref)
	}
	return ref, err
}

// agrees compares a context with that of the reference reader.
func (j *oracle) agrees(text string, c *sessionlog.Context) error {
	ref, err := j.reference(text)
	if err != nil {
		return wrong("reference reader: %v", err)
	}
	marker := 0
	for _, r := range ref.Records {
		if r.Marker {
			marker = r.Line
		}
	}
	title, uptime := ref.Meta.Title, ref.Meta.UptimeSecs
	for _, skipped := range ref.Skipped {
		var line struct {
			Meta *struct {
				Title  string
				Uptime uint64 `json:"uptime_secs"`
			}
			Turn, Work *struct{}
		}
		if err := json.Unmarshal([]byte(skipped.Text), &line); err == nil && (line.Turn != nil || line.Work != nil) {
			continue
		} else if err != nil || line.Meta == nil {
			return wrong("line %d is skipped: %.60q", skipped.Line, skipped.Text)
		}
		if skipped.Line > marker {
			title, uptime = line.Meta.Title, line.Meta.Uptime
		}
	}
	if c.Meta.Title != title || c.Meta.UptimeSecs != uptime || c.Damaged != len(c.Damage) {
		return wrong("context has meta %+v, want title %q and run time %d", c.Meta, title, uptime)
	}
	if text, failed := streamed(text); c.Streamed != text || c.Failed != failed {
		return wrong("context has the streamed text %q, failed: %v; want %q, %v", c.Streamed, c.Failed, text, failed)
	}
	if want := answered(ref.Context); !slices.Equal(want, flatten(c.Messages)) {
		return wrong("context has %.200q\nwant %.200q", flatten(c.Messages), want)
	}
	return nil
}

// streamed implements rule S31 of FORMAT.md.
func streamed(file string) (text string, failed bool) {
	for line := range strings.Lines(file) {
		var l struct {
			Role, Compact *string
			Turn          *struct{ Text, Failed *string }
		}
		switch err := json.Unmarshal([]byte(line), &l); {
		case err != nil:
		case l.Role != nil || l.Compact != nil:
			text, failed = "", false
		case l.Turn != nil && l.Turn.Failed != nil:
			failed = true
		case l.Turn != nil && failed:
			text, failed = *l.Turn.Text, false
		case l.Turn != nil:
			text += *l.Turn.Text
		}
	}
	return text, failed
}

// answered implements rule S11 of FORMAT.md: it adds a result to each call without
// one, and omits results without a call. It returns the messages as flat does.
func answered(ms []sessionref.Message) []string {
	var out, open []string
	end := func() {
		for _, id := range open {
			out = append(out, flat("tool", "error: no result was recorded for this call", id, ""))
		}
		open = nil
	}
	for _, m := range ms {
		if m.Role == "tool" {
			i := slices.Index(open, m.ToolCallID)
			if i < 0 {
				continue
			}
			open = slices.Delete(open, i, i+1)
		} else {
			end()
		}
		calls := ""
		for _, c := range m.ToolCalls {
			calls += c.ID + "=" + c.Name + "(" + c.Arguments + ")"
			open = append(open, c.ID)
		}
		out = append(out, flat(m.Role, m.Content, m.ToolCallID, calls))
	}
	end()
	return out
}

// flatten returns each message as flat does.
func flatten(ms []sessionlog.Message) []string {
	var out []string
	for _, m := range ms {
		calls := ""
		for _, c := range m.ToolCalls {
			calls += c.ID + "=" + c.Function.Name + "(" + c.Function.Arguments + ")"
		}
		out = append(out, flat(m.Role, m.Content, m.ToolCallID, calls))
	}
	return out
}

// flat returns a message as one comparable string.
func flat(role, content, call, calls string) string {
	return strings.Join([]string{role, content, call, calls}, "|")
}

// checkQuarantine checks that each truncated byte is reported and in a durable
// quarantine file. Other bytes must not be quarantined, and earlier quarantine
// files must be unchanged.
func (j *oracle) checkQuarantine(m *faultfs.Mem, all []*fileState, had map[string]string, warned []string) error {
	has := quarantined(m, ".torn")
	for name, text := range had {
		if has[name] != text {
			return wrong("quarantine file %s is missing or changed", name)
		}
	}
	expected := map[string]string{}
	for _, f := range all {
		if f.source || f.damaged {
			continue
		}
		recovered := f.recovered
		rest, same := strings.CutPrefix(recovered, f.before)
		if same {
			if strings.HasPrefix(rest, "\n") {
				j.ended.Add(1)
			}
			// Recovery may have truncated the torn record after a marker and
			// written the record again.
			at := strings.LastIndexByte(f.before, '\n') + 1
			if kept := copyOf(has, f.id, at, f.before[at:]); rest != "" && kept != "" {
				expected[kept] = has[kept]
			}
			continue
		}
		// Find the line at which recovery truncated the file.
		common := 0
		for common < min(len(f.before), len(recovered)) && f.before[common] == recovered[common] {
			common++
		}
		at := strings.LastIndexByte(f.before[:common], '\n') + 1
		rest = recovered[at:]
		if common > at && strings.HasPrefix(recovered[common:], "\n") { // recovery added a line end before the tail
			at, rest = common, recovered[common+1:]
		}
		// Recovery writes the record and the copies after a marker again.
		if !isRewritten(rest) {
			return wrong("%s was truncated at %d, but continues with %q", f.name, at, rest)
		}
		cut := f.before[at:]
		kept := copyOf(has, f.id, at, cut)
		if kept == "" {
			return wrong("%d bytes of %s were truncated at %d and are not in %v", len(cut), f.name, at, slices.Sorted(maps.Keys(has)))
		}
		expected[kept] = cut
		if size := fmt.Sprintf(" %d bytes", len(cut)); !slices.ContainsFunc(warned, func(s string) bool {
			return strings.Contains(s, size) && strings.Contains(s, kept)
		}) {
			return wrong("%d bytes of %s were truncated without a warning: %q", len(cut), f.name, warned)
		}
		j.torn.Add(1)
	}
	for name := range has {
		if _, ok := had[name]; !ok && expected[name] == "" {
			return wrong("unexpected quarantine file %s", name)
		}
	}
	if durable := quarantined(m.Crash(), ".torn"); len(expected) > 0 {
		for name, text := range expected {
			if durable[name] != text {
				return wrong("quarantine file %s is not durable", name)
			}
		}
	}
	return nil
}

// isRewritten reports whether recovery may write lines after a truncation: the record
// after a marker, then copies.
func isRewritten(lines string) bool {
	if strings.HasPrefix(lines, `{"meta":{`) {
		_, lines, _ = strings.Cut(lines, "\n")
	}
	for line := range strings.Lines(lines) {
		if !strings.HasSuffix(line, `,"again":true}`+"\n") {
			return false
		}
	}
	return true
}

// copyOf returns the name of the quarantine file that contains cut, the bytes at
// an offset of a session. It returns "" if no file does.
func copyOf(has map[string]string, id string, at int, cut string) string {
	for name, text := range has {
		if strings.HasPrefix(name, fmt.Sprintf("%s-%d.", id, at)) && text == cut {
			return name
		}
	}
	return ""
}

// writeAgain writes to all sessions, cuts the power, and checks their files.
func (j *oracle) writeAgain(m *faultfs.Mem, d *sessionlog.Dir, all []*fileState) error {
	after := sessionlog.Message{Role: "user", Content: "after the crash"}
	for _, f := range all {
		switch {
		case f.source:
			m, items, err := transcript(f.before)
			if err != nil {
				return wrong("reference reader: %v", err)
			}
			if id, _, err := d.Import(m, items); err != nil || id != f.id {
				return wrong("repeated import: %s, %v", id, err)
			}
		case f.damaged:
			var seq int
			fmt.Sscanf(f.id, "hurt_user_%d", &seq)
			damaged, repaired := damagedText(seq)
			did, err := d.Repair(f.id)
			if err != nil || (did.Copy == "") != (f.before == repaired) {
				return wrong("repair %s: %+v, %v", f.id, did, err)
			}
			c := m.Crash()
			if got := read(c, f.path()); got != repaired {
				return wrong("%s contains %q after a repair and a crash, want %q", f.id, got, repaired)
			}
			if !slices.Contains(slices.Collect(maps.Values(quarantined(c, ".damaged"))), damaged) {
				return wrong("%s was repaired without a durable copy", f.id)
			}
		default:
			if err := f.l.Append(after); err != nil {
				return wrong("append to %s after recovery: %v", f.id, err)
			}
		}
	}
	c := m.Crash()
	var warned []string
	d, err := openDir(c, 64, &warned)
	if err != nil {
		return wrong("reopen the folder: %v", err)
	}
	infos, err := d.List()
	same := slices.Equal(sorted(infos, func(i sessionlog.Info) string { return i.ID }), sorted(all, func(f *fileState) string { return f.id }))
	if err != nil || !same {
		return wrong("%d sessions after a recovery, writes, and a crash, want %d: %v", len(infos), len(all), err)
	}
	for _, f := range all {
		if f.damaged {
			continue
		}
		want := f.repaired
		if f.l != nil {
			want += messageText(after) + "\n"
		}
		name := f.name
		if f.source { // the repeated import may have renamed the file to match the title
			name = infos[slices.IndexFunc(infos, func(i sessionlog.Info) bool { return i.ID == f.id })].File
		}
		if got := read(c, dir+"/"+name); got != want {
			return wrong("%s after a recovery, a write, and a crash:\n%.300q\nwant\n%.300q", f.name, got, want)
		}
		if f.l != nil {
			l, err := d.Open(f.id)
			if err != nil {
				return wrong("reopen %s: %v", f.id, err)
			}
			if _, err := l.Context(); err != nil {
				return wrong("context of %s after a reopen: %v", f.id, err)
			}
		}
		j.written.Add(1)
	}
	if len(warned) > 0 {
		return wrong("a second recovery repaired files: %q", warned)
	}
	return nil
}

// sorted returns the sorted IDs of all.
func sorted[T any](all []T, id func(T) string) (ids []string) {
	for _, x := range all {
		ids = append(ids, id(x))
	}
	slices.Sort(ids)
	return ids
}

// transcript returns the meta line and the items of an imported session's file.
func transcript(text string) (sessionlog.Meta, []sessionlog.Item, error) {
	ref, err := sessionref.Read([]byte(text))
	if err != nil {
		return sessionlog.Meta{}, nil, err
	}
	line, _, _ := strings.Cut(text, "\n")
	var own struct{ Source string } // the reference does not have it
	if err := json.Unmarshal([]byte(line), &own); err != nil {
		return sessionlog.Meta{}, nil, err
	}
	r := ref.Meta
	m := sessionlog.Meta{Agent: r.Agent, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, Title: r.Title, UptimeSecs: r.UptimeSecs, Source: own.Source}
	var items []sessionlog.Item
	for _, r := range ref.Records {
		items = append(items, sessionlog.Item{Message: sessionlog.Message{Role: r.Message.Role, Content: r.Message.Content}})
	}
	return m, items, nil
}

// crashAgain recovers a machine, cuts the power at each call of the recovery, and
// checks the states. The recovery acknowledges no writes, so the permitted states
// are the same.
func (j *oracle) crashAgain(m *faultfs.Mem, w *world, all []found) error {
	inner := newOracle()
	inner.writeEvery = 8
	crash := crashtest.Recovery{Limit: 6, Idle: idle, Seen: &j.seen2,
		Image: func(m *faultfs.Mem) uint64 {
			image, locks := imageOf(m)
			return image ^ locks
		},
		Check: func(m *faultfs.Mem, _ uint64) error {
			got, err := inner.recover(m, nil, true)
			if err == nil {
				err = w.accepts(got, true)
			}
			return err
		}}
	m.Hook = func(c faultfs.Call) error {
		crash.Hook(m, c)
		return nil
	}
	var warned []string
	d, err := openDir(m, 64, &warned)
	if err != nil {
		return wrong("open the folder: %v", err)
	}
	for _, f := range all {
		if f.trash || strings.HasPrefix(f.id, "other_") || strings.HasPrefix(f.id, "hurt_") || f.at > 0 {
			continue
		}
		if _, err := d.Open(f.id); err != nil {
			return wrong("open %s: %v", f.id, err)
		}
	}
	return crash.Err
}

func read(m *faultfs.Mem, name string) string { return string(crashtest.Read(m, name)) }

// quarantined returns the quarantine files in a subfolder of the sessions folder.
func quarantined(m *faultfs.Mem, folder string) map[string]string {
	return crashtest.Files(m, dir+"/"+folder, func(name string) bool { return name[0] != '.' })
}
