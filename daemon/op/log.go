package op

import (
	"context"
	"slices"
	"strings"
	"time"

	"crabmem/bm25/clip"
	"crabmem/daemon/errtable"
)

// LogQuery selects changes of the store.
type LogQuery struct {
	Name  string    `json:"name,omitempty" jsonschema:"only the changes of entries that have or had this name or alias" op:"size=4096"`
	Since time.Time `json:"since,omitzero" jsonschema:"only the changes at or after this time"`
	Agent string    `json:"agent,omitempty" jsonschema:"only the changes of this agent"`
	Limit int       `json:"limit,omitempty" jsonschema:"at most this many changes; 0: at most 10000" op:"default=20,max=10000"`
}

// ChangeLog is changes of the store.
type ChangeLog struct {
	Changes []Change `json:"changes" jsonschema:"newest first"`
	More    int      `json:"more" jsonschema:"changes that the limit omits"`
	Damaged string   `json:"damaged,omitempty" jsonschema:"why parts of the history are not readable, one part per line" op:"paths"`
}

// ReadLog lists the changes of the store. Without a limit, the owner gets all.
var ReadLog = Add(errtable.Store, Op[Store, LogQuery, ChangeLog]{
	Name: "entries.log", Does: "List the changes of a space, newest first.", Effect: Reads, Need: NeedRead, Path: "GET /v1/changes",
	Run: func(_ context.Context, s Store, in *LogQuery) (ChangeLog, error) {
		out, list, changes := ChangeLog{Changes: []Change{}}, []Change{}, s.Store.Changes()
		if in.Name != "" {
			changes = s.ChangesOf(in.Name)
		}
		found := false
		var damaged []string
		for c, err := range changes {
			if err != nil {
				damaged = append(damaged, clip.Bytes(err.Error(), 1<<10))
				continue
			}
			found = true
			if in.Agent != "" && c.By.Agent != in.Agent || !in.Since.IsZero() && (c.Time.IsZero() || c.Time.Before(in.Since)) {
				continue
			}
			list = append(list, changeOf(&c, 0, &ChangeFilter{}))
		}
		if in.Name != "" && !found {
			if _, err := FindEntry(s.Store, in.Name); err != nil {
				return out, err
			}
		}
		slices.Reverse(list)
		limit := in.Limit
		if limit == 0 && s.As.Name != "" {
			limit = maxAllChanges
		}
		if limit > 0 && len(list) > limit {
			list, out.More = list[:limit], len(list)-limit
		}
		out.Changes, out.Damaged = list, strings.Join(damaged, "\n")
		return out, nil
	},
})
