package memtool

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/secret/scan"
)

// Guard applies the setting [memory] secrets to the writes of a Store.
type Guard struct {
	// Policy returns the setting. It is called only if a text contains a secret.
	Policy func() (scan.Policy, error)
	// Warn, if set, receives a message for each text with a secret that is stored,
	// redacted or not.
	Warn func(message string)
	// Fix is the end of the fix for a refused text, after "remove the secret".
	Fix string
}

// Store returns a Store whose methods Update and Remember check the names, aliases,
// and texts that they write. Its method Load is exact. A secret that the replaced
// entry already contains is no reason to refuse. The error for an entry that the
// policy refuses is scan.ErrSecret, and states the kind and the place.
func (g Guard) Store(s Store) Store { return guarded{s, g} }

type guarded struct {
	Store
	guard Guard
}

func (s guarded) Update(ctx context.Context, plan func(*crmem.Store) ([]crmem.Op, error)) ([]crmem.Entry, error) {
	return s.Store.Update(ctx, func(st *crmem.Store) ([]crmem.Op, error) {
		ops, err := plan(st)
		if err != nil {
			return nil, err
		}
		return s.guard.Ops(st, ops)
	})
}

func (s guarded) Remember(ctx context.Context, o crmem.Remember) (_ Remembered, err error) {
	if o, err = s.guard.remember(nil, o); err != nil {
		return Remembered{}, err
	}
	return s.Store.Remember(ctx, o)
}

// remember returns the operation with the texts that the policy permits. s may be nil.
func (g Guard) remember(s *crmem.Store, o crmem.Remember) (_ crmem.Remember, err error) {
	if o.Content, err = g.entry(s, o.Name, o.Content, o.Aliases); err == nil && o.Metadata != nil {
		o.Metadata, err = g.metadata(o.Name, *o.Metadata)
	}
	return o, err
}

// metadata returns the change to make of the metadata of an entry.
func (g Guard) metadata(name string, e metadata.Edit) (*metadata.Edit, error) {
	e.Set = slices.Clone(e.Set)
	for i, f := range e.Set {
		f.Values = slices.Clone(f.Values)
		for k, v := range f.Values {
			var err error
			if f.Values[k], err = g.text("the metadata of "+display.Label(name), v, false, func(string) bool { return false }); err != nil {
				return nil, err
			}
		}
		e.Set[i] = f
	}
	return &e, nil
}

// Ops returns the operations with the texts that the policy permits.
func (g Guard) Ops(s *crmem.Store, ops []crmem.Op) ([]crmem.Op, error) {
	ops = slices.Clone(ops)
	for i, op := range ops {
		var err error
		switch o := op.(type) {
		case crmem.Add:
			o.Content, err = g.entry(s, o.Name, o.Content, o.Aliases)
			ops[i] = o
		case crmem.Remember:
			ops[i], err = g.remember(s, o)
		case crmem.Update:
			o.Content, err = g.entry(s, o.Name, o.Content, o.Aliases)
			ops[i] = o
		case crmem.Restore:
			o.Entry.Content, err = g.entry(s, o.Entry.Name, o.Entry.Content, o.Entry.Aliases)
			ops[i] = o
		case crmem.Alias:
			_, err = g.entry(s, o.Name, "", o.Aliases)
		case crmem.Rename:
			_, err = g.entry(s, o.To, "", nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// entry returns the content to store for an entry of s, which may be nil.
func (g Guard) entry(s *crmem.Store, name, content string, aliases []string) (string, error) {
	var old crmem.Entry
	known := func(text string) bool {
		if s != nil && old.ID == 0 {
			old, _ = s.Get(name)
		}
		return s != nil && (strings.Contains(old.Content, text) || strings.Contains(old.Name, text))
	}
	for _, word := range append([]string{name}, aliases...) {
		if _, err := g.text("a name or an alias", word, true, known); err != nil {
			return "", err
		}
	}
	return g.text("the text of "+display.Label(name), content, false, known)
}

// text returns the text to store for a text. A name is never redacted, because it
// would become another name. known reports whether the entry contains a text already.
func (g Guard) text(what, text string, isName bool, known func(string) bool) (string, error) {
	found := slices.DeleteFunc(scan.Find(text), func(m scan.Match) bool { return known(text[m.Start:m.End]) })
	if len(found) == 0 {
		return text, nil
	}
	policy, err := g.Policy()
	if err != nil {
		return "", err
	}
	contains, stored := scan.Describe(text, found), "stored unchanged"
	switch {
	case policy == scan.Off:
		return text, nil
	case policy == scan.Warn:
	case policy == scan.RedactAll && !isName:
		text, stored = scan.Replace(text, found), "stored redacted"
	default:
		fix := "choose another name"
		if !isName {
			fix = "remove the secret" + g.Fix
		}
		return "", &errtable.Error{Kind: "secret", HTTP: http.StatusUnprocessableEntity, Message: what + " contains " + contains + "; nothing was written",
			Fix: fix, Err: scan.ErrSecret}
	}
	if g.Warn != nil {
		g.Warn(what + " contains " + contains + "; " + stored)
	}
	return text, nil
}
