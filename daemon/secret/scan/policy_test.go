package scan

import (
	"strings"
	"testing"
)

// token returns a text in the form of a GitHub token.
func token() string { return "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE" }

// TestRecord checks the text that each policy keeps of a record.
func TestRecord(t *testing.T) {
	text := "first line\nkey: " + token() + ", and again " + token() + "."
	redacted := "first line\nkey: [redacted: github-token], and again [redacted: github-token]."
	notice := "[not stored: the text contains a secret: github-token at line 2, byte 6; and 1 more]"
	for policy, want := range map[Policy]string{Default: redacted, RedactAll: redacted, Refuse: notice, Warn: text, Off: text} {
		got, found := policy.Record(text, nil)
		if got != want {
			t.Errorf("%s: %q, want %q", policy, got, want)
		}
		if n := len(found); n != 2 && policy != Off || n != 0 && policy == Off {
			t.Errorf("%s: %d secrets", policy, n)
		}
		if again, found := policy.Record(got, nil); policy != Warn && (again != got || len(found) > 0) {
			t.Errorf("%s: a second time %q, %d secrets", policy, again, len(found))
		}
		if got, found := policy.Record("no secret", nil); got != "no secret" || len(found) > 0 {
			t.Errorf("%s: %q, %d secrets", policy, got, len(found))
		}
	}
	if len(Policies) != 5 {
		t.Errorf("policies: %q", Policies)
	}
}

// TestDescribe checks that a description has the place and nothing of the secret.
func TestDescribe(t *testing.T) {
	text := "é\n\n" + token()
	if got := Describe(text, Find(text)); got != "a secret: github-token at line 3, byte 1" || strings.Contains(got, "ghp_") {
		t.Error(got)
	}
}
