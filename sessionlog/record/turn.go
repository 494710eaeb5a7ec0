package record

import (
	"bytes"
	"encoding/json"
)

// The beginnings of turn records (FORMAT.md, S30).
const (
	TurnText   = `{"turn":{"text":`
	TurnFailed = `{"turn":{"failed":`
)

// Turn is a turn record: a part of the text of a response, or the failure of a
// turn.
type Turn struct {
	Text string // if Kind is ""
	// Kind is the kind of the failure, and Error its message.
	Kind, Error string
}

// ParseTurn decodes an unknown record. It returns false if the record is not a
// turn record.
func ParseTurn(line []byte) (t Turn, ok bool) {
	if !bytes.HasPrefix(line, []byte(TurnText)) && !bytes.HasPrefix(line, []byte(TurnFailed)) {
		return t, false
	}
	var v struct {
		Turn struct{ Text, Failed, Error *string }
	}
	if json.Unmarshal(line, &v) != nil {
		return t, false
	}
	switch w := v.Turn; {
	case w.Text != nil && w.Failed == nil && w.Error == nil:
		return Turn{Text: *w.Text}, true
	case w.Text == nil && w.Failed != nil && *w.Failed != "" && w.Error != nil:
		return Turn{Kind: *w.Failed, Error: *w.Error}, true
	}
	return t, false
}
