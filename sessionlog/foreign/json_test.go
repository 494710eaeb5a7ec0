package foreign

import "testing"

// TestLoneSurrogate finds the first half of a surrogate pair that has no other
// half next to it.
func TestLoneSurrogate(t *testing.T) {
	for s, want := range map[string]int{
		``:                            -1,
		`plain`:                       -1,
		`\ud83e\udd80`:                -1,
		`\uD83E\uDD80`:                -1,
		`x\ud83e\udd80\ud83e\udd80x`:  -1,
		`\u0064\n`:                    -1,
		`\\ud83e`:                     -1, // an escaped backslash
		`\\\ud83e`:                    2,
		`\ud83e`:                      0,
		`\udd80`:                      0,
		`\ud83e\ud83e`:                0, // two first halves
		`\udd80\udd80`:                0, // two second halves
		`\udd80\ud83e`:                0, // in the wrong order
		`\ud83ex\udd80`:               0,
		`\ud83e\u0064`:                0,
		`\ud83e\n`:                    0,
		`\ud83e\udd8`:                 0, // the text ends
		`\ud83e\udd80\udd80`:          12,
		`\ud83e\udd80\ud83e`:          12,
		`x\ud83e\udd80x\udbff`:        14,
		`\ud800\udc00\udbff\udfff`:    -1, // the bounds
		`\ud7ff\ue000`:                -1, // next to the bounds
		`\udbff\udfff\udc00`:          12,
		`\ud83e\\udd80`:               0,
		`{"a":"\ud83e","b":"\udd80"}`: 6,
	} {
		if got := LoneSurrogate(s); got != want {
			t.Errorf("LoneSurrogate(%s) = %d, want %d", s, got, want)
		}
	}
}
