package foreign

import (
	"slices"
	"strings"
	"testing"
)

// TestSplitAll splits texts of Claude Code and of the user. No text is lost.
func TestSplitAll(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":     nil,
		"a":    {"user:a"},
		" a\n": {"user: a\n"},
		"<command-name>/x</command-name>\n<command-args>y</command-args>\n":    {"system:<command-name>/x</command-name>\n<command-args>y</command-args>\n"},
		"<bash-stdout>a\n\nb</bash-stdout><bash-stderr></bash-stderr>":         {"system:<bash-stdout>a\n\nb</bash-stdout><bash-stderr></bash-stderr>"},
		`<teammate-message teammate_id="x" color="blue">hi</teammate-message>`: {`system:<teammate-message teammate_id="x" color="blue">hi</teammate-message>`},
		"<ide_selection>a</ide_selection>why?":                                 {"system:<ide_selection>a</ide_selection>", "user:why?"},
		"why?\n\n[Request interrupted by user]\n\nstop":                        {"user:why?", "system:[Request interrupted by user]", "user:stop"},
		"[Request interrupted by user for tool use]":                           {"system:[Request interrupted by user for tool use]"},
		"[Request interrupted":                                                 {"user:[Request interrupted"},
		"what is <command-name>x</command-name>?":                              {"user:what is <command-name>x</command-name>?"},
		"<command-name>":                   {"user:<command-name>"},
		"<command-named>x</command-named>": {"user:<command-named>x</command-named>"},
		"<div>x</div>":                     {"user:<div>x</div>"},
		"<":                                {"user:<"},
	} {
		roles, texts := splitAll(text)
		var got []string
		for i := range roles {
			got = append(got, roles[i]+":"+texts[i])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	// Elements without an end take linear time.
	text := strings.Repeat("\n\n<tick>\n\n<channel a>", 1<<17)
	if roles, texts := splitAll(text); len(roles) != 1 || texts[0] != text {
		t.Errorf("%d texts", len(roles))
	}
}
