package scan

import (
	"encoding/base64"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
)

// checkText checks the invariants of Find and Replace.
func checkText(t *testing.T, text string) {
	t.Helper()
	list := Find(text)
	at := 0
	for _, m := range list {
		if m.Start < at || m.End <= m.Start || m.End > len(text) || m.Kind == "" {
			t.Fatalf("Find(%q) = %v", text, list)
		}
		at = m.End
	}
	redacted := Replace(text, Find(text))
	if rest := Find(redacted); len(rest) > 0 {
		t.Fatalf("Find(Replace(%q) = %q) = %v", text, redacted, rest)
	}
	if again := Replace(redacted, Find(redacted)); again != redacted {
		t.Fatalf("Replace(%q) = %q", redacted, again)
	}
}

// tangle returns keys, names, and signs without spaces between most of them.
func tangle(r *rand.Rand) string {
	var b strings.Builder
	kinds := slices.Sorted(maps.Keys(composed))
	for range 1 + r.IntN(8) {
		switch r.IntN(8) {
		case 0:
			before, secret, after := composed[kinds[r.IntN(len(kinds))]](r)
			b.WriteString(before + secret + after)
		case 1:
			b.WriteString([]string{"://", "://u:", ":", "@h", "-----BEGIN ", "PRIVATE KEY-----", "Authorization: Bearer ", "\xff", "\n", " ", "\\n"}[r.IntN(11)])
		case 2:
			b.WriteString(to(std, 1, 70).random(r))
		case 3:
			words := strings.Fields(rules[r.IntN(len(rules))].keys)
			b.WriteString(words[r.IntN(len(words))])
		default:
			before, secret, after := keys[r.IntN(len(keys))].random(r)
			b.WriteString(before + secret[:len(secret)-r.IntN(2)*r.IntN(len(secret))] + after)
		}
		b.WriteString([]string{"", "", "-", ".", "/", "=", "_", ":", "+", "~", "@", " ", "\""}[r.IntN(13)])
	}
	return b.String()
}

// TestNearMarkers checks texts that would become secrets if Redact replaced a key in
// them and no rule looked for markers.
func TestNearMarkers(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	token := "ghp_" + n(alnum, 36).random(r)
	line, md5 := n(std, 64).random(r), n(hex, 32).random(r)
	azure := "abc8Q~" + n(alnum, 34).random(r)
	for _, text := range []string{
		"Authorization: Basic " + base64.RawStdEncoding.EncodeToString([]byte("app:s3cretword")) + "/" + token,
		"Server=db;Password=" + n(alnum, 100).random(r) + "-" + token + ";",
		"Server=db;Password=s3cret-" + token + "...;",
		"Server=db;A=" + strings.Repeat("a ", 106) + token + ";Password=s3cretword;",
		"-----BEGIN PRIVATE KEY-----\n" + token + "\n" + line,
		"-----BEGIN PRIVATE KEY-----\nComment: " + strings.Repeat("a ", 80) + token + "\n" + line,
		"-----BEGIN PRIVATE KEY-----00000Database=000011;Pwd=s3cret: ",
		"-----BEGIN PRIVATE KEY-----\n" + line + "\n-----END PRIVATE KEY-----sk-" + md5,
		"-----BEGIN PRIVATE KEY-----\n" + line + "_" + azure[1:],
		"glpat-" + n(alnum, 20).random(r) + "-key-" + md5,
		azure[:len(azure)-1] + "~" + azure,
		"xoxp-" + strings.Repeat("1234567890-", 3) + n(alnum, 28).random(r) + "-pscale_tkn_" + n(alnum, 40).random(r),
	} {
		checkText(t, text)
	}
}

// TestTangles checks texts in which keys overlap, adjoin, and are cut.
func TestTangles(t *testing.T) {
	count := 30_000
	if testing.Short() {
		count = 2000
	}
	r := rand.New(rand.NewPCG(11, 12))
	for range count {
		checkText(t, tangle(r))
	}
	for range count / 1000 {
		text := tangle(r)
		for i := range len(text) {
			checkText(t, text[:i])
			checkText(t, text[i:])
		}
	}
	t.Logf("texts: %d checked", count)
}

func FuzzFind(f *testing.F) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 200 {
		f.Add(tangle(r))
	}
	f.Fuzz(func(t *testing.T, text string) {
		began := time.Now()
		checkText(t, text)
		gate.Time(t, "a text", began, 2*time.Second)
		for i := 0; i < len(text); i += 1 + len(text)/16 {
			checkText(t, text[:i])
			checkText(t, text[i:])
		}
	})
}

// TestLinear searches texts that make a search read the same bytes again and again,
// if it can. A quadratic search of one of them takes minutes.
func TestLinear(t *testing.T) {
	const size = 1 << 20
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	pieces := []string{"-eyJ", "eyJaaaaaaaaaaaaaaaaaaaa.", "glpat-glagent-", "://u:p@", ":", "-----BEGIN PRIVATE KEY-----X: ", "-----BEGIN PRIVATE KEY-----\n", "Private-Lines: 1\n",
		"Server=;pwd=", "host=;pwd=abcd1234;", "Authorization: Bearer ", "authorization=", "sk-", ".atlasv1.", ":AA", "1:AA", "-us1", "0Q~", "MT", "A/", "aB3-sq0atp-", "\xff", "ghp_"}
	for _, p := range pieces {
		for _, tail := range []string{"", ".eyJaaaaaaaaaaaaaaaaaaaaa.", " " + p} {
			text := strings.Repeat(p, size/len(p)) + tail
			began := time.Now()
			Find(text)
			if d := time.Since(began); d > time.Minute {
				t.Errorf("%d bytes of %q took %v", len(text), p, d)
			}
		}
	}
	t.Logf("texts: %d checked", 3*len(pieces))
}

func BenchmarkFind(b *testing.B) {
	r := rand.New(rand.NewPCG(15, 16))
	text := words(r, 1<<18)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if len(Find(text)) > 0 {
			b.Fatal("found a secret in prose")
		}
	}
}
