package sessioncrash

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/sessionref"
	"crabmem/sessionlog"
)

// judge opens crash states and caches the results.
type judge struct {
	again uint64 // crash during every so-manieth recovery, too; 0 = during none
	goes  uint64 // go on writing after every so-manieth recovery
	count atomic.Uint64

	seen   crashtest.Memo[uint64, []found]             // what an image was recovered to, by image and lock texts
	images crashtest.Memo[uint64, struct{}]            // distinct, lock texts aside
	seen2  crashtest.Memo[uint64, struct{}]            // those of crashes during a recovery
	refs   crashtest.Memo[string, *sessionref.Session] // by text, see reference

	deaths  atomic.Int64 // killed processes, whose page cache lives on
	torn    atomic.Int64 // torn ends that were set aside
	ended   atomic.Int64 // whole records that got their end
	flawed  atomic.Int64 // tears inside a write of several messages, that a repair took out
	read    atomic.Int64 // contexts that the other reader agreed to
	written atomic.Int64 // writes after a recovery that survived a second crash
	bad     atomic.Int64
}

func newJudge() *judge { return &judge{goes: 1} }

// crashed judges a machine after a power cut. An image that was seen before is
// not recovered again.
func (j *judge) crashed(m *vfs.Mem, w *world) error {
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

// killed checks a machine whose process died: the page cache survives. If the
// disk has a fault, it only reads.
func (j *judge) killed(m *vfs.Mem, w *world, sick bool) error {
	all, err := j.recover(m, w, !sick)
	if err != nil {
		return fmt.Errorf("killed: %w", err)
	}
	j.deaths.Add(1)
	if err := w.accepts(all, false); err != nil {
		return fmt.Errorf("killed: %w", err)
	}
	return nil
}

// looked is a session on its way through a recovery.
type looked struct {
	found
	before string // what its file held
	mended string // what it holds when it is open
	after  string // and when it was repaired, if it had to be
	source bool
	hurt   bool
	l      *sessionlog.Log
}

// recover opens every session of a machine, checks the rules for every
// recovery, and continues to write.
func (j *judge) recover(m *vfs.Mem, w *world, goesOn bool) ([]found, error) {
	var copied *vfs.Mem
	n := j.count.Add(1)
	if j.again > 0 && n%j.again == 0 {
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
	torn := aside(m, ".torn")
	for _, f := range all {
		if err := j.mend(m, d, f, &warned); err != nil {
			return nil, err
		}
	}
	if err := j.setAside(m, all, torn, warned); err != nil {
		return nil, err
	}
	if goesOn && n%j.goes == 0 {
		if err := j.goesOn(m, d, all); err != nil {
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

// look lists the sessions, as a reader who takes no lock.
func look(m *vfs.Mem, d *sessionlog.Dir) ([]*looked, error) {
	var all []*looked
	live, err := d.List()
	if err != nil {
		return nil, wrong("list: %v", err)
	}
	trashed, err := d.Trashed()
	if err != nil {
		return nil, wrong("list the trash: %v", err)
	}
	for k, i := range slices.Concat(live, trashed) {
		f := &looked{found: found{id: i.ID, name: i.File, trash: k >= len(live)}}
		if i.Err != nil || i.Meta.Agent == "" {
			return nil, wrong("%s is listed without its meta line, %v", i.File, i.Err)
		}
		f.before = read(m, f.path())
		if f.trash {
			f.before = read(m, dir+"/.trash/"+f.name)
		}
		f.source, f.hurt = i.Meta.Source != "", i.Meta.Agent == "hurt"
		all = append(all, f)
	}
	return all, nil
}

func (f *looked) path() string { return dir + "/" + f.name }

// mend opens a session for writing, also one in the trash.
func (j *judge) mend(m *vfs.Mem, d *sessionlog.Dir, f *looked, warned *[]string) error {
	f.mended = f.before
	defer func() {
		f.sum, f.size = sumOf(f.mended), len(f.mended)
		if f.at == 0 {
			f.after = f.mended
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
			return wrong("an imported session is opened to write: %v", err)
		}
		return nil
	case f.hurt:
		return nil
	}
	l, err := d.Open(f.id)
	if err != nil {
		return wrong("open %s: %v", f.id, err)
	}
	f.l = l
	f.mended = read(m, f.path())
	c, err := l.Context()
	if errors.Is(err, sessionlog.ErrFormat) {
		// A tear that no rule finds, if the world allows one here: a repair
		// does.
		i := firstBad(f.mended)
		f.flawed, f.at = sumOf(f.mended[:i]), i
		if err := l.Close(); err != nil {
			return wrong("close: %v", err)
		}
		if did, err := d.Repair(f.id); err != nil || did.Copy == "" {
			return wrong("repair %s: %+v, %v", f.id, did, err)
		}
		if f.l, err = d.Open(f.id); err != nil {
			return wrong("open %s after a repair: %v", f.id, err)
		}
		if f.after = read(m, f.path()); !strings.HasPrefix(f.after, f.mended[:i]) {
			return wrong("a repair of %s took what is before the tear", f.id)
		}
		j.flawed.Add(1)
		c, err = f.l.Context()
	}
	if err != nil {
		return wrong("context of %s: %v", f.id, err)
	}
	text := f.mended
	if f.at > 0 {
		text = f.after
	}
	if sumOf(text)%4 == 0 {
		if err := j.agrees(text, c); err != nil {
			return wrong("%s: %v", f.name, err)
		}
		j.read.Add(1)
	}
	return nil
}

// firstBad returns the offset of the first line that is no object.
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

// reference is the other reader's view of a file.
func (j *judge) reference(text string) (*sessionref.Session, error) {
	if ref, ok := j.refs.Get(text); ok {
		return ref, nil
	}
	ref, err := sessionref.Read([]byte(text))
	if err == nil {
		j.refs.Put(text, ref)
	}
	return ref, err
}

// agrees compares a context with the other reader's.
func (j *judge) agrees(text string, c *sessionlog.Context) error {
	ref, err := j.reference(text)
	if err != nil {
		return wrong("the other reader: %v", err)
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
		}
		if err := json.Unmarshal([]byte(skipped.Text), &line); err != nil || line.Meta == nil {
			return wrong("line %d is skipped: %.60q", skipped.Line, skipped.Text)
		}
		if skipped.Line > marker {
			title, uptime = line.Meta.Title, line.Meta.Uptime
		}
	}
	if c.Meta.Title != title || c.Meta.UptimeSecs != uptime || c.Damaged != len(c.Damage) {
		return wrong("context says %+v, want title %q and run time %d", c.Meta, title, uptime)
	}
	if want := answered(ref.Context); !slices.Equal(want, flatten(c.Messages)) {
		return wrong("context has %.200q\nwant %.200q", flatten(c.Messages), want)
	}
	return nil
}

// answered gives every call a result and omits results without a call, by rule
// S11 of FORMAT.md, and flattens the messages.
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

func flat(role, content, call, calls string) string {
	return strings.Join([]string{role, content, call, calls}, "|")
}

// setAside checks that truncated bytes are reported and quarantined, that no
// others are, and that earlier quarantine files are unchanged.
func (j *judge) setAside(m *vfs.Mem, all []*looked, had map[string]string, warned []string) error {
	has := aside(m, ".torn")
	for name, text := range had {
		if has[name] != text {
			return wrong("%s was kept, but is missing or differs", name)
		}
	}
	expected := map[string]string{}
	for _, f := range all {
		if f.source || f.hurt {
			continue
		}
		mended := f.mended
		rest, same := strings.CutPrefix(mended, f.before)
		if same {
			if strings.HasPrefix(rest, "\n") {
				j.ended.Add(1)
			}
			// Of the record behind a marker the first bytes may have been cut off
			// and written again.
			at := strings.LastIndexByte(f.before, '\n') + 1
			if kept := copyOf(has, f.id, at, f.before[at:]); rest != "" && kept != "" {
				expected[kept] = has[kept]
			}
			continue
		}
		// The line from which on it was cut.
		common := 0
		for common < min(len(f.before), len(mended)) && f.before[common] == mended[common] {
			common++
		}
		at := strings.LastIndexByte(f.before[:common], '\n') + 1
		rest = mended[at:]
		if common > at && strings.HasPrefix(mended[common:], "\n") { // a whole record was before it
			at, rest = common, mended[common+1:]
		}
		if strings.Count(rest, "\n") > 1 || rest != "" && !strings.HasPrefix(rest, `{"meta":{`) {
			return wrong("%s was truncated at %d, but continues with %q", f.name, at, rest)
		}
		cut := f.before[at:]
		kept := copyOf(has, f.id, at, cut)
		if kept == "" {
			return wrong("%d bytes of %s were cut at %d, and they are not in %v", len(cut), f.name, at, slices.Sorted(maps.Keys(has)))
		}
		expected[kept] = cut
		if told := fmt.Sprintf(" %d bytes", len(cut)); !slices.ContainsFunc(warned, func(s string) bool {
			return strings.Contains(s, told) && strings.Contains(s, kept)
		}) {
			return wrong("%d bytes of %s were cut without a warning: %q", len(cut), f.name, warned)
		}
		j.torn.Add(1)
	}
	for name := range has {
		if _, ok := had[name]; !ok && expected[name] == "" {
			return wrong("%s was kept for no reason", name)
		}
	}
	if durable := aside(m.Crash(), ".torn"); len(expected) > 0 {
		for name, text := range expected {
			if durable[name] != text {
				return wrong("the kept bytes of %s are not durable", name)
			}
		}
	}
	return nil
}

// copyOf returns the name of the quarantine file for an offset, or "".
func copyOf(has map[string]string, id string, at int, cut string) string {
	for name, text := range has {
		if strings.HasPrefix(name, fmt.Sprintf("%s-%d.", id, at)) && text == cut {
			return name
		}
	}
	return ""
}

// goesOn writes to all sessions and crashes again.
func (j *judge) goesOn(m *vfs.Mem, d *sessionlog.Dir, all []*looked) error {
	after := sessionlog.Message{Role: "user", Content: "after the crash"}
	for _, f := range all {
		switch {
		case f.source:
			m, items, err := transcript(f.before)
			if err != nil {
				return wrong("the other reader: %v", err)
			}
			if id, _, err := d.Import(m, items); err != nil || id != f.id {
				return wrong("imported again: %s, %v", id, err)
			}
		case f.hurt:
			var seq int
			fmt.Sscanf(f.id, "hurt_user_%d", &seq)
			hurt, mended := hurtText(seq)
			did, err := d.Repair(f.id)
			if err != nil || (did.Copy == "") != (f.before == mended) {
				return wrong("repair %s: %+v, %v", f.id, did, err)
			}
			c := m.Crash()
			if got := read(c, f.path()); got != mended {
				return wrong("%s holds %q after a repair and a crash, want %q", f.id, got, mended)
			}
			if !slices.Contains(slices.Collect(maps.Values(aside(c, ".damaged"))), hurt) {
				return wrong("%s was repaired, and no copy of it is durable", f.id)
			}
		default:
			if err := f.l.Append(after); err != nil {
				return wrong("append to %s after a recovery: %v", f.id, err)
			}
		}
	}
	c := m.Crash()
	var warned []string
	d, err := openDir(c, 64, &warned)
	if err != nil {
		return wrong("open the folder again: %v", err)
	}
	infos, err := d.List()
	same := slices.Equal(sorted(infos, func(i sessionlog.Info) string { return i.ID }), sorted(all, func(f *looked) string { return f.id }))
	if err != nil || !same {
		return wrong("%d sessions after a recovery, writes and a crash, want %d: %v", len(infos), len(all), err)
	}
	for _, f := range all {
		if f.hurt {
			continue
		}
		want := f.after
		if f.l != nil {
			want += messageText(after) + "\n"
		}
		name := f.name
		if f.source { // importing it again may have given it the name that goes with its title
			name = infos[slices.IndexFunc(infos, func(i sessionlog.Info) bool { return i.ID == f.id })].File
		}
		if got := read(c, dir+"/"+name); got != want {
			return wrong("%s after a recovery, a write and a crash:\n%.300q\nwant\n%.300q", f.name, got, want)
		}
		if f.l != nil {
			l, err := d.Open(f.id)
			if err != nil {
				return wrong("open %s again: %v", f.id, err)
			}
			if _, err := l.Context(); err != nil {
				return wrong("context of %s again: %v", f.id, err)
			}
		}
		j.written.Add(1)
	}
	if len(warned) > 0 {
		return wrong("a second recovery mended something: %q", warned)
	}
	return nil
}

func sorted[T any](all []T, id func(T) string) (ids []string) {
	for _, x := range all {
		ids = append(ids, id(x))
	}
	slices.Sort(ids)
	return ids
}

// transcript compares an imported session with its source.
func transcript(text string) (sessionlog.Meta, []sessionlog.Item, error) {
	var m sessionlog.Meta
	line, _, _ := strings.Cut(text, "\n")
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		return m, nil, err
	}
	ref, err := sessionref.Read([]byte(text))
	if err != nil {
		return m, nil, err
	}
	var items []sessionlog.Item
	for _, r := range ref.Records {
		items = append(items, sessionlog.Item{Message: sessionlog.Message{Role: r.Message.Role, Content: r.Message.Content}})
	}
	return m, items, nil
}

// crashAgain recovers a machine and cuts its power at each call of the
// recovery: nothing was acknowledged meanwhile, and nothing may be lost.
func (j *judge) crashAgain(m *vfs.Mem, w *world, all []found) error {
	inner := newJudge()
	inner.goes = 8
	crash := crashtest.Recovery{Limit: 6, Idle: idle, Seen: &j.seen2,
		Image: func(m *vfs.Mem) uint64 {
			image, locks := imageOf(m)
			return image ^ locks
		},
		Check: func(m *vfs.Mem, _ uint64) error {
			got, err := inner.recover(m, nil, true)
			if err == nil {
				err = w.accepts(got, true)
			}
			return err
		}}
	m.Hook = func(c vfs.Call) error {
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

func read(m *vfs.Mem, name string) string { return string(crashtest.Read(m, name)) }

// aside returns the files of a folder in the sessions' folder.
func aside(m *vfs.Mem, folder string) map[string]string {
	return crashtest.Files(m, dir+"/"+folder, func(name string) bool { return name[0] != '.' })
}
