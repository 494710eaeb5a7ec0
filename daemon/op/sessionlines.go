package op

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"crabmem/daemon/errtable"
	"crabmem/sessionlog/record"
)

// SessionPage selects lines of a session.
type SessionPage struct {
	SessionID
	Limit      int   `json:"limit,omitempty" jsonschema:"items of a page, at least 1; absent: 50" op:"default=50,min=1,max=200"` // 0: no limit
	After      int64 `json:"after,omitempty" jsonschema:"only lines with a higher number" op:"max=1073741824"`
	FromMarker bool  `json:"from_marker,omitempty" jsonschema:"true: begin at the last summary"`
}

// SessionLines is a page of the lines of a session.
type SessionLines struct {
	Session Session       `json:"session"`
	Items   []SessionLine `json:"items"`
	Next    string        `json:"next,omitempty" jsonschema:"value of after for the next page; absent on the last page"`
	Last    int64         `json:"last_line" jsonschema:"number of lines in the file"`
}

// SessionLine is a line of a session's file.
type SessionLine struct {
	Line   int64           `json:"line"`
	Kind   string          `json:"kind" jsonschema:"meta, message, marker, meta record, copy, blank, bad, or unknown"`
	Record json.RawMessage `json:"record,omitempty" jsonschema:"the JSON object in the line"`
	Error  string          `json:"error,omitempty" jsonschema:"why the line is bad"`
}

// maxPage is the number of bytes of lines after which a page ends.
const maxPage = 8 << 20

// ReadLines reads a page of lines. A page contains all items of a line, and at least one
// line.
var ReadLines = Add(errtable.Session, Op[Daemon, SessionPage, SessionLines]{
	Name: "sessions.lines", Does: "Read the lines of a session.", Effect: Reads, Need: NeedSession, Files: true, Path: "GET /v1/sessions/{id}/history",
	Permit: func(d Daemon, in *SessionPage) error { return d.OwnStored(in.Session) },
	Run: func(ctx context.Context, d Daemon, in *SessionPage) (SessionLines, error) {
		out := SessionLines{Items: []SessionLine{}}
		s, err := d.Sessions.Read(in.Session)
		if err != nil {
			return out, err
		}
		defer s.Close()
		if out.Session, err = d.Describe(in.Session); err != nil {
			return out, err
		}
		c, err := s.Check()
		if err != nil {
			return out, err
		}
		out.Last = c.Lines
		from, size := int64(0), 0
		if in.FromMarker {
			if from, _, err = s.LastMarker(); err != nil {
				return out, err
			}
		}
		for l, err := range s.Lines(from) {
			if err := cmp.Or(err, context.Cause(ctx)); err != nil {
				return out, err
			}
			if l.Number <= in.After {
				continue
			}
			size += len(l.Raw)
			if n := len(out.Items); n > 0 && (in.Limit > 0 && n >= in.Limit || size > maxPage) && l.Number > out.Items[n-1].Line {
				out.Next = strconv.FormatInt(out.Items[n-1].Line, 10)
				break
			}
			one := SessionLine{Line: l.Number, Kind: l.Kind.String()}
			if l.Err != nil {
				one.Error = l.Err.Msg
			}
			if l.Kind != record.KindBad && json.Valid(l.Raw) {
				one.Record = slices.Clone(l.Raw)
			}
			out.Items = append(out.Items, one)
		}
		return out, nil
	},
})
