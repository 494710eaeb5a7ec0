package op

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"crabmem/daemon/errtable"
	"crabmem/daemon/session"
	"crabmem/sessionlog"
)

// SessionMeta is what a session's file says of the session.
type SessionMeta struct {
	Agent      string `json:"agent"`
	CreatedBy  string `json:"created_by" jsonschema:"the identity that created it"`
	CreatedAt  string `json:"created_at" jsonschema:"RFC 3339"`
	Title      string `json:"title"`
	UptimeSecs uint64 `json:"uptime_secs" op:"owner"`
	Source     string `json:"source" jsonschema:"of an imported session" op:"owner"`
	Project    string `json:"project,omitempty" jsonschema:"name of the project; absent if it is unknown"`
}

// SessionMetaOf returns the description in a session's file.
func SessionMetaOf(m *sessionlog.Meta) SessionMeta {
	return SessionMeta{m.Agent, m.CreatedBy, m.CreatedAt, m.Title, m.UptimeSecs, m.Source, m.Project}
}

// SessionFile is a session as its file describes it.
type SessionFile struct {
	ID   string `json:"session"`
	File string `json:"file" jsonschema:"name of the file" op:"owner"`
	SessionMeta
	Messages int    `json:"messages"`
	Damaged  int    `json:"damaged" jsonschema:"bad lines; 1 for a file that cannot be read"`
	Bytes    int64  `json:"bytes"`
	Error    string `json:"error" jsonschema:"why the file cannot be read" op:"owner"`
}

// Session is a session in its file, and as the daemon has it loaded.
type Session struct {
	SessionFile
	ModifiedAt time.Time `json:"modified_at,omitzero" jsonschema:"RFC 3339"`
	Loaded     bool      `json:"loaded" jsonschema:"the daemon has it loaded"`
	Active     bool      `json:"active" jsonschema:"a run is active"`

	// Number is the session's number in the daemon; 0: not loaded.
	Number uint64 `json:"-" cbor:"number,omitempty"`
	// Followers is the number of subscribers to the session's events.
	Followers uint64 `json:"-" cbor:"followers,omitempty"`
	// Waiting is the number of runs that wait for the run slot, and Asking reports that a
	// question awaits a reply. Only [ListLoaded] sets them.
	Waiting int  `json:"-" cbor:"waiting,omitempty"`
	Asking  bool `json:"-" cbor:"asking,omitempty"`
}

// SessionFilter selects sessions. An empty field passes all.
type SessionFilter struct {
	// Limit is the most sessions of a page; 0: no limit.
	Limit     int    `json:"limit,omitempty" jsonschema:"items of a page, at least 1; absent: 50" op:"default=50,min=1,max=200"`
	Offset    int    `json:"after,omitempty" jsonschema:"next of the page before" op:"max=1073741824"`
	Agent     string `json:"agent,omitempty" jsonschema:"only sessions of this agent"`
	CreatedBy string `json:"created_by,omitempty" op:"owner"`
	Trash     bool   `json:"trash,omitempty" jsonschema:"true: the deleted sessions"`
}

// SessionList is a page of sessions.
type SessionList struct {
	Items []Session `json:"items" jsonschema:"the newest first"`
	Next  string    `json:"next,omitempty" jsonschema:"value of after for the next page; absent on the last page"`
	Total int       `json:"total"`
}

// SessionID names a session.
type SessionID struct {
	Session string `json:"session" op:"path=id"` // its ID, or the name of its file
}

// SessionTitle is a new title.
type SessionTitle struct {
	Session string `json:"session" op:"path=id"`
	Title   string `json:"title"`
}

// SessionTexts are texts to purge from a session.
type SessionTexts struct {
	Session string   `json:"session"`
	Texts   []string `json:"texts"`
}

// PurgedSession is the result of a purge.
type PurgedSession struct {
	Lines int `json:"lines"` // that changed
}

var ListSessions = Add(errtable.Session, Op[Daemon, SessionFilter, SessionList]{
	Name: "sessions.list", Does: "List the sessions that the caller may read.", Effect: Reads, Need: NeedOwn, Files: true, Path: "GET /v1/sessions",
	Run: func(_ context.Context, d Daemon, in *SessionFilter) (SessionList, error) { return d.listSessions(in) },
})

var ShowSession = Add(errtable.Session, Op[Daemon, SessionID, Session]{
	Name: "sessions.show", Does: "Describe a session.", Effect: Reads, Need: NeedSession, Files: true, Path: "GET /v1/sessions/{id}",
	Permit: func(d Daemon, in *SessionID) error { return d.OwnStored(in.Session) },
	Run:    func(_ context.Context, d Daemon, in *SessionID) (Session, error) { return d.Describe(in.Session) },
})

// SessionsOf carries out operations on session files. No session is loaded.
func SessionsOf(d *sessionlog.Dir, log *slog.Logger) Local {
	return Local{Daemon{Parts: &Parts{Sessions: d, Log: log, Loaded: new(session.Manager), Followers: func(string) uint64 { return 0 }}}}
}

// CancelSession ends the run of a session. A session that is not loaded has none.
var CancelSession = Add(errtable.Session, Op[Daemon, SessionID, None]{
	Name: "sessions.cancel", Does: "End the run of a session.", Effect: Manages, Need: NeedSession, Path: "POST /v1/sessions/{id}/cancel",
	Permit: func(d Daemon, in *SessionID) error { return d.OwnStored(in.Session) },
	Run: func(_ context.Context, d Daemon, in *SessionID) (None, error) {
		id, err := d.idOf(in.Session)
		if l := d.byStored()[id]; l != nil && err == nil {
			l.Cancel(session.ErrCancelled)
		}
		return None{}, err
	},
})

// TitleSession sets a title through the open log of a loaded session.
var TitleSession = Add(errtable.Session, Op[Daemon, SessionTitle, Session]{
	Name: "sessions.title", Does: "Set the title of a session.", Effect: Writes, Need: NeedChanges, Retry: true, Files: true,
	Path:   "PATCH /v1/sessions/{id}",
	Permit: func(d Daemon, in *SessionTitle) error { return d.OwnStored(in.Session) },
	Run: func(_ context.Context, d Daemon, in *SessionTitle) (Session, error) {
		l, err := d.Sessions.Open(in.Session)
		if err != nil {
			return Session{}, err
		}
		err = l.SetTitle(in.Title)
		if cerr := l.Close(); cerr != nil && err == nil {
			d.Log.Warn("close session", "session", l.ID(), "error", cerr) // the title is on disk
		}
		if err != nil {
			return Session{}, err
		}
		d.Loaded.SetTitle(l.ID(), in.Title)
		return d.Describe(l.ID())
	},
})

// DeleteSession moves a session's file to the trash, and closes the session if it is
// loaded. It cancels the session's work. It returns an error if a run is active.
var DeleteSession = Add(errtable.Session, Op[Daemon, SessionID, Session]{
	Name: "sessions.delete", Does: "Move a session to the trash.", Effect: Writes, Need: NeedChanges, Files: true,
	Path: "DELETE /v1/sessions/{id}", Fails: []int{http.StatusConflict},
	Permit: func(d Daemon, in *SessionID) error { return d.OwnStored(in.Session) },
	Run: func(ctx context.Context, d Daemon, in *SessionID) (Session, error) {
		s, err := d.Describe(in.Session)
		if err == nil && d.Roles != nil { // a command without a daemon runs no work
			err = d.Roles.Abandon(ctx, s.ID)
		}
		if err == nil {
			err = d.Loaded.WithIdle(ctx, s.ID, func() error { return d.Sessions.Delete(in.Session) })
		}
		s.Loaded, s.Active, s.Number = false, false, 0
		return s, err
	},
})

var RestoreSession = Add(errtable.Session, Op[Daemon, SessionID, Session]{
	Name: "sessions.restore", Does: "Move a session out of the trash.", Effect: Writes, Need: NeedChanges, Files: true,
	Path:   "POST /v1/sessions/{id}/restore",
	Permit: func(d Daemon, in *SessionID) error { return d.ownTrashed(in.Session) },
	Run: func(_ context.Context, d Daemon, in *SessionID) (Session, error) {
		if err := d.Sessions.Restore(in.Session); errors.Is(err, sessionlog.ErrNotFound) {
			return Session{}, &errtable.Error{HTTP: http.StatusNotFound, Kind: "not_found", Exit: errtable.ExitNotFound, Message: err.Error(), Fix: "run crabmem sessions list --trash to list the deleted sessions"}
		} else if err != nil {
			return Session{}, err
		}
		return d.Describe(in.Session)
	},
})

// RepairSession removes bad lines from a session's file. It returns an error if a run is
// active.
var RepairSession = Add(errtable.Session, Op[Daemon, SessionID, sessionlog.Repaired]{
	Name: "sessions.repair", Does: "Remove bad lines from a session.", Effect: Writes, Files: true,
	Run: func(ctx context.Context, d Daemon, in *SessionID) (did sessionlog.Repaired, err error) {
		err = d.onIdle(ctx, in.Session, func() (err error) {
			did, err = d.Sessions.Repair(in.Session)
			return err
		})
		return did, err
	},
})

// PurgeSession replaces each string that contains one of the texts in a session's file. It
// returns an error if a run is active.
var PurgeSession = Add(errtable.Session, Op[Daemon, SessionTexts, PurgedSession]{
	Name: "sessions.purge", Does: "Remove texts from a session permanently.", Effect: Erases,
	Run: func(ctx context.Context, d Daemon, in *SessionTexts) (did PurgedSession, err error) {
		if err := CheckEraser(d.By); err != nil {
			return did, err
		}
		if slices.Contains(in.Texts, "") {
			return did, errtable.Invalidf("a text is empty")
		}
		err = d.onIdle(ctx, in.Session, func() (err error) {
			did.Lines, err = d.Sessions.Purge(in.Session, in.Texts...)
			return err
		})
		return did, err
	},
})

// listSessions lists the sessions that pass the filter and that the identity may read.
func (d *Daemon) listSessions(in *SessionFilter) (SessionList, error) {
	if in.Offset < 0 || in.Limit < 0 {
		return SessionList{}, errtable.Invalidf("after and limit: want 0 or more")
	}
	list, loaded := d.Sessions.List, d.byStored()
	if in.Trash {
		list, loaded = d.Sessions.Trashed, nil
	}
	infos, err := list()
	if err != nil {
		return SessionList{}, err
	}
	slices.SortFunc(infos, sessionlog.Info.Compare)
	infos = slices.DeleteFunc(infos, func(i sessionlog.Info) bool {
		return in.Agent != "" && i.Meta.Agent != in.Agent || in.CreatedBy != "" && i.Meta.CreatedBy != in.CreatedBy || !d.As.MayRead(i.Meta.CreatedBy)
	})
	out := SessionList{Items: []Session{}, Total: len(infos)}
	infos = infos[min(in.Offset, len(infos)):]
	if in.Limit > 0 && in.Limit < len(infos) {
		infos, out.Next = infos[:in.Limit], strconv.Itoa(in.Offset+in.Limit)
	}
	for i := range infos {
		out.Items = append(out.Items, d.session(&infos[i], loaded))
	}
	return out, nil
}

// onIdle calls f for a session without a run.
func (d *Daemon) onIdle(ctx context.Context, name string, f func() error) error {
	id, err := d.idOf(name)
	if err != nil {
		return err
	}
	return d.Loaded.WithIdle(ctx, id, f)
}

// idOf returns the ID of a session, which its ID or the name of its file names.
func (d *Daemon) idOf(name string) (string, error) {
	s, err := d.Sessions.Read(name)
	if err != nil {
		return "", err
	}
	return s.ID, s.Close()
}

// Describe returns a session.
func (d *Daemon) Describe(id string) (Session, error) {
	s, err := d.Sessions.Read(id)
	if err != nil {
		return Session{}, err
	}
	defer s.Close()
	i, err := s.Info()
	if err != nil {
		return Session{}, err
	}
	return d.session(&i, d.byStored()), nil
}

func (d *Daemon) session(i *sessionlog.Info, loaded map[string]*session.Session) Session {
	s := Session{SessionFile: SessionFileOf(i), Followers: d.Followers(i.ID)}
	if i.Err == nil {
		s.ModifiedAt = i.Modified.UTC().Truncate(time.Second)
	}
	if l := loaded[i.ID]; l != nil {
		s.Loaded, s.Active, s.Number = true, l.Active(), l.ID()
	}
	return s
}

// byStored returns the loaded sessions by ID.
func (d *Daemon) byStored() map[string]*session.Session {
	m := make(map[string]*session.Session)
	for _, l := range d.Loaded.List() {
		m[l.StoredID()] = l
	}
	return m
}

// SessionFileOf returns the description of a session's file.
func SessionFileOf(i *sessionlog.Info) SessionFile {
	f := SessionFile{ID: i.ID, File: i.File, SessionMeta: SessionMetaOf(&i.Meta), Messages: i.Messages, Damaged: i.Damaged, Bytes: i.Size}
	if i.Err != nil {
		f.Damaged, f.Error = 1, i.Err.Error()
	}
	return f
}
