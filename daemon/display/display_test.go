package display

import (
	"testing"
	"time"
)

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"plain ü 部署":           "plain ü 部署",
		"a\x1b[31m\x07\nb\x7f": "a␛[31m␇␊b␡",
		"\u0085\u202egnp.exe":  `\u0085\u202egnp.exe`,
	} {
		if got := Printable(s); got != want {
			t.Errorf("Printable(%q) = %q, want %q", s, got, want)
		}
	}
	for s, want := range map[string]string{"": `""`, " a": `" a"`, "a b": "a b"} {
		if got := Label(s); got != want {
			t.Errorf("Label(%q) = %s, want %s", s, got, want)
		}
	}
}

// TestShort cuts the text that people see, with its replacements.
func TestShort(t *testing.T) {
	for s, want := range map[string]string{"plain": "plain", "a\x1b[31m": "a␛[31m", "a\xff": "a\uFFFD", "12345678901": "1234567…", "1234567\x00": "1234567␀"} {
		if got := Short(s, 10); got != want {
			t.Errorf("Short(%q, 10) = %q, want %q", s, got, want)
		}
	}
}

func TestTimesInZones(t *testing.T) {
	zone := time.FixedZone("CEST", 2*3600)
	for text, want := range map[string]string{
		"2026-04-14T22:23:45Z": "2026-04-15 00:23:45 CEST", "2026-04-14T10:23:45.6+00:00": "2026-04-14 12:23:46 CEST",
		"2026-04-14T23:59:59.5-03:00": "2026-04-15 05:00:00 CEST", "": "", "soon": "soon", "\x1b[31m": "␛[31m",
	} {
		if got := TimeIn(text, zone); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
