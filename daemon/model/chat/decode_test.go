package chat

import "testing"

// TestArgumentsExact checks that decoding replaces nothing in the arguments of
// a call, and that a split character in a stream is unchanged.
func TestArgumentsExact(t *testing.T) {
	for _, c := range []struct {
		pieces []string // each as the JSON of one chunk
		want   string
	}{
		{[]string{`"{\"a\":\"\ud83d\ude00 \\u0041 \u00e9\"}"`}, `{"a":"😀 \u0041 é"}`},
		{[]string{`"{\"a\":\"\ud83d"`, `"\ude00\"}"`}, `{"a":"\ud83d\ude00"}`},
		{[]string{`"{\"a\":\"\ud83d!\"}"`}, `{"a":"\ud83d!"}`},
		{[]string{`"{\"a\":\"\\ud800 \\\\ud800\"}"`}, `{"a":"\ud800 \\ud800"}`},
		{[]string{"\"{\\\"a\\\":\\\"\xff\\\"}\""}, `{"a":"\udcff"}`},
		{[]string{"{\"a\":\"\xff \\ud800 \\\\ud800\"}"}, `{"a":"\udcff \ud800 \\ud800"}`},
		{[]string{`"\u0041\n\\"`}, "A\n\\"},
		{[]string{`null`}, ``},
		{[]string{`1`}, ``},
	} {
		got := ""
		for _, p := range c.pieces {
			var a arguments
			if err := a.UnmarshalJSON([]byte(p)); err != nil {
				t.Errorf("%q: %v", p, err)
			}
			got += string(a)
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.pieces, got, c.want)
		}
	}
}

// TestArgumentsInHistory: no request contains arguments with a lone surrogate,
// which endpoints refuse.
func TestArgumentsInHistory(t *testing.T) {
	for args, want := range map[string]string{
		``: `{}`, `{"a":"\ud83d\ude00"}`: `{"a":"\ud83d\ude00"}`, `{"a":"\\ud800"}`: `{"a":"\\ud800"}`,
		`{"a":"\ud800"}`: `{"invalid_arguments":"{\"a\":\"\\ud800\"}"}`, `{"\udc00":1}`: `{"invalid_arguments":"{\"\\udc00\":1}"}`,
	} {
		if got := argumentsObject(args); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}
