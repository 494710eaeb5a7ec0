package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLossy(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"héllo", "héllo"},
		{"a\xffb", "a\uFFFDb"},
		{"\xff\xfe", "\uFFFD\uFFFD"},
		{"\xe2\x82", "\uFFFD"}, // the beginning of one character
		{"\xe2\x82\xe2\x82\xac", "\uFFFD€"},
		{"\xf0\x9f\x98x", "\uFFFDx"},
		{"\xf0\x80\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"}, // overlong: every byte is invalid
		{"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},           // a surrogate
		{"\x80\x80", "\uFFFD\uFFFD"},
		{"\uFFFD", "\uFFFD"},
	} {
		if got := lossy([]byte(c.in)); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestBounded(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 0, ""},
		{"abcd", 4, "abcd"},
		{"abcde", 4, "abcd\n... [1 bytes left out]"},
		{"a\xffb", 3, "a\uFFFDb"},
		{"abcé", 4, "abc\n... [2 bytes left out]"},
		{"ab€", 4, "ab\n... [3 bytes left out]"},
		{"a😀", 4, "a\n... [4 bytes left out]"},
		{"😀", 3, "\n... [4 bytes left out]"},
		{"abc\xff\xff", 4, "abc\uFFFD\n... [1 bytes left out]"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\uFFFD\n... [1 bytes left out]"},
	} {
		if got := bounded(c.text, c.n); got != c.want {
			t.Errorf("bounded(%q, %d) = %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

func TestAppendJSON(t *testing.T) {
	var all []rune
	for r := rune(0); r < 0x300; r++ {
		all = append(all, r)
	}
	text := string(all) + "\u2028\u2029<&>😀"
	b := appendJSON(nil, text)
	var back string
	if err := json.Unmarshal(b, &back); err != nil || back != text {
		t.Errorf("%v; came back as %q", err, back)
	}
	if len(b)-2 > jsonLen([]byte(text)) {
		t.Errorf("%d bytes, and %d were foreseen", len(b)-2, jsonLen([]byte(text)))
	}
	if !strings.HasSuffix(string(b), "\u2028\u2029<&>😀\"") {
		t.Errorf("escaped without need: %s", b[len(b)-40:])
	}
}

// TestCapture compares the captured part of random output with the complete
// output.
func TestCapture(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "\n", "é", "€", "😀", "\xff", "\x00", `"`, "plain words ", strings.Repeat("x", 100)}
	for range 3000 {
		c := &Capture{max: 1 + r.IntN(400)}
		var all []byte
		for range r.IntN(40) {
			var p []byte
			for range r.IntN(8) {
				p = append(p, pieces[r.IntN(len(pieces))]...)
			}
			c.Write(p)
			all = append(all, p...)
		}
		budget := 100 + r.IntN(2000)
		got := c.Text(budget)
		if !utf8.ValidString(got) || len(appendJSON(nil, got))-2 > budget {
			t.Fatalf("%d bytes as JSON of at most %d: %q", len(appendJSON(nil, got))-2, budget, got)
		}
		head, rest, cut := strings.Cut(got, "\n... [")
		if !cut {
			if got != lossy(all) {
				t.Fatalf("got %q, want %q", got, lossy(all))
			}
			continue
		}
		count, tail, _ := strings.Cut(rest, " bytes left out] ...\n")
		n, err := strconv.Atoi(count)
		if err != nil || n <= 0 {
			t.Fatalf("left out %q", count)
		}
		// One position of the output must give the two visible ends.
		found := false
		for i := 0; i+n <= len(all) && !found; i++ {
			found = lossy(all[:i]) == head && lossy(all[i+n:]) == tail
		}
		if !found {
			t.Fatalf("%d of %d bytes left out of %q: %q", n, len(all), all, got)
		}
	}
}

// TestCaptureBudget checks how much of long output is shown: two equal parts.
func TestCaptureBudget(t *testing.T) {
	c := &Capture{max: 1000}
	c.Write(bytes.Repeat([]byte("x"), 10_000))
	for budget, want := range map[int]int{0: 0, 64: 0, 66: 1, 264: 100, 2000: 500} {
		part := strings.Repeat("x", want)
		if got, want := c.Text(budget), fmt.Sprintf("%s\n... [%d bytes left out] ...\n%s", part, 10_000-2*want, part); got != want {
			t.Errorf("budget of %d bytes: %q, want %q", budget, got, want)
		}
	}
}

func TestBashResult(t *testing.T) {
	written := func(text string) *Capture {
		c := &Capture{max: bashMaxOutput}
		c.Write([]byte(text))
		return c
	}
	if got, want := bashResult(-1, written("o\"<&>\u2028\n"), written("e")), "{\"exit_code\":-1,\"stderr\":\"e\",\"stdout\":\"o\\\"<&>\u2028\\n\"}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	zeros, plain := string(make([]byte, 40<<10)), strings.Repeat("x", 30<<10)
	for _, c := range []struct {
		out, errs string
		whole     string // the complete stream
	}{{zeros, zeros, ""}, {zeros, "short", "stderr"}, {"short", zeros, "stdout"}, {plain, zeros, "stdout"}, {plain, plain, "both"}, {zeros, plain, "stderr"}} {
		got := bashResult(0, written(c.out), written(c.errs))
		var r struct{ Stdout, Stderr string }
		if err := json.Unmarshal([]byte(got), &r); err != nil || len(got) > MaxOutput {
			t.Errorf("%d bytes: %v", len(got), err)
		}
		if (c.whole == "stdout" || c.whole == "both") != (r.Stdout == c.out) || (c.whole == "stderr" || c.whole == "both") != (r.Stderr == c.errs) {
			t.Errorf("%q: %d bytes of stdout are left, %d of stderr", c.whole, len(r.Stdout), len(r.Stderr))
		}
		if c.whole == "" && len(got) < MaxOutput*9/10 {
			t.Errorf("only %d bytes", len(got))
		}
	}
	// The count is of bytes that were printed.
	c := &Capture{max: 1 << 10}
	for range 1000 {
		fmt.Fprint(c, strings.Repeat("y\n", 500))
	}
	if got, want := c.Text(1<<20), strings.Repeat("y\n", 256)+fmt.Sprintf("\n... [%d bytes left out] ...\n", 1000*1000-1024)+strings.Repeat("y\n", 256); got != want {
		t.Errorf("got %q", got)
	}
	if !bytes.Equal(c.head, []byte(strings.Repeat("y\n", 256))) {
		t.Error("the head is not the beginning")
	}
}
