package analysis

import (
	"fmt"
	"strings"
	"testing"
)

// TestAsked compares the terms of sentences that ask.
func TestAsked(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "deploy": "", "which port?": "port", "?": "", "Port? This.": "port", "\"port?\"": "port", "(port?)": "port", "*port?*": "port",
		"port?\nredis": "port", "port?\tredis": "port", "port?\r": "port", "'port?'": "port", "port?!": "port", "port!?": "port", "¿puerto?": "puerto",
		"/list?page=2": "", "a?b:c": "", "x?: y": "", "Hi Anna! I was in Porto. How are you?": "", "Redis runs. Which port?": "port",
		"See v2.6 of redis?": "redi", "one\nport?\ntwo": "port", "哪个？": "哪 哪个 个", "أي؟ نعم": "اي",
		"port? " + strings.Repeat("x", 994): "port", "port? " + strings.Repeat("x", 995): "",
	} {
		got := Asked(text)
		for _, term := range strings.Fields(want) {
			if !got.Has(TermSetOf([]byte(term))) {
				t.Errorf("%.40q: %x lacks %s", text, got, term)
			}
		}
		if want == "" != (got == 0) || got.Has(TermSetOf([]byte("porto"))) || got.Has(TermSetOf([]byte("redis"))) {
			t.Errorf("%.40q: %x", text, got)
		}
	}
}

// TestTermSet compares sets of eight terms with other terms. Files contain the bits.
func TestTermSet(t *testing.T) {
	if got := TermSetOf([]byte("port")); got != 0x8100000000100000 {
		t.Errorf("%#x", uint64(got))
	}
	term := func(i int) TermSet { return TermSetOf(fmt.Appendf(nil, "word%d", i)) }
	wrong := 0
	for i := range 1000 {
		var set TermSet
		for k := range 8 {
			set |= term(8*i + k)
		}
		if !set.Has(term(8*i)) || !set.Has(term(8*i+7)) {
			t.Errorf("set %d lacks a term", i)
		}
		if set.Has(term(8*i + 8)) {
			wrong++
		}
	}
	if wrong > 45 {
		t.Errorf("%d of 1000 sets have another term", wrong)
	}
}
