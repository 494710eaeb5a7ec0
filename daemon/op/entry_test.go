package op

import (
	"errors"
	"slices"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
)

func sample(t *testing.T) *crmem.Store {
	t.Helper()
	s := crmem.New(nil)
	err := s.Apply(crmem.Add{Name: "deploy", Aliases: []string{"ship", "both"}}, crmem.Add{Name: "two words", Aliases: []string{"both"}},
		crmem.Add{Name: "chat", Kind: crmem.Archive}, crmem.Add{Name: "a b", Aliases: []string{"c"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFindToRemove checks which names remove an entry, and the class, kind and
// fix of the errors of the others.
func TestFindToRemove(t *testing.T) {
	s := sample(t)
	for _, tc := range []struct {
		name      string
		archives  bool
		err       error
		kind, fix string
	}{
		{"deploy", false, nil, errtable.Failed, ""},
		{"chat", true, nil, errtable.Failed, ""},
		{"chat", false, crmem.ErrKind, "kind", "crabmem forget --archive chat"},
		{"ship", false, crmem.ErrNotFound, "not_found", "crabmem forget deploy"},
		{"c", false, crmem.ErrNotFound, "not_found", "crabmem forget 'a b'"},
		{"both", false, crmem.ErrAmbiguous, "ambiguous", "use one of the names"},
		{"nothing", false, crmem.ErrNotFound, "not_found", "run crabmem list to see the names, or crabmem recall to search the entries"},
	} {
		e, err := FindToRemove(s, tc.name, tc.archives)
		if !errors.Is(err, tc.err) || err == nil && e.Name != tc.name {
			t.Errorf("%q: %v, %v; want %v", tc.name, e, err, tc.err)
		}
		if r := errtable.Find(err); err != nil && (r.Kind != tc.kind || r.Fix != tc.fix || r.HTTP < 400 || r.HTTP > 409) {
			t.Errorf("%q: %+v, want %s, %s", tc.name, r, tc.kind, tc.fix)
		}
	}
}

func TestAliases(t *testing.T) {
	s := sample(t)
	e, err := FindEntry(s, "ship")
	if err != nil {
		t.Fatal(err)
	}
	if got := WithAliases(e.Aliases, []string{"ship", "go", "go"}); !slices.Equal(got, []string{"ship", "both", "go"}) {
		t.Errorf("with: %q", got)
	}
	twins := e
	twins.Aliases = []string{"caf\u00e9", "cafe\u0301", "Zo\u00eb"}
	for _, tc := range []struct{ given, want []string }{ // an equivalent alias only if the exact one is missing
		{[]string{"Zoe\u0308"}, twins.Aliases[:2]},
		{[]string{"cafe\u0301"}, []string{"caf\u00e9", "Zo\u00eb"}},
		{[]string{"cafe\u0301", "caf\u00e9", "Zo\u00eb"}, []string{}},
	} {
		if got, err := WithoutAliases(s, twins, tc.given); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("without %q: %q, %v; want %q", tc.given, got, err, tc.want)
		}
	}
	if got, err := WithoutAliases(s, e, []string{"ship"}); err != nil || !slices.Equal(got, []string{"both"}) {
		t.Errorf("without: %q, %v", got, err)
	}
	if _, err := WithoutAliases(s, e, []string{"ship", "go"}); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("without an alias that the entry does not have: %v", err)
	}
	if !slices.Equal(e.Aliases, []string{"ship", "both"}) {
		t.Errorf("the entry is changed: %q", e.Aliases)
	}
}
