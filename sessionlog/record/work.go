package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The kinds of work records (FORMAT.md, S36).
const (
	WorkStart  = "start"
	WorkState  = "state"
	WorkEnd    = "end"
	WorkRoute  = "route"
	WorkOpen   = "open"
	WorkAsk    = "ask"
	WorkAnswer = "answer"
	WorkUse    = "use"
	WorkFlush  = "flush"
)

// The kinds of work. The first letter begins the IDs.
const (
	Branch = "branch"
	Worker = "worker"
)

// The states of work.
const (
	Running = "running"
	Waiting = "waiting"
	Done    = "done"
	Failed  = "failed"
)

// Purged replaces a string that contains a purged text (S34).
const Purged = "[purged]"

// Limits of work records, in bytes, and of the items of an open record.
const (
	MaxTask     = 32 << 10
	MaxRoute    = 32 << 10
	MaxResult   = 16 << 10
	MaxScope    = 64 << 10
	MaxQuestion = 16 << 10
	MaxNotes    = 8
	MaxNote     = 2 << 10 // of the content
	maxWorkName = 4 << 10
	maxReason   = 64
	maxOpen     = 10_000
	maxKeys     = 1000
	maxKey      = 32
	maxWork     = 1 << 30 // of a number
)

// Work is a work record, or an item of an open record: its start, with N set to the
// number of its outcomes that were delivered.
type Work struct {
	ID          string          `json:"id,omitempty"`
	Op          string          `json:"op,omitempty"`
	N           int             `json:"n,omitempty"`
	Kind        string          `json:"kind,omitempty"`
	Agent       string          `json:"agent,omitempty"`
	Session     string          `json:"session,omitempty"`
	Task        string          `json:"task,omitempty"`
	Interactive bool            `json:"interactive,omitempty"`
	Scope       json.RawMessage `json:"scope,omitempty"`
	From        *WorkFrom       `json:"from,omitempty"`
	State       string          `json:"state,omitempty"`
	Attempt     int             `json:"attempt,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Text        string          `json:"text,omitempty"`
	Next        *WorkNext       `json:"next,omitempty"`
	Items       []Work          `json:"items,omitempty"`
	To          string          `json:"to,omitempty"`
	Call        string          `json:"call,omitempty"`
	Options     []string        `json:"options,omitempty"`
	Answer      string          `json:"answer,omitempty"`
	Ask         *Work           `json:"ask,omitempty"`
	Upto        int64           `json:"upto,omitempty"`
	Notes       []Note          `json:"notes,omitempty"`
	At          string          `json:"at,omitempty"`
}

// Note is a note of a flush (S43).
type Note struct {
	Name    string   `json:"name"`
	Content string   `json:"content"`
	Aliases []string `json:"aliases,omitzero"` // nil keeps those of the note
	Was     string   `json:"was,omitempty"`    // SHA-256 of the note's earlier content, in hexadecimal; "": there was no note
}

// check reports whether the note is within the limits.
func (n *Note) check() bool {
	return text(n.Name, 1, maxWorkName) && text(n.Content, 0, MaxNote) && text(n.Was, 0, maxReason) && len(n.Aliases) <= maxKeys &&
		!slices.ContainsFunc(n.Aliases, func(a string) bool { return !text(a, 1, maxWorkName) })
}

// WorkFrom is the line of the parent after which work continues its messages.
type WorkFrom struct {
	Line int64  `json:"line"`
	CRC  uint32 `json:"crc"` // CRC-32C of the line
}

// NewWorkFrom returns the place after a line, which has no line end.
func NewWorkFrom(number int64, line []byte) *WorkFrom {
	return &WorkFrom{number, crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli))}
}

// WorkNext contains the numbers of the next branch and the next worker.
type WorkNext struct {
	B int `json:"b"`
	W int `json:"w"`
}

var workPrefix = []byte(`{"work":{`)

// IsWork reports whether an unknown record has the beginning of a work record.
func IsWork(line []byte) bool { return bytes.HasPrefix(line, workPrefix) }

// ParseWork decodes an unknown record. It returns false if the record is not a valid
// work record.
func ParseWork(line []byte) (w Work, ok bool) {
	if !IsWork(line) {
		return w, false
	}
	v := struct{ Work *Work }{&w}
	if json.Unmarshal(line, &v) != nil || w.check() != nil {
		return Work{}, false
	}
	return w, true
}

// AppendLine appends the record as a line, with its line end. The error states which
// limit the record exceeds.
func (w *Work) AppendLine(dst []byte) ([]byte, error) {
	if err := w.check(); err != nil {
		return dst, err
	}
	b := bytes.NewBuffer(dst)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		Work *Work `json:"work"`
	}{w})
	return b.Bytes(), err
}

// check checks the limits of a record (S36).
func (w *Work) check() error {
	ok := false
	switch w.Op {
	case WorkStart:
		return w.checkStart()
	case WorkState:
		ok = isState(w.State) && number(w.Attempt)
	case WorkEnd:
		ok = number(w.N) && isState(w.State) && w.State != Running && text(w.Reason, 1, maxReason) && text(w.Text, 0, MaxResult)
	case WorkRoute, WorkAnswer:
		ok = number(w.N) && text(w.Text, 1, MaxRoute)
	case WorkAsk:
		ok = w.isAsk()
	case WorkUse:
		ok = number(w.N) && text(w.Call, 0, maxReason)
	case WorkFlush:
		ok = number(w.N) && w.Upto > 0 && len(w.Scope) <= MaxScope && len(w.Notes) <= MaxNotes && !slices.ContainsFunc(w.Notes, func(n Note) bool { return !n.check() })
	case WorkOpen:
		if ok = w.Next != nil && number(w.Next.B) && number(w.Next.W) && len(w.Items) <= maxOpen && w.N >= 0 && (w.Ask == nil || w.Ask.isAsk()); ok {
			for i := range w.Items {
				if err := w.Items[i].checkStart(); err != nil {
					return err
				}
			}
		}
	}
	if !ok || !text(w.At, 0, maxReason) {
		return fmt.Errorf("work record %q exceeds a limit: result %d bytes, message %d bytes, question %d bytes, note %d bytes", w.Op, MaxResult, MaxRoute, MaxQuestion, MaxNote)
	}
	return nil
}

// isAsk checks the limits of a question.
func (w *Work) isAsk() bool {
	return number(w.N) && text(w.Text, 1, MaxQuestion) && text(w.To, 0, maxWorkName) && text(w.Call, 0, maxReason) && text(w.Answer, 0, MaxRoute) &&
		len(w.Options) <= maxKeys && !slices.ContainsFunc(w.Options, func(o string) bool { return !text(o, 1, maxReason) })
}

func (w *Work) checkStart() error {
	kind, n := SplitWorkID(w.ID)
	if n == 0 || kind != w.Kind || w.N < 0 || !text(w.Agent, 1, maxWorkName) || !text(w.Session, 1, maxWorkName) ||
		!text(w.Task, 0, MaxTask) || len(w.Scope) > MaxScope || !text(w.At, 0, maxReason) || w.From != nil && w.From.Line < 1 {
		return fmt.Errorf("start of work %.40q exceeds a limit: task %d bytes, scope %d bytes", w.ID, MaxTask, MaxScope)
	}
	return nil
}

func isState(s string) bool { return slices.Contains([]string{Running, Waiting, Done, Failed}, s) }

func number(n int) bool { return 0 < n && n <= maxWork }

func text(s string, least, most int) bool {
	return least <= len(s) && len(s) <= most && utf8.ValidString(s)
}

// WorkID returns the ID of the n-th work of a kind.
func WorkID(kind string, n int) string { return kind[:1] + strconv.Itoa(n) }

// SplitWorkID returns the kind and the number of an ID. The number is 0 if the ID is
// invalid.
func SplitWorkID(id string) (kind string, n int) {
	for _, kind := range []string{Branch, Worker} {
		if digits, ok := strings.CutPrefix(id, kind[:1]); ok {
			if n, err := strconv.Atoi(digits); err == nil && number(n) && WorkID(kind, n) == id {
				return kind, n
			}
		}
	}
	return "", 0
}

// ValidWorkKeys reports whether a user message may contain keys in its list work (S38).
func ValidWorkKeys(keys []string) bool {
	return len(keys) <= maxKeys && !slices.ContainsFunc(keys, func(key string) bool {
		return key == "" || len(key) > maxKey || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789.") != ""
	})
}

// WorkKeys returns the list work of the line of a user message.
func WorkKeys(line []byte) []string {
	if !bytes.Contains(line, []byte(`"work":[`)) {
		return nil
	}
	var v struct{ Work []string }
	if json.Unmarshal(line, &v) != nil || !ValidWorkKeys(v.Work) {
		return nil
	}
	return v.Work
}

// OpenWork is the work of a session that may owe an outcome (S39), and the session's open
// question (S41).
type OpenWork struct {
	Next  WorkNext
	Items []Work // in the order of their starts
	Asks  int    // number of questions
	Ask   *Work  // with its answer; nil: no question is open. It does not change
}

// Record returns the open record.
func (o *OpenWork) Record() Work {
	c := o.Clone()
	return Work{Op: WorkOpen, Next: &c.Next, Items: c.Items, N: c.Asks, Ask: c.Ask}
}

// Add applies a work record of the session.
func (o *OpenWork) Add(w Work) {
	switch w.Op {
	case WorkStart:
		w.Op = ""
		if o.use(w.ID) {
			o.Items = append(o.Items, w)
		}
	case WorkOpen:
		o.Items = slices.Clone(w.Items)
		o.Next = WorkNext{max(o.Next.B, w.Next.B), max(o.Next.W, w.Next.W)}
		o.Asks, o.Ask = max(o.Asks, w.N), w.Ask
	case WorkAsk:
		if w.Op = ""; w.N > o.Asks {
			o.Asks, o.Ask = w.N, &w
		}
	case WorkAnswer:
		if o.Ask != nil && o.Ask.N == w.N && o.Ask.Answer == "" {
			a := *o.Ask
			a.Answer = w.Text
			o.Ask = &a
		}
	case WorkUse, WorkEnd:
		o.Ask = nil
	}
}

// use makes an ID the last one of its kind. It returns false if the ID is not above
// those before it.
func (o *OpenWork) use(id string) bool {
	kind, n := SplitWorkID(id)
	next := &o.Next.B
	if kind == Worker {
		next = &o.Next.W
	}
	if *next = max(*next, 1); n < *next {
		return false
	}
	*next = n + 1
	return true
}

// AskID returns the ID of the n-th question of a session.
func AskID(n int) string { return fmt.Sprint("q", n) }

// IsAnswer reports whether a key in the list work of a user message is an answer.
func IsAnswer(key string) bool { return strings.HasPrefix(key, "q") }

// IsCron reports whether a key is that of a cron entry's run: c, the entry's ID, a dot, and the
// run's Unix time.
func IsCron(key string) bool {
	id, at, ok := strings.Cut(strings.TrimPrefix(key, "c"), ".")
	return ok && key[0] == 'c' && id != "" && at != "" && strings.Trim(id+at, "0123456789") == ""
}

// Deliver applies the list work of a user message. A delivered outcome closes work that
// is not interactive, and a delivered answer closes its question.
func (o *OpenWork) Deliver(keys []string) {
	for _, key := range keys {
		id, digits, _ := strings.Cut(key, ".")
		if o.Ask != nil && id == AskID(o.Ask.N) {
			o.Ask = nil
		}
		n, _ := strconv.Atoi(digits)
		i := slices.IndexFunc(o.Items, func(w Work) bool { return w.ID == id })
		if i < 0 || n <= o.Items[i].N {
			continue
		}
		if o.Items[i].N = n; !o.Items[i].Interactive {
			o.Items = slices.Delete(o.Items, i, i+1)
		}
	}
}

// Clone returns a copy that later changes do not affect. Next counts from 1.
func (o *OpenWork) Clone() OpenWork {
	c := *o
	c.Next, c.Items = WorkNext{cmp.Or(o.Next.B, 1), cmp.Or(o.Next.W, 1)}, slices.Clone(o.Items)
	return c
}
