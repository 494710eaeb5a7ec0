package op

import (
	"crabmem/crmem"
	"crabmem/daemon/errtable"
)

// A Header says how to carry out a request. An empty field has no effect.
type Header struct {
	// By makes the changes, for the history of the store. By.Client is wire if it is empty.
	By crmem.Actor `json:"by,omitzero"`
	// As is the identity for which the client asks, such as api:NAME. The request may do only
	// what that identity may: 403, kind scope. Sessions of others do not exist for it: 404.
	// Empty: the owner of the home.
	As string `json:"as,omitempty"`
	// Space is the space for operations on a store. Empty: the identity's own, or main.
	Space string `json:"space,omitempty"`
	// AllowSecrets and AllowEmpty skip a check of the texts that a change writes. Only
	// the owner and admins may skip the check for secrets.
	AllowSecrets bool `json:"allow_secrets,omitempty"`
	AllowEmpty   bool `json:"allow_empty,omitempty"`
	// Once is for operations that change entries or spaces: the request may be repeated, and
	// has one effect. The daemon keeps the key, with the identity, for 24 hours, and at
	// most 10,000 keys of one identity. Kinds of errors: repeated, the request has had its
	// effect, see [ReadOutcome]; request, an earlier request with the key has another digest;
	// spent, the outcome of an earlier request is no longer kept, or its entry was purged.
	Once *OnceKey `json:"once,omitempty"`
}

// ReadHeader decodes the header of a request. An empty one has no field.
func ReadHeader(head []byte) (h Header, err error) {
	if len(head) == 0 {
		return h, nil
	}
	if err := requests.Unmarshal(head, &h); err != nil {
		return h, errtable.Invalidf("header: %v", err)
	}
	return h, nil
}
