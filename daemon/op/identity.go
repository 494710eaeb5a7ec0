package op

import (
	"fmt"
	"net/http"
	"strings"

	"crabmem/daemon/errtable"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
)

// An Identity is for whom a client asks, and what that permits.
type Identity struct {
	Name   string // empty: the owner of the home
	Owner  bool   // everything is permitted: the owner, or an admin
	Scope  tool.Scope
	Space  string // the space without one in the request; empty: main
	Writes bool   // it may change its space and its sessions
}

// IdentityOf returns what rules permit to an identity.
func IdentityOf(rules trust.Rules, name string) Identity {
	level := rules.Level(name)
	id := Identity{Name: name, Owner: level == trust.Admin, Scope: rules.Scope(name, name), Writes: level != trust.Untrusted}
	if !id.Owner {
		own, err := id.Scope.WriteSpace("")
		if err != nil {
			own = strings.Join(id.Scope.Memory.Reads.Names(), "") // an untrusted identity reads at most its own
		}
		id.Space = own
	}
	return id
}

// MayRead reports whether the identity may read the sessions that another one created.
func (id *Identity) MayRead(createdBy string) bool {
	return id.Owner || id.Scope.Memory.Sessions.Allows(createdBy)
}

// Refused returns the error for an operation that the identity may not do.
func (id *Identity) Refused(format string, args ...any) error {
	return &errtable.Error{HTTP: http.StatusForbidden, Kind: "scope", Exit: errtable.ExitPermission,
		Message: id.Name + " may not " + fmt.Sprintf(format, args...), Fix: "ask the owner of this machine, who sets trust in [origins] of config.toml"}
}

// A Need is what an operation requires of an identity that is not an admin.
type Need uint8

const (
	NeedOwner    Need = iota // an operation without a need
	NeedNothing              // the response is the same for everybody
	NeedOwn                  // the response contains only what the identity may read
	NeedRead                 // the identity may read the space
	NeedWrite                // the identity may change the space
	NeedSession              // the identity created the session
	NeedChanges              // the identity created the session, and may change it
	NeedMessages             // the identity sends the message to a session that it created
)

// Permit returns an error if the identity may not carry out an operation on a space. The
// request is not decoded yet.
func (r *Row) Permit(id *Identity, space string) error {
	switch {
	case id.Owner || r.Need == NeedNothing || r.Need == NeedOwn || r.Need == NeedSession || r.Need == NeedMessages:
		return nil
	case r.Need == NeedChanges && !id.Writes:
		return id.Refused("change sessions")
	case r.Need == NeedRead && !id.Scope.Memory.Reads.Allows(space):
		return id.Refused("read the space %s", space)
	case r.Need == NeedWrite && !(id.Writes && id.Scope.Memory.Writes.Allows(space)):
		return id.Refused("change the space %s", space)
	case r.Need == NeedRead || r.Need == NeedWrite || r.Need == NeedChanges:
		return nil
	}
	return id.Refused("%s", r.Words())
}

// PermitRequest returns an error if the identity may not make a request that [Row.Request]
// decoded, of an operation that it may carry out.
func (r *Row) PermitRequest(id *Identity, on, in any) error {
	if id.Owner {
		return nil
	}
	return r.permit(on, in)
}
