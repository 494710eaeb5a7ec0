package op

import (
	"context"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
)

// OnceKey identifies a request that may be repeated.
type OnceKey struct {
	Key string `json:"key"` // chosen by the client
	Sum []byte `json:"sum"` // digest of the request
}

// Outcome is what a request did that may be repeated.
type Outcome struct {
	Begun  bool         `json:"begun,omitempty"` // an earlier request with the key began, and its effect is unknown
	Done   bool         `json:"done,omitempty"`
	Space  string       `json:"space,omitempty"`
	Entry  *crmem.Entry `json:"entry,omitempty"`  // after the change; nil: the request removed it, or changed no entry
	Before *crmem.Entry `json:"before,omitempty"` // the entry before the change; nil: the request created it, or Seq is 0
	Seq    uint64       `json:"change,omitempty"` // number of the change; 0: unknown
	Time   time.Time    `json:"time,omitzero"`    // of the change; zero: unknown
}

var ReadOutcome = Add(errtable.Store, Op[Daemon, OnceKey, Outcome]{
	Name: "requests.outcome", Does: "Read what an earlier request with a key did.", Effect: Reads, Need: NeedOwn,
	Run: func(ctx context.Context, d Daemon, in *OnceKey) (Outcome, error) { return d.Outcome(ctx, &d.As, in) },
})
