package display

import "testing"

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
