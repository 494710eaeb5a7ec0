package cron

import (
	"errors"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// TestPosition checks the line and the message of each kind of error of a decoder.
func TestPosition(t *testing.T) {
	for _, c := range []struct {
		text, message string
		line          int
	}{
		{"x = 1\n\ny.z = 2\n", "unknown key 'z'", 3},
		{"\nid = true\n", "cannot decode TOML boolean into struct field", 2},
		{"id = 1\nid =", "expected value", 2},
	} {
		d := toml.NewDecoder(strings.NewReader(c.text)).DisallowUnknownFields()
		err := d.Decode(&struct{ ID, X int }{})
		if line, message := position(err); line != c.line || !strings.HasPrefix(message, c.message) {
			t.Errorf("%q: line %d, %q", c.text, line, message)
		}
	}
	if line, message := position(errors.New("toml: broken")); line != 1 || message != "broken" {
		t.Errorf("another error: line %d, %q", line, message)
	}
}
