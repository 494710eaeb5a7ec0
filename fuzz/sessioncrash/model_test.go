package sessioncrash

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"crabmem/sessionlog"
)

var sumSeed = maphash.MakeSeed()

// sumOf returns a hash of a text without its blank lines. A torn tail may begin
// with a line end, which recovery keeps as a blank line and readers skip.
func sumOf(text string) uint64 {
	for strings.Contains(text, "\n\n") {
		text = strings.ReplaceAll(text, "\n\n", "\n")
	}
	return maphash.String(sumSeed, text)
}

// session is the set of permitted states of one session. Its file contains a
// prefix of the issued lines. A session that an import or a repair replaces
// atomically has versions instead.
type session struct {
	id      string
	created bool   // its creation was acknowledged, so the session must exist
	source  string // of an import

	lines   []string          // issued lines, without \n
	acked   int               // minimum number of lines in the page cache
	durable int               // minimum number of lines after a power cut
	batch   int               // lines from here on are one durable write of several messages in progress; 0: no such write
	text    string            // all lines
	ends    []int             // ends[k] is the size of the first k lines
	sums    []uint64          // sums[k] is the sum of the first k lines
	metas   []sessionlog.Meta // metas[k] has the title and the run time after the first k lines
	tails   map[int][]string  // messages that the marker in a line keeps, as flat returns them
	names   []named           // file names in the order of their titles
	name    int               // index of the first name that the file may have
	anyName bool              // a warning reported that the file may keep an earlier name
	unknown bool              // the outcome of a write is unknown, and no process has opened the file since

	versions []version // permitted contents

	live, trash bool     // whether it may be in the folder, and in the trash
	moveUnknown bool     // the outcome of a move is unknown: after a power cut both places are permitted
	calls       []string // IDs of pending tool calls
}

// named is a file name that follows from the title in line at, counted from 0.
type named struct {
	at   int
	name string
}

// version is a complete file.
type version struct{ name, text string }

func newSession(id string, meta string) *session {
	s := &session{id: id, live: true, tails: map[int][]string{}, ends: []int{0}, sums: []uint64{sumOf("")}, metas: []sessionlog.Meta{{}}}
	s.push(meta, "", 0)
	s.names = []named{{0, id + ".jsonl"}}
	return s
}

// push adds a line. title and uptime are the values after the line.
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

// meta returns the title and the run time after the last line.
func (s *session) meta() sessionlog.Meta { return s.metas[len(s.metas)-1] }

// cut removes the lines after the first n.
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

// prefix returns the number of lines of the prefix with this sum, or -1.
func (s *session) prefix(sum uint64) int {
	for k := len(s.sums) - 1; k >= 0; k-- {
		if s.sums[k] == sum {
			return k
		}
	}
	return -1
}

// world is the set of permitted states of a folder of sessions.
type world struct {
	sessions []*session
	serial   int // of the last text; makes texts unique
	imports  int // messages in the imported transcript
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

// content returns a unique text of n bytes, at least 12, without characters that
// JSON escapes.
func (w *world) content(n int) string {
	w.serial++
	s := fmt.Sprintf("text %d of %d bytes. ", w.serial, n)
	return strings.Repeat(s, n/len(s)+1)[:max(n, 12)]
}

// The functions below return lines of a session file. They implement FORMAT.md
// without sessionlog, for texts without escapes.

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

// keptText returns a marker that keeps n messages.
func keptText(summary string, n int) string {
	if n == 0 {
		return markerText(summary)
	}
	return fmt.Sprintf(`{"compact":"%s","keep":%d}`, summary, n)
}

func recordText(title string, uptime uint64) string {
	return fmt.Sprintf(`{"meta":{"title":"%s","uptime_secs":%d}}`, title, uptime)
}

func pieceText(text string) string { return fmt.Sprintf(`{"turn":{"text":"%s"}}`, text) }

func resultText(text string) string {
	return fmt.Sprintf(`{"work":{"op":"end","n":1,"state":"done","reason":"outcome","text":"%s"}}`, text)
}

func failureText(kind, message string) string {
	return fmt.Sprintf(`{"turn":{"failed":"%s","error":"%s"}}`, kind, message)
}

// found is a session after a recovery.
type found struct {
	id, name string
	trash    bool
	sum      uint64 // of the recovered file
	size     int    // of the recovered file
	prefix   uint64 // sum of the bytes before the first bad line that recovery kept
	at       int    // offset of that line; 0: no such line

	context []string // messages as flat returns them
}

// accepts returns an error if the world does not permit a state. The state is that
// after a power cut or, if power is false, after a kill.
func (w *world) accepts(all []found, power bool) error {
	seen := map[string]bool{}
	for _, f := range all {
		s := w.find(f.id)
		if s == nil {
			return wrong("%s exists, but was not created", f.name)
		}
		if seen[f.id] {
			return wrong("%s exists twice, the second time as %s", f.id, f.name)
		}
		seen[f.id] = true
		if err := s.accepts(f, power); err != nil {
			return err
		}
	}
	for _, s := range w.sessions {
		if s.created && !seen[s.id] {
			return wrong("%s was acknowledged but is missing", s.id)
		}
	}
	return nil
}

// accepts returns an error if the session's state is not permitted.
func (s *session) accepts(f found, power bool) error {
	if (f.trash && !s.trash || !f.trash && !s.live) && !(power && s.moveUnknown) {
		return wrong("%s is in the wrong place (in the trash: %v)", f.id, f.trash)
	}
	if len(s.versions) > 0 {
		nameOK, textOK := false, false
		for _, v := range s.versions {
			nameOK = nameOK || v.name == f.name
			textOK = textOK || sumOf(v.text) == f.sum
		}
		if !nameOK || !textOK {
			return wrong("%s (%d bytes) is not one of %d versions: name permitted: %v, content permitted: %v", f.name, f.size, len(s.versions), nameOK, textOK)
		}
		return nil
	}
	least := max(1, s.acked)
	if power {
		least = max(1, s.durable)
	}
	k := s.prefix(f.sum)
	if f.at > 0 {
		// The file has a tear inside a write of several messages.
		if !power || s.batch == 0 || s.prefix(f.prefix) < s.batch {
			return wrong("%s has a bad line after %d bytes", f.name, f.at)
		}
		return nil
	}
	if k < least {
		return wrong("%s contains %d bytes, %d lines (-1: not a prefix of the issued lines); acknowledged: %d, durable: %d, issued: %d", f.name, f.size, k, s.acked, s.durable, len(s.lines))
	}
	if err := s.acceptsTail(f, k); err != nil {
		return err
	}
	for _, n := range s.names[s.name:] {
		if n.name == f.name && n.at < k {
			return nil
		}
	}
	return wrong("%s (%d lines) must not have the name %s; permitted: %v from index %d on", f.id, k, f.name, s.names, s.name)
}

// acceptsTail returns an error if the context of a file with k lines lacks a message that
// its last marker keeps.
func (s *session) acceptsTail(f found, k int) error {
	marker := 0
	for i, line := range s.lines[:k] {
		if strings.HasPrefix(line, `{"compact":`) {
			marker = i
		}
	}
	if want := s.tails[marker]; len(want) > 0 && (len(f.context) <= len(want) || !slices.Equal(want, f.context[1:1+len(want)])) {
		return wrong("%s: the marker in line %d keeps %.200q; context: %.200q", f.name, marker+1, want, f.context)
	}
	return nil
}

// settle makes the found state the expected one. After a kill, a power cut may
// still change the state, so settle keeps the alternatives.
func (w *world) settle(all []found, power bool) {
	byID := map[string]found{}
	for _, f := range all {
		byID[f.id] = f
	}
	for _, s := range slices.Clone(w.sessions) {
		f, ok := byID[s.id]
		if !ok {
			w.remove(s)
			continue
		}
		s.batch = 0
		if power {
			s.created, s.live, s.trash, s.moveUnknown = true, !f.trash, f.trash, false
		}
		if len(s.versions) == 0 {
			k := s.prefix(f.sum)
			s.cut(k)
			s.acked = k // the next open makes the lines durable
		} else if power {
			i := slices.IndexFunc(s.versions, func(v version) bool { return sumOf(v.text) == f.sum })
			s.versions = []version{{f.name, s.versions[i].text}}
		}
	}
}
