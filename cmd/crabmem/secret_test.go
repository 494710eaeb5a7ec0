package main

import (
	"testing"
)

func TestUsesSecret(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "secret:a": true, "api_key = 'secret:a'": true, "x = '${secret:a}'": true, "'secret:a-b'": false, "'secret:ab'": false,
		"'secret:a-b' 'secret:a'": true, "secret:": false, "secret:b": false,
	} {
		if got := usesSecret(text, "a"); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
