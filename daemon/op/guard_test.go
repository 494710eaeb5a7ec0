package op

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/errtable"
	"crabmem/daemon/secret/scan"
)

// TestGuard writes a secret by every operation under every policy.
func TestGuard(t *testing.T) {
	secret := "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"
	remember := func(o crmem.Remember) func(Store) error {
		return func(s Store) error { _, err := Remember.Do(t.Context(), s, Note{Remember: o}); return err }
	}
	const marker = "[redacted: github-token]"
	writes := map[string]struct {
		inName bool
		write  func(Store) error
	}{
		"remember":       {false, remember(crmem.Remember{Name: "new", Content: "a " + secret})},
		"remember name":  {true, remember(crmem.Remember{Name: secret, Content: "a"})},
		"remember alias": {true, remember(crmem.Remember{Name: "new", Content: "a", Aliases: []string{secret}})},
		"metadata":       {false, remember(crmem.Remember{Name: "new", Content: "a", Metadata: &metadata.Edit{Set: []metadata.Field{{Key: "source", Values: []string{"a " + secret}}}}})},
		"add":            {false, update(t, crmem.Add{Name: "new", Content: secret})},
		"add alias":      {true, update(t, crmem.Add{Name: "new", Content: "a", Aliases: []string{"b", secret}})},
		"update":         {false, update(t, crmem.Update{Name: "plain", Content: "a " + secret})},
		"update alias":   {true, update(t, crmem.Update{Name: "plain", Content: "a", Aliases: []string{secret}})},
		"alias":          {true, update(t, crmem.Alias{Name: "plain", Aliases: []string{secret}})},
		"rename":         {true, update(t, crmem.Rename{Name: "plain", To: secret})},
		"restore":        {false, update(t, crmem.Restore{Entry: crmem.Entry{Name: "new", Content: "a " + secret}})},
		"second of two":  {false, update(t, crmem.Add{Name: "one", Content: "x"}, crmem.Add{Name: "two", Content: secret})},
	}
	for name, w := range writes {
		for _, policy := range []scan.Policy{scan.Default, scan.RedactAll, scan.Refuse, scan.Warn, scan.Off} {
			t.Run(fmt.Sprint(name, " ", policy), func(t *testing.T) {
				s := crmem.New(nil)
				if _, err := s.Remember("plain", "text", nil); err != nil {
					t.Fatal(err)
				}
				before := dumped(s)
				var warned []string
				guard := Guard{Policy: func() (scan.Policy, error) { return policy, nil }, Warn: func(m string) { warned = append(warned, m) }}
				err := w.write(Store{Store: s, Guard: guard})
				all := dumped(s)
				refused := policy == scan.Default || policy == scan.Refuse || policy == scan.RedactAll && w.inName
				if refused {
					e, ok := errors.AsType[*errtable.Error](err)
					if !ok || !errors.Is(err, scan.ErrSecret) || e.Kind != "secret" || strings.Contains(err.Error(), secret) || strings.Contains(e.Fix, secret) {
						t.Errorf("error %v", err)
					}
					if all != before {
						t.Errorf("the store changed: %s", all)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if redacted := policy == scan.RedactAll; strings.Contains(all, marker) != redacted || strings.Contains(all, secret) == redacted {
					t.Errorf("the store has %s", all)
				}
				if quiet := policy == scan.Off; (len(warned) == 0) != quiet || strings.Contains(fmt.Sprint(warned), secret) {
					t.Errorf("warnings %q", warned)
				}
			})
		}
	}
}

// TestGuardKeepsPresentSecrets changes an entry that contains a secret already.
func TestGuardKeepsPresentSecrets(t *testing.T) {
	secret, other := "ghp_"+"8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE", "ghp_"+"Zt4Yb9Qw2Lk7Nf5Xc1Vh8Ms3Rd6Gj0Pa2SuE"
	s := crmem.New(nil)
	if _, err := s.Remember("keys", "one "+secret, nil); err != nil {
		t.Fatal(err)
	}
	guarded := Store{Store: s, Guard: Guard{Policy: func() (scan.Policy, error) { return scan.Default, nil }}}
	for content, ok := range map[string]bool{"two " + secret: true, "one " + secret + " and " + other: false} {
		if err := update(t, crmem.Update{Name: "keys", Content: content})(guarded); (err == nil) != ok {
			t.Errorf("%v, want success %v", err, ok)
		}
	}
	// Another entry must not have it.
	if err := update(t, crmem.Add{Name: "copy", Content: secret})(guarded); !errors.Is(err, scan.ErrSecret) {
		t.Errorf("a copy: %v", err)
	}
}

// TestGuardPolicyError reports that the setting is unknown, but only for a secret.
func TestGuardPolicyError(t *testing.T) {
	broken := errors.New("broken")
	guarded := Store{Store: crmem.New(nil), Guard: Guard{Policy: func() (scan.Policy, error) { return "", broken }}}
	if _, err := Remember.Do(t.Context(), guarded, Note{Remember: crmem.Remember{Name: "a", Content: "text"}}); err != nil {
		t.Error(err)
	}
	if _, err := Remember.Do(t.Context(), guarded, Note{Remember: crmem.Remember{Name: "a", Content: "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"}}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func update(t *testing.T, ops ...crmem.Op) func(Store) error {
	return func(s Store) error {
		_, err := s.Update(t.Context(), func(*crmem.Store) ([]crmem.Op, error) { return ops, nil })
		return err
	}
}

func dumped(s *crmem.Store) string {
	var b strings.Builder
	for e := range s.All() {
		fmt.Fprintf(&b, "%s %q %q\n", e.Name, e.Aliases, e.Content)
	}
	return b.String()
}
