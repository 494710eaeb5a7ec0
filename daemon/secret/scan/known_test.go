package scan

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestKnown finds random values in prose, in each form, and no value of fewer than 8
// bytes or that is a placeholder for a secret.
func TestKnown(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	count := 0
	for range 300 {
		value := to(alnum+"-_/+=.!%&\"<é ", minValue, 60).random(r)
		if len(value) < minValue || value != strings.ToValidUTF8(value, "") || isDummy(value) {
			continue
		}
		js, _ := json.Marshal(value)
		escaped := strings.Trim(string(js), `"`)
		pad := to(alnum, 0, 5).random(r)
		k := NewKnown([]string{"other-" + value[:4] + "-value", value})
		for name, text := range map[string]string{
			"plain": value, "json": escaped, "hex": fmt.Sprintf("%x", value), "HEX": fmt.Sprintf("%X", value), "query": url.QueryEscape(value), "path": url.PathEscape(value),
			"base64": base64.StdEncoding.EncodeToString([]byte(pad + value + pad)), "base64url": base64.RawURLEncoding.EncodeToString([]byte(pad + value)),
		} {
			whole, at := surround(r, text)
			found := k.Find(whole)
			if !slices.ContainsFunc(found, func(m Match) bool {
				return m.Start < at+len(text) && m.End > at && m.End-m.Start >= len(text)-8-4*len(pad)
			}) {
				t.Errorf("%s: %q in %q: %v", name, value, whole, found)
			}
			count++
		}
	}
	t.Logf("values: %d checked", count)
	for _, v := range []string{"", "1234567", "abcdefg", "changeme", "ChangeMe", "password", "xxxxxxxx", "12345678", "00000000", "credentials", "redacted", "placeholder"} {
		if found := NewKnown([]string{v}).Find("a " + v + " b"); len(found) > 0 {
			t.Errorf("%q: %v", v, found)
		}
	}
	var none *Known
	if found := none.Find("plain text"); len(found) > 0 {
		t.Error(found)
	}
}

// TestStream sends texts with secrets in random pieces: each has its marker in the result,
// in which no part of a secret is, except for the first characters.
func TestStream(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	value := "tr0ub4dor-and-3"
	known := NewKnown([]string{value, "the other value"})
	secrets := 0
	for range 1000 {
		var text string
		var parts []string
		for range 1 + r.IntN(3) {
			k := keys[r.IntN(len(keys))]
			before, secret, after := k.random(r)
			switch r.IntN(6) {
			case 0:
				before, secret, after = "", value, ""
			case 1:
				before, secret, after = "", base64.StdEncoding.EncodeToString([]byte(value)), ""
			case 2:
				before, secret, after = composed["pem-private-key"](r)
			case 3:
				before, secret, after = composed["bearer-token"](r)
			}
			one, _ := surround(r, before+secret+after)
			text += one + " "
			for i := 9; i+8 <= len(secret); i++ {
				if part := secret[i : i+8]; entropy(part) > 2 && !strings.Contains(part, "-----") {
					parts = append(parts, part)
				}
			}
			secrets++
		}
		want, _ := known.Redact(text)
		s, got := NewStream(known), ""
		for rest := text; rest != ""; {
			n := min(len(rest), 1+r.IntN(12))
			for n < len(rest) && rest[n]&0xc0 == 0x80 {
				n++
			}
			got += s.Add(rest[:n])
			rest = rest[n:]
		}
		got += s.End()
		part := slices.IndexFunc(parts, func(p string) bool { return strings.Contains(got, p) })
		if len(known.Find(got)) > 0 || part >= 0 || strings.Count(got, markerStart) != strings.Count(want, markerStart) {
			t.Fatalf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
	t.Logf("streams: %d secrets in pieces", secrets)
}

// TestStreamProse: what is held back of prose is less than a word, or a long word.
func TestStreamProse(t *testing.T) {
	s, sent := NewStream(nil), 0
	text := strings.Repeat("Half of the answer, with a path and a key: tools/x. ", 20)
	for i := range len(text) {
		sent += len(s.Add(text[i : i+1]))
		if held := i + 1 - sent; held > 12 {
			t.Fatalf("%d bytes held at %q", held, text[max(0, i-30):i+1])
		}
	}
	var nothing *Stream
	if nothing.Add("x") != "x" || nothing.End() != "" {
		t.Error("a nil stream")
	}
}
