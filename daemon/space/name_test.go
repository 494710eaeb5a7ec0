package space

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for name, want := range map[string]bool{
		"main": true, "team": true, "a": true, "0": true, "a-b-": true, "com": true, "com10": true, "lpta": true, "console": true, strings.Repeat("a", 64): true,
		OfSender("tg:7"): true,
		"":               false, "-a": false, "A": false, "a_b": false, "a.b": false, "..": false, "a/b": false, `a\b`: false, "é": false, "a\x00": false,
		"con": false, "prn": false, "aux": false, "nul": false, "com0": false, "com1": false, "lpt9": false, strings.Repeat("a", 65): false,
		"a b": false, "a\n": false, "aBc": false, "a*": false,
	} {
		if err := Check(name); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestOfSender(t *testing.T) {
	a, b := OfSender("tg:7"), OfSender("tg:77")
	if a == b || !IsOfSender(a) || !IsOfSender(b) || len(a) != 39 {
		t.Errorf("%s and %s", a, b)
	}
	for _, name := range []string{Main, "sender-", "sender-x", a + "0", a + "00", a[:37], a[:38], a[:38] + "g", "sender-" + strings.ToUpper(OfSender("tg:7")[7:]), "s" + a, a[7:]} {
		if IsOfSender(name) {
			t.Errorf("%q is of a sender", name)
		}
	}
}
