package op

import (
	"context"
	"errors"
	"net/http"

	"crabmem/daemon/errtable"
	"crabmem/daemon/role"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// WorkQuery selects work.
type WorkQuery struct {
	Session string `json:"session,omitempty" jsonschema:"ID of a session: all of its work; absent: the open work of all sessions"`
	// Questions selects all open questions, also those of runs.
	Questions bool `json:"questions,omitempty" jsonschema:"only the open questions of all sessions"`
}

// WorkID names work.
type WorkID struct {
	Session string `json:"session" jsonschema:"ID of the session that gave out the work"`
	Work    string `json:"work" jsonschema:"ID of the work, as w7"`
}

// WorkMessage is a message to work.
type WorkMessage struct {
	WorkID
	Message string `json:"message" jsonschema:"at most 32 KiB"`
}

// WorkAnswer is an answer to a question of work or, with an ID as q2, of a session.
type WorkAnswer struct {
	WorkID
	Answer string `json:"answer" jsonschema:"a label of the question, y, or n; to the question of a session, a text"`
}

// WorkChange is what a request did.
type WorkChange struct {
	WorkID
	Result string `json:"result" jsonschema:"a sentence"`
}

var ListWork = Add(errtable.Session, Op[Daemon, WorkQuery, []role.View]{
	Name: "work.list", Does: "List the work of sessions.", Effect: Reads, Path: "GET /v1/work", Files: true,
	Run: func(_ context.Context, d Daemon, in *WorkQuery) ([]role.View, error) {
		if in.Questions {
			return d.Roles.Questions(), nil
		}
		list, err := d.Roles.List(in.Session)
		return list, workError(err)
	},
})

var ShowWork = Add(errtable.Session, Op[Daemon, WorkID, role.View]{
	Name: "work.show", Does: "Return the state and the outcome of work.", Effect: Reads, Path: "GET /v1/sessions/{session}/work/{work}", Files: true,
	Run: func(_ context.Context, d Daemon, in *WorkID) (role.View, error) {
		v, err := d.Roles.Show(in.Session, in.Work)
		return v, workError(err)
	},
})

var CancelWork = Add(errtable.Session, Op[Daemon, WorkID, WorkChange]{
	Name: "work.cancel", Does: "Cancel work.", Effect: Manages, Path: "POST /v1/sessions/{session}/work/{work}/cancel",
	Run: func(_ context.Context, d Daemon, in *WorkID) (WorkChange, error) {
		text, err := d.Roles.CancelWork(in.Session, in.Work, "canceled by a request")
		return WorkChange{*in, text}, workError(err)
	},
})

var RouteWork = Add(errtable.Session, Op[Daemon, WorkMessage, WorkChange]{
	Name: "work.route", Does: "Send a message to work.", Effect: Manages, Path: "POST /v1/sessions/{session}/work/{work}/route",
	Run: func(_ context.Context, d Daemon, in *WorkMessage) (WorkChange, error) {
		text, err := d.Roles.RouteTo(in.Session, in.Work, in.Message)
		return WorkChange{in.WorkID, text}, workError(err)
	},
})

var AnswerWork = Add(errtable.Session, Op[Daemon, WorkAnswer, WorkChange]{
	Name: "work.answer", Does: "Answer the question of work, such as whether a command may run, or of a session.", Effect: Manages, Need: NeedSession,
	Path: "POST /v1/sessions/{session}/work/{work}/answer",
	Permit: func(d Daemon, in *WorkAnswer) error {
		if _, n := record.SplitWorkID(in.Work); n > 0 {
			return d.As.Refused("answer questions of work")
		}
		return d.OwnStored(in.Session)
	},
	Run: func(_ context.Context, d Daemon, in *WorkAnswer) (WorkChange, error) {
		return WorkChange{in.WorkID, in.Work + " has the answer"}, workError(d.Roles.Answer(in.Session, in.Work, d.As.Name, in.Answer))
	},
})

// workError returns the error of a request for work.
func workError(err error) error {
	switch {
	case err == nil || errors.Is(err, sessionlog.ErrNotFound):
		return err
	case errors.Is(err, role.ErrNoWork):
		return &errtable.Error{HTTP: http.StatusNotFound, Kind: "not_found", Exit: errtable.ExitNotFound, Message: err.Error(), Fix: "crabmem work list", Err: err}
	case errors.Is(err, role.ErrState):
		return &errtable.Error{HTTP: http.StatusConflict, Kind: "conflict", Message: err.Error(), Fix: "crabmem work list", Err: err}
	}
	return err
}
