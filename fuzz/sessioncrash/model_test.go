package sessioncrash

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"crabmem/sessionlog"
)

var sumSeed = maphash.MakeSeed()

// sumOf is a text's without its blank lines: garbage may begin with a line end,
// which stays, and which every reader skips.
func sumOf(text string) uint64 {
	for strings.Contains(text, "\n\n") {
		text = strings.ReplaceAll(text, "\n\n", "\n")
	}
	return maphash.String(sumSeed, text)
}

// session is the permitted states of one session: its file contains a prefix of
// the issued lines. A session that is written at once, by an import or a
// repair, has versions instead.
type session struct {
	id     string
	must   bool // it is somewhere: its creation was acknowledged
	source string

	lines   []string // as they were issued, without \n
	acked   int      // so many are there while the machine runs
	durable int      // so many are there after a power cut
	batch   int      // from here on they are one write of several messages that must be durable; 0 = none is under way
	text    string   // all lines
	ends    []int    // ends[k] and sums[k] are of the first k lines
	sums    []uint64
	metas   []sessionlog.Meta // title and run time after the first k lines
	names   []named           // that the file was given
	name    int               // the first of them that it may have
	loose   bool              // it may keep any name, as somebody was told
	vague   bool              // a process was told that the outcome is unknown, and none has looked since

	versions []version

	live, trash bool // where it may be
	adrift      bool // the outcome of a move was unknown: a power cut may leave either place
	calls       []string
}

// named is a file name that line number at, from 0, gave.
type named struct {
	at   int
	name string
}

// version is a complete file.
type version struct{ name, text string }

func newSession(id string, meta string) *session {
	s := &session{id: id, live: true, ends: []int{0}, sums: []uint64{sumOf("")}, metas: []sessionlog.Meta{{}}}
	s.push(meta, "", 0)
	s.names = []named{{0, id + ".jsonl"}}
	return s
}

// push adds a line, with title and run time after it.
func (s *session) push(line, title string, uptime uint64) {
	s.lines = append(s.lines, line)
	s.text += line + "\n"
	s.ends = append(s.ends, len(s.text))
	s.sums = append(s.sums, sumOf(s.text))
	s.metas = append(s.metas, sessionlog.Meta{Title: title, UptimeSecs: uptime})
}

// message adds a line that changes neither title nor run time.
func (s *session) message(line string) {
	m := s.meta()
	s.push(line, m.Title, m.UptimeSecs)
}

// meta is title and run time after the last line.
func (s *session) meta() sessionlog.Meta { return s.metas[len(s.metas)-1] }

// cut takes the lines from the n-th on back.
func (s *session) cut(n int) {
	if len(s.versions) > 0 || n >= len(s.lines) {
		return
	}
	s.lines, s.text = s.lines[:n], s.text[:s.ends[n]]
	s.ends, s.sums, s.metas = s.ends[:n+1], s.sums[:n+1], s.metas[:n+1]
	for i := len(s.names) - 1; i > 0 && s.names[i].at >= n; i-- {
		s.names = s.names[:i]
	}
	s.name = min(s.name, len(s.names)-1)
	s.acked, s.durable, s.batch = min(s.acked, n), min(s.durable, n), 0
}

// prefix returns how many lines a file of this sum has, or -1.
func (s *session) prefix(sum uint64) int {
	for k := len(s.sums) - 1; k >= 0; k-- {
		if s.sums[k] == sum {
			return k
		}
	}
	return -1
}

// world is the permitted states of a folder of sessions.
type world struct {
	sessions []*session
	serial   int // makes every text another
	imports  int
}

func (w *world) find(id string) *session {
	for _, s := range w.sessions {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (w *world) remove(s *session) {
	for i, o := range w.sessions {
		if o == s {
			w.sessions = append(w.sessions[:i], w.sessions[i+1:]...)
			return
		}
	}
}

// content is n bytes that need no escapes and are no other's.
func (w *world) content(n int) string {
	w.serial++
	s := fmt.Sprintf("text %d of %d bytes. ", w.serial, n)
	return strings.Repeat(s, n/len(s)+1)[:max(n, 12)]
}

// The lines of a file, by the text of FORMAT.md and without the package's code.
// They need no escapes.

func metaText(agent, sender, title, source string) string {
	s := fmt.Sprintf(`{"agent":"%s","created_by":"%s","created_at":"%s","title":"%s","uptime_secs":0`, agent, sender, stamp, title)
	if source != "" {
		s += fmt.Sprintf(`,"source":"%s"`, source)
	}
	return s + "}"
}

func messageText(m sessionlog.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"role":"%s"`, m.Role)
	if m.Content != "" {
		fmt.Fprintf(&b, `,"content":"%s"`, m.Content)
	}
	if m.ToolCallID != "" {
		fmt.Fprintf(&b, `,"tool_call_id":"%s"`, m.ToolCallID)
	}
	for i, c := range m.ToolCalls {
		b.WriteString([]string{`,"tool_calls":[`, ","}[min(i, 1)])
		fmt.Fprintf(&b, `{"id":"%s","type":"function","function":{"name":"%s","arguments":"%s"}}`, c.ID, c.Function.Name, c.Function.Arguments)
	}
	if len(m.ToolCalls) > 0 {
		b.WriteString("]")
	}
	return b.String() + "}"
}

func markerText(summary string) string { return fmt.Sprintf(`{"compact":"%s"}`, summary) }

func recordText(title string, uptime uint64) string {
	return fmt.Sprintf(`{"meta":{"title":"%s","uptime_secs":%d}}`, title, uptime)
}

// found is how a session was found.
type found struct {
	id, name string
	trash    bool
	sum      uint64 // of its file, once it is mended
	size     int
	flawed   uint64 // sum of what is before the first bad line that stayed
	at       int    // its length
}

// accepts reports whether the world permits a state: after a power cut, or
// while the machine runs.
func (w *world) accepts(all []found, power bool) error {
	seen := map[string]bool{}
	for _, f := range all {
		s := w.find(f.id)
		if s == nil {
			return wrong("%s exists, but was not created", f.name)
		}
		if seen[f.id] {
			return wrong("%s is there twice, again as %s", f.id, f.name)
		}
		seen[f.id] = true
		if err := s.accepts(f, power); err != nil {
			return err
		}
	}
	for _, s := range w.sessions {
		if s.must && !seen[s.id] {
			return wrong("%s was acknowledged but is missing", s.id)
		}
	}
	return nil
}

func (s *session) accepts(f found, power bool) error {
	if (f.trash && !s.trash || !f.trash && !s.live) && !(power && s.adrift) {
		return wrong("%s is in the wrong place (in the trash: %v)", f.id, f.trash)
	}
	if len(s.versions) > 0 {
		named, right := false, false
		for _, v := range s.versions {
			named = named || v.name == f.name
			right = right || sumOf(v.text) == f.sum
		}
		if !named || !right {
			return wrong("%s (named right: %v) holds %d bytes that are none of %d versions (of them: %v)", f.name, named, f.size, len(s.versions), right)
		}
		return nil
	}
	least := max(1, s.acked)
	if power {
		least = max(1, s.durable)
	}
	k := s.prefix(f.sum)
	if f.at > 0 {
		// A tear inside a write of several messages.
		if !power || s.batch == 0 || s.prefix(f.flawed) < s.batch {
			return wrong("%s has a bad line after %d bytes", f.name, f.at)
		}
		return nil
	}
	if k < least {
		return wrong("%s holds %d bytes, %d lines (-1 = none of its); %d were acknowledged, %d durable, %d issued", f.name, f.size, k, s.acked, s.durable, len(s.lines))
	}
	for _, n := range s.names[s.name:] {
		if n.name == f.name && n.at < k {
			return nil
		}
	}
	return wrong("%s, of %d lines, may not have the name %s (of %v from %d on)", f.id, k, f.name, s.names, s.name)
}

// settle makes the found state the present one. After a kill it may differ from
// the state after a power cut.
func (w *world) settle(all []found, power bool) {
	there := map[string]found{}
	for _, f := range all {
		there[f.id] = f
	}
	for _, s := range slices.Clone(w.sessions) {
		f, ok := there[s.id]
		if !ok {
			w.remove(s)
			continue
		}
		s.batch = 0
		if power {
			s.must, s.live, s.trash, s.adrift = true, !f.trash, f.trash, false
		}
		if len(s.versions) == 0 {
			k := s.prefix(f.sum)
			s.cut(k)
			s.acked = k // and durable when it is opened
		} else if power {
			i := slices.IndexFunc(s.versions, func(v version) bool { return sumOf(v.text) == f.sum })
			s.versions = []version{{f.name, s.versions[i].text}}
		}
	}
}
