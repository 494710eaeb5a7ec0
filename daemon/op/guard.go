package op

import (
	"net/http"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/secret/scan"
)

// Guard checks the names, aliases, and texts that operations write: it applies the setting
// [memory] secrets, and refuses a note without a visible character. A secret that the
// replaced entry already contains is no reason to refuse. The error for an entry that the
// policy refuses is scan.ErrSecret, and states the kind and the place.
type Guard struct {
	// Policy returns the setting. It is called only if a text contains a secret. If it is
	// nil, the setting is scan.Default.
	Policy func() (scan.Policy, error)
	// Warn, if set, receives a message for each text with a secret that is stored,
	// redacted or not.
	Warn func(message string)
	// Fix is the end of the fix for a refused text, after "remove the secret".
	Fix string
	// AllowSecrets and AllowEmpty skip a check.
	AllowSecrets, AllowEmpty bool
}

// OwnerFix is the Fix for a command of the owner.
const OwnerFix = ", or use --allow-secrets to keep it in memory; [memory] secrets in config.toml sets the policy"

// remember returns the operation with the texts that the checks permit.
func (g Guard) remember(s *crmem.Store, o crmem.Remember) (crmem.Remember, error) {
	ops, err := g.Ops(s, []crmem.Op{o})
	if err != nil {
		return o, err
	}
	return ops[0].(crmem.Remember), nil
}

// visible refuses an operation that replaces a text by one without a visible character,
// or creates an entry without one. The store reports other errors of the operation.
func (g Guard) visible(s *crmem.Store, op crmem.Op) error {
	var name, content string
	var creates, replaces bool
	switch o := op.(type) {
	case crmem.Add:
		name, content, creates = o.Name, o.Content, true
	case crmem.Update:
		name, content, replaces = o.Name, o.Content, true
	case crmem.Remember:
		name, content, creates, replaces = o.Name, o.Content, true, true
	}
	if g.AllowEmpty || !IsBlank(content) || !creates && !replaces {
		return nil
	}
	old, err := s.Get(name)
	if exists := err == nil && old.Name == name; exists && (!replaces || IsBlank(old.Content)) || !exists && !creates {
		return nil
	}
	return &errtable.Error{Kind: "invalid", HTTP: http.StatusBadRequest, Exit: errtable.ExitUsage, Err: crmem.ErrInvalid,
		Message: "the text of " + display.Label(name) + " is empty; nothing was written", Fix: "write a text, or remove the note"}
}

// IsBlank reports whether a text has only white space.
func IsBlank(text string) bool { return strings.TrimSpace(text) == "" }

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

// Ops returns the operations with the texts that the checks permit.
func (g Guard) Ops(s *crmem.Store, ops []crmem.Op) ([]crmem.Op, error) {
	ops = slices.Clone(ops)
	for i, op := range ops {
		if op.Validate() != nil { // which the store reports
			continue
		}
		err := g.visible(s, op)
		if err != nil {
			return nil, err
		}
		switch o := op.(type) {
		case crmem.Add:
			o.Content, err = g.entry(s, o.Name, o.Content, o.Aliases)
			ops[i] = o
		case crmem.Remember:
			o.Content, err = g.entry(s, o.Name, o.Content, o.Aliases)
			if err == nil && o.Metadata != nil {
				o.Metadata, err = g.metadata(o.Name, *o.Metadata)
			}
			ops[i] = o
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

// entry returns the content to store for an entry of s.
func (g Guard) entry(s *crmem.Store, name, content string, aliases []string) (string, error) {
	known := func(text string) bool {
		old, err := s.Get(name)
		return err == nil && (strings.Contains(old.Content, text) || strings.Contains(old.Name, text) || slices.ContainsFunc(old.Aliases, func(a string) bool { return strings.Contains(a, text) }))
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
	if g.AllowSecrets {
		return text, nil
	}
	found := slices.DeleteFunc(scan.Find(text), func(m scan.Match) bool { return known(text[m.Start:m.End]) })
	if len(found) == 0 {
		return text, nil
	}
	policy := scan.Default
	if g.Policy != nil {
		var err error
		if policy, err = g.Policy(); err != nil {
			return "", err
		}
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
