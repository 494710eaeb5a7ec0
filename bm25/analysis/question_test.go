package analysis

import "testing"

func TestHasQuestion(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "deploy": false, "which port?": true, "?": true, "Which? This.": true, "\"which?\"": true, "(which?)": true, "*which?*": true,
		"which?\nthis": true, "which?\tthis": true, "which?\r": true, "'which?'": true, "what?!": true, "what??": true, "¿qué?": true,
		"/list?page=2": false, "a?b:c": false, "a?.b": false, "x?: y": false, "a?b or c?": true,
		"哪个？": true, "أي؟ نعم": true, "哪个": false,
	} {
		if got := HasQuestion(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
