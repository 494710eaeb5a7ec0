package chat

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
)

// assembler assembles the tool calls of a response from their fragments. A
// known ID decides to which call a fragment belongs, else the index, else the
// fragment belongs to the last call. Endpoints repeat IDs, indices, names and
// arguments in many ways: an ambiguous fragment may make the arguments of a
// call invalid, but never adds a call.
type assembler struct {
	calls []*call
	ids   map[string]*call // latest call of an ID
	index map[int]*call    // latest call of an index
	last  *call            // of the last fragment
	event int              // number of the current event
}

// call is a tool call whose fragments arrive.
type call struct {
	id, kind, name string
	made           string // ID if the endpoint sends none
	event          int    // in which the call begins
	doubtful       bool   // the call may repeat one of an earlier event
	renewed        bool   // the call begins in place of one of the same name
	unnumbered     bool   // the call begins without an index; its position counts
	formed         string // of form
	arguments      argumentText
}

// add adds a fragment. It returns by how many bytes the arguments of the call
// have grown.
func (a *assembler) add(t *toolCall) (int, error) {
	c := a.continued(t)
	if c == nil {
		if len(a.calls) == maxCalls {
			return 0, permanent("the response has more than %d tool calls; the call was canceled", maxCalls)
		}
		c = a.begin(t)
	}
	a.last = c
	if t.ID != "" && (c.id == "" || c.id == t.ID) {
		c.id, a.ids[t.ID] = t.ID, c
	}
	replace(&c.kind, t.Type)
	replace(&c.name, t.Function.Name)
	before := len(c.arguments.text)
	c.arguments.add(string(t.Function.Arguments))
	if len(c.arguments.text) > maxArguments {
		return 0, permanent("the arguments of a tool call have more than %d bytes; the model call was canceled", maxArguments)
	}
	return len(c.arguments.text) - before, nil
}

// at returns the call with the index of a fragment, or the last call if the
// fragment has no index. If the last call began without an index and is not
// finished, a fragment without ID does not continue another complete call.
func (a *assembler) at(t *toolCall) *call {
	if !t.Index.ok {
		return a.last
	}
	c := a.index[t.Index.n]
	if c == nil || t.ID != "" || !a.last.unnumbered || a.last.arguments.finished() || !c.arguments.complete() {
		return c
	}
	if t.Function.Name == c.name && canonical(string(t.Function.Arguments)) == canonical(string(c.arguments.text)) {
		return c // a repetition
	}
	return a.last
}

// continued returns the call that a fragment continues, or nil if the fragment
// begins a call.
func (a *assembler) continued(t *toolCall) *call {
	known, here := a.ids[t.ID], a.at(t)
	name, text := t.Function.Name, string(t.Function.Arguments)
	switch {
	case known != nil:
		if known.another(t, here == nil) {
			return nil
		}
		return known
	case name == "" && here == nil:
		if t.ID != "" && (a.last == nil || a.last.arguments.finished()) {
			return nil // the name follows
		}
		return a.last
	case name == "":
		return here
	case isTail(text) && a.last != nil:
		return cmp.Or(here, a.last)
	case here == nil, t.ID != "" && here.id != "", here.name != "" && here.name != name:
		return nil
	case !here.arguments.finished() && (here.event < a.event || t.ID != "" || here.id != "" || string(here.arguments.text) != "{}"):
		return here // without IDs, {} may be a call if another one follows in the event
	case here.id != "" && t.Index.ok:
		return here // other calls of this endpoint have an ID
	case text == "" && (t.ID != "" || here.id != ""):
		return here
	}
	return nil
}

// another reports whether a fragment with the ID of a call begins another
// call. Some endpoints give all calls the same ID. newIndex means that no call
// has the index of the fragment.
func (c *call) another(t *toolCall, newIndex bool) bool {
	name, text := t.Function.Name, string(t.Function.Arguments)
	switch {
	case name == "" || c.name == "" || isTail(text):
		return false
	case name == c.name:
		return newIndex && c.arguments.finished() && text != ""
	}
	grown := strings.HasPrefix(name, c.name) && len(c.arguments.text) == 0
	return newIndex || !grown
}

// begin adds a call. It is doubtful if the fragment has neither a new ID nor a
// new index.
func (a *assembler) begin(t *toolCall) *call {
	if a.ids == nil {
		a.ids, a.index = make(map[string]*call), make(map[int]*call)
	}
	known, here := a.ids[t.ID], a.at(t)
	c := &call{event: a.event}
	if known != nil {
		c.id = t.ID
		c.doubtful = known.name == t.Function.Name
	}
	if here != nil && (t.ID == "" || here.id == "" || known != nil) {
		c.doubtful, c.renewed = true, here.name == t.Function.Name
	}
	if t.Index.ok {
		a.index[t.Index.n] = c
	} else {
		c.unnumbered = true
		n := 0
		for _, e := range a.calls {
			if !e.renewed {
				n++
			}
		}
		if a.index[n] == nil {
			a.index[n] = c
		}
	}
	a.calls = append(a.calls, c)
	return c
}

// announced returns the first call without its arguments, or nil. Later calls
// may turn out to repeat an earlier one.
func (a *assembler) announced() []CallDelta {
	if len(a.calls) == 0 || a.calls[0].name == "" {
		return nil
	}
	c := a.calls[0]
	return []CallDelta{{ID: c.callID(), Type: c.kind, Name: c.name}}
}

// assembled returns the calls. The arguments of each are one JSON object,
// empty, or invalid.
func (a *assembler) assembled() []CallDelta {
	var list []CallDelta
	var kept []*call
	for _, c := range a.calls {
		text := c.arguments.result()
		blank := strings.TrimSpace(text) == ""
		repeats := func(e *call) bool {
			return e.event < c.event && e.name == c.name && (c.id == "" || e.id == "" || c.id == e.id) && e.form() == c.form()
		}
		if blank && (c.name == "" || c.doubtful && c.renewed) || c.doubtful && slices.ContainsFunc(kept, repeats) {
			continue
		}
		kept = append(kept, c)
		list = append(list, CallDelta{Index: len(list), ID: c.callID(), Type: c.kind, Name: c.name, Arguments: text})
	}
	return list
}

// form returns the arguments in the form in which calls are compared.
func (c *call) form() string {
	if c.formed == "" {
		c.formed = canonical(c.arguments.result())
	}
	return c.formed
}

func (c *call) callID() string {
	if c.id != "" {
		return c.id
	}
	if c.made == "" {
		c.made = callID("")
	}
	return c.made
}

// callID names a call that the endpoint did not, so that its result can.
func callID(id string) string {
	if id == "" {
		return "call_" + rand.Text()
	}
	return id
}

// argumentText is the text of a call's arguments. A fragment is appended, or it
// begins with all text so far and replaces it.
type argumentText struct {
	text     []byte
	open     balance
	replaced bool // a fragment replaced the text
	added    bool // a fragment was added to the text

	all     []byte // if replaced: all fragments, or nil if too long
	allOpen balance
}

func (t *argumentText) add(fragment string) {
	if fragment == "" {
		return
	}
	if isPlaceholder(string(bytes.TrimSpace(t.text))) && fragment[0] == '{' {
		*t = argumentText{}
	}
	more, n := fragment, len(t.text)
	if n > 0 && n <= len(fragment) && t.text[0] == '{' && fragment[:n] == string(t.text) {
		more = fragment[n:]
		if !t.replaced {
			t.all, t.allOpen, t.replaced = bytes.Clone(t.text), t.open, true
		}
	} else if n > 0 {
		t.added = true
	}
	if t.all != nil {
		if t.all = append(t.all, fragment...); len(t.all) > maxArguments {
			t.all = nil
		}
	}
	t.allOpen.add(fragment)
	t.text = append(t.text, more...)
	t.open.add(more)
}

// balance counts the open brackets of a text.
type balance struct {
	depth          int
	quoted, escape bool // the text ends in a string, after a backslash
}

func (b *balance) add(text string) {
	for i := range len(text) {
		switch c := text[i]; {
		case b.escape:
			b.escape = false
		case b.quoted:
			b.quoted, b.escape = c != '"', c == '\\'
		case c == '"':
			b.quoted = true
		case c == '{', c == '[':
			b.depth++
		case c == '}', c == ']':
			b.depth--
		}
	}
}

func (b *balance) closed() bool { return b.depth == 0 && !b.quoted }

// complete reports whether the text is not empty and no bracket or string is
// open. If some fragments replaced the text, and others were added to it, that
// must also hold for all fragments in a row. It is enough if these are an object:
// a fragment that equals the text so far may be the next part.
func (t *argumentText) complete() bool {
	if len(t.text) > 0 && t.open.closed() && (!t.replaced || !t.added || t.allOpen.closed()) {
		return true
	}
	return len(t.all) > 0 && t.allOpen.closed() && json.Valid(t.all)
}

// isTail reports whether a fragment cannot begin arguments.
func isTail(text string) bool {
	text = strings.TrimSpace(text)
	return text != "" && text[0] != '{' && !isPlaceholder(text)
}

// finished reports whether the text is complete and not a placeholder that
// other arguments may replace.
func (t *argumentText) finished() bool {
	return t.complete() && !isPlaceholder(string(bytes.TrimSpace(t.text)))
}

func isPlaceholder(text string) bool { return text == "{}" || text == "null" || text == `""` }

// result returns the arguments. If the fragments do not yield one object, the
// result is all of them.
func (t *argumentText) result() string {
	for _, text := range [][]byte{t.all, t.text} {
		if object, ok := oneObject(text); ok {
			return object
		}
	}
	if t.all != nil {
		return string(t.all)
	}
	return string(t.text)
}

// oneObject returns the only object of a sequence of JSON values. The others
// may be equal to it or empty, and precede or follow it.
func oneObject(text []byte) (object string, ok bool) {
	if t := bytes.TrimSpace(text); len(t) > 0 && t[0] == '{' && json.Valid(text) {
		return string(text), true
	}
	d := json.NewDecoder(bytes.NewReader(text))
	form := ""
	for {
		var v json.RawMessage
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return object, ok
		case err != nil:
			return "", false
		}
		c := canonical(string(v))
		empty := isPlaceholder(c)
		switch {
		case !empty && v[0] != '{', !empty && form != "" && c != form:
			return "", false
		case !empty && form == "":
			object, form, ok = string(v), c, true
		case form == "" && c == "{}":
			object, ok = "{}", true
		}
	}
}

// canonical returns JSON text with its members in order, or the text if it is
// not one JSON value.
func canonical(text string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil || d.More() {
		return text
	}
	b, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return string(b)
}
