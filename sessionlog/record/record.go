// Package record names the values in the records of a session file: the kinds of
// lines, the roles of messages, the form of times, and the errors of bad lines.
package record

import (
	"fmt"
	"time"
)

// Kind is the kind of a line.
type Kind uint8

// Kinds of lines.
const (
	KindBlank      Kind = iota // only white space
	KindBad                    // invalid: the line has an error
	KindMeta                   // line 1: agent, sender, and time
	KindMessage                // a message
	KindMarker                 // a compaction marker
	KindMetaRecord             // a title and a run time
	KindUnknown                // an object of another program
	KindCopy                   // a message before a marker, repeated after it (S42)
)

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

var kindNames = [...]string{"blank", "bad", "meta", "message", "marker", "meta record", "unknown", "copy"}

// Roles of messages. A message may have any other.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// Timestamp formats a time for created_at: in UTC, with 0, 3, 6, or 9 decimals.
func Timestamp(t time.Time) string {
	t = t.UTC()
	layout := "2006-01-02T15:04:05.000000000-07:00"
	switch ns := t.Nanosecond(); {
	case ns == 0:
		layout = "2006-01-02T15:04:05-07:00"
	case ns%1_000_000 == 0:
		layout = "2006-01-02T15:04:05.000-07:00"
	case ns%1_000 == 0:
		layout = "2006-01-02T15:04:05.000000-07:00"
	}
	return t.Format(layout)
}
