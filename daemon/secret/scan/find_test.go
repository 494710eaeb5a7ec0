package scan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const perKind = 100

var prose = strings.Fields(`the deploy key of our staging service is in this note and we rotate it each quarter
ask Maria before you push to main then watch the canary for ten minutes logs live under /var/log/app and the
dashboard shows latency errors traffic remember that task-runner needs sudo 密钥 в конфигурации schlüssel`)

// words returns prose of some words.
func words(r *rand.Rand, count int) string {
	list := make([]string, count)
	for i := range list {
		list[i] = prose[r.IntN(len(prose))]
	}
	return strings.Join(list, " ")
}

// surround puts a text into prose, and returns its offset.
func surround(r *rand.Rand, text string) (string, int) {
	open := []string{" ", "\n", "=", " \"", " (", ": ", " `", "：", "是", "/", `\n`, `\t`}[r.IntN(12)]
	end := []string{" ", "\n", ". ", ", ", "\" ", ") ", "` ", "。", "; ", "<br>", `\n`}[r.IntN(11)]
	lead := words(r, r.IntN(30)) + open
	return lead + text + end + words(r, r.IntN(30)), len(lead)
}

// TestFind finds random keys of each kind in prose, with exact offsets.
func TestFind(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tested := make(map[string]bool)
	missed := 0
	check := func(kind string, random func(r *rand.Rand) (before, secret, after string)) {
		tested[kind] = true
		for range perKind {
			before, secret, after := random(r)
			text, at := surround(r, before+secret+after)
			at += len(before)
			want := []Match{{kind, at, at + len(secret)}}
			if got := Find(text); !slices.Equal(got, want) {
				if missed++; missed < 20 {
					t.Errorf("%s: Find(%q) = %v, want %v", kind, text, got, want)
				}
				continue
			}
			redacted := Replace(text, Find(text))
			if want := text[:at] + "[redacted: " + kind + "]" + text[at+len(secret):]; redacted != want {
				t.Errorf("Replace(%q) = %q, want %q", text, redacted, want)
			}
		}
	}
	for _, k := range keys {
		check(k.kind, k.random)
	}
	for _, kind := range slices.Sorted(maps.Keys(composed)) {
		check(kind, composed[kind])
	}
	kinds := allKinds()
	for _, kind := range kinds {
		if !tested[kind] {
			t.Errorf("no test has the kind %s", kind)
		}
	}
	t.Logf("keys: %d of %d kinds, %d missed", perKind*(len(keys)+len(composed)), len(kinds), missed)
	if len(kinds) < 45 {
		t.Errorf("%d kinds, want 45 or more", len(kinds))
	}
}

// misses returns texts that each differ from a key in one way, by name.
func (k key) misses(r *rand.Rand) map[string]string {
	build := func(change func(i int, s string) string) string {
		text := ""
		for i, p := range k.pieces {
			text += change(i, p.random(r))
		}
		return text
	}
	same := func(_ int, s string) string { return s }
	var runs, fixed []int
	for i, p := range k.pieces {
		if p.alphabet != "" {
			runs = append(runs, i)
		} else if len(p.fixed) > 2 {
			fixed = append(fixed, i)
		}
	}
	list := make(map[string]string)
	last := runs[len(runs)-1]
	list["entropy"] = build(func(i int, s string) string {
		if k.pieces[i].alphabet == "" {
			return s
		}
		return strings.Repeat(s[:1], len(s))
	})
	if k.part {
		return list
	}
	list["short"] = build(func(i int, s string) string {
		if i == last {
			return s[:k.pieces[i].low-1]
		}
		return s
	})
	if len(fixed) > 0 {
		at := fixed[r.IntN(len(fixed))]
		list["prefix"] = build(func(i int, s string) string {
			if i != at {
				return s
			}
			b := []byte(s)
			c := &b[r.IntN(len(b))]
			for !isAlnum(*c) {
				c = &b[r.IntN(len(b))]
			}
			*c = map[bool]byte{true: 'Z', false: 'Y'}[*c != 'Z']
			return string(b)
		})
	}
	list["alphabet"] = build(func(i int, s string) string {
		if i != last {
			return s
		}
		at := r.IntN(k.pieces[i].low)
		return s[:at] + string("!#§ "[r.IntN(2)]) + s[at+1:]
	})
	list["embedded"] = "x" + build(same)
	if first := k.pieces[0].alphabet; first != "" {
		list["embedded"] = first[:1] + strings.Repeat(first[:1], k.pieces[0].high-k.pieces[0].low) + list["embedded"][1:]
	}
	if !k.open {
		s := build(same)
		for !isWord(s[len(s)-1]) && !strings.HasSuffix(s, "=") {
			s = build(same)
		}
		if isWord(s[len(s)-1]) {
			list["long"] = s + strings.Repeat("0", 1+k.pieces[last].high-k.pieces[last].low)
		}
	}
	return list
}

// TestFindMisses finds no secret in texts that are nearly keys.
func TestFindMisses(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	counts := make(map[string]int)
	failed := 0
	check := func(kind, name, miss string) {
		text, _ := surround(r, miss)
		counts[name]++
		if got := Find(text); len(got) > 0 {
			if failed++; failed < 20 {
				t.Errorf("%s, %s: Find(%q) = %v", kind, name, text, got)
			}
		}
	}
	for _, k := range keys {
		for range perKind {
			misses := k.misses(r)
			for _, name := range slices.Sorted(maps.Keys(misses)) {
				before, _, after := k.random(r)
				if before != "" && name == "embedded" {
					continue // the name precedes the key, and may continue a word
				}
				check(k.kind, name, before+misses[name]+after)
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(composed)) {
		for range perKind {
			for _, change := range changes[kind] {
				before, secret, after := composed[kind](r)
				check(kind, "changed", strings.NewReplacer(change...).Replace(before+secret+after))
			}
		}
		if len(changes[kind]) == 0 {
			t.Errorf("no near misses of %s", kind)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("near misses, %s: %d checked", name, counts[name])
	}
}

// TestFindNone finds no secret in placeholders and examples.
func TestFindNone(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	line := n(std, 64).random(r)
	texts := []string{
		"AKIA" + "IOSFODNN7EXAMPLE", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
		"sk-ant-api03-" + strings.Repeat("x", 93) + "AA", "ghp_" + "EXAMPLE" + n(alnum, 29).random(r), "sk-...", "sk-proj-...", "ghp_…", "hf_your_token_here",
		"-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nMIIEvQ...\n-----END PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----\n<key>\n-----END RSA PRIVATE KEY-----",
		"a block begins with -----BEGIN EC PRIVATE KEY----- and its label says what the following data contains",
		"-----BEGIN PUBLIC KEY-----\n" + line + "\n-----END PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----\n" + line + "\n-----END CERTIFICATE-----",
		"----BEGIN PRIVATE KEY-----\n" + line, "-----BEGIN PRIVATE KEY----\n" + line, "-----BEGIN PRIVATE KEY-----\n" + line[:19], "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("A", 64),
		"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n" + line, "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n" + line[:19],
		"Private-Lines:\n" + line, "Private-Lines: 1\n" + line[:19], "Public-Lines: 1\n" + line,
		"postgres://user:password@host/db", "postgres://user:***@host", "postgres://user:<password>@host", "postgres://user:${PGPASSWORD}@host", "postgres://user:$PASS@host",
		"postgres://user:{{password}}@host", "postgres://user:{password}@host", "https://user:example@host", "https://user:pass@host", "https://app:app@host", "https://%s:%s@host",
		"https://user:xxxxxx@host", "https://user:YOUR_PASSWORD@host", "https://user:my-secret-password@host", "http://host:8080@other", "https://user@host:443/x", "https://host:443/a@b",
		"//user:s3cr3tvalue@host", "://user:s3cr3tvalue@host", "https://user:s3cr3t value@host", "https://user/x:s3cr3tvalue@host", "git@host:s3cr3tvalue/repo", "https://user:@host", "https://a:b@c",
		"redis://:redacted@host", "https://user:....@host", "https://user:abcd...@host",
		"Server=db;Password=password;", "Server=db;Password=;", "Server=db;Password=${X};", "x = 1;password=t.value1;", "Server=db Password=s3cr3tvalue", "Server=db\nx;Password=s3cr3tvalue",
		"Authorization: Bearer <token>", "Authorization: Bearer $TOKEN", "Authorization: Bearer YOUR_ACCESS_TOKEN_WITH_ALL_WORDS", "Authorization: Bearer " + strings.Repeat("x", 40),
		"Authorization: Bearer short-1234", "Authorization: Bearer this-is-only-a-sequence-of-words", "the Authorization Bearer " + n(alnum, 40).random(r), "Authorization: Digest " + n(alnum, 40).random(r),
		"Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Authorization: Basic realm", "Authorization: Basic " + line,
		"cache-key-" + n(hex, 32).random(r), "my-sk-" + n(hex, 32).random(r), "monkey-" + n(hex, 32).random(r),
		"secret_access_key", "SecretAccessKey: " + n(alnum, 39).random(r), "SecretAccessKey: " + n(alnum, 41).random(r), "access_key: " + n(alnum, 40).random(r),
	}
	for range perKind {
		user, word := n(lower, 5).random(r), placeholders[r.IntN(len(placeholders))]
		texts = append(texts, "https://"+user+":"+word+"@host/x", "Server=db;Pwd="+word+";", "https://"+user+":"+strings.ToUpper(word)+"1@host", "https://"+user+":"+user+"@host",
			fmt.Sprintf("https://%s:%d@host", user, r.IntN(1<<16)), "-----BEGIN PRIVATE KEY-----\n"+to(std, 1, minData-1).random(r)+"\n-----END PRIVATE KEY-----",
			"Authorization: Bearer "+to(alnum, 1, minBearer-1).random(r), "Authorization: Bearer "+to(lower+"-", 20, 60).random(r))
	}
	for _, text := range texts {
		if got := Find(text); len(got) > 0 {
			t.Errorf("Find(%q) = %v", text, got)
		}
	}
	t.Logf("placeholders: %d checked", len(texts))
}

// TestFindOverlaps checks the union of secrets that overlap.
func TestFindOverlaps(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	token := "ghp_" + n(alnum, 36).random(r)
	for _, c := range []struct{ text, want string }{
		{"https://x:" + token + "@github.com/a", "https://x:[redacted: github-token]@github.com/a"},
		{"https://x:s3cret-" + token + "@github.com/a", "https://x:[redacted: url-password]@github.com/a"},
		{"https://" + token + ":s3cretvalue@github.com", "https://[redacted: github-token]:[redacted: url-password]@github.com"},
		{"https://" + token + "@github.com/a", "https://[redacted: github-token]@github.com/a"},
		{"Authorization: Bearer " + token, "Authorization: Bearer [redacted: github-token]"},
		{token + "," + token, "[redacted: github-token],[redacted: github-token]"},
		{"glpat-" + n(alnum, 20).random(r) + "-" + token, "[redacted: gitlab-token]"},
		{"https://u:p@ss1word@host", "https://u:[redacted: url-password]@host"},
		{"postgres://app:s3cretvalue@$HOST", "postgres://app:[redacted: url-password]@$HOST"},
		{"AWS_SECRET_ACCESS_KEY=" + token, "AWS_SECRET_ACCESS_KEY=[redacted: github-token]"},
	} {
		if got := Replace(c.text, Find(c.text)); got != c.want {
			t.Errorf("Replace(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

// TestForms compares the rules with package regexp, which backtracks, on texts that
// nearly have their form.
func TestForms(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	s := loaded()
	if len(s.buckets) > 255 {
		t.Fatalf("%d buckets", len(s.buckets))
	}
	compared := 0
	for i, rule := range rules {
		if rule.find != nil {
			continue
		}
		last := len(s.forms[i].parts) - 1
		sample := 0
		for k, p := range s.forms[i].parts {
			sample += p.min
			next := s.forms[i].parts[min(k+1, last):]
			for c := range 256 {
				if k == last || p.set == nil || p.min == p.max && p.max > 0 || !p.set[c] {
					continue
				}
				for _, q := range next {
					if q.set == nil && q.text[0] == byte(c) || q.set != nil && q.set[c] {
						t.Errorf("%s: %s: part %d and the next accept %q", rule.kind, rule.form, k, rune(c))
					}
					if q.set == nil || q.min > 0 {
						break
					}
				}
			}
		}
		if p := s.forms[i].parts[last]; p.set != nil && p.max == 0 && !isSubset(p.set, isAlnum) && !isSuperset(p.set) {
			t.Errorf("%s: %s: the last run accepts a sign, but not every character of words", rule.kind, rule.form)
		}
		if sample > maxSample {
			t.Errorf("%s: %d characters are sampled, at most %d are", rule.kind, sample, maxSample)
		}
		re := regexp.MustCompile(`^(?:` + rule.form + `)`)
		for _, k := range keys {
			if k.kind != rule.kind {
				continue
			}
			for range 20 {
				_, text, _ := k.random(r)
				word, _, _ := strings.Cut(rule.keys, " ")
				_, text, _ = strings.Cut(text, word)
				cut := text[:r.IntN(len(text)+1)] + []string{"", " ", "-", "=", "!", "==", "0."}[r.IntN(7)]
				compare(t, i, cut, re)
				compared++
			}
		}
	}
	t.Logf("texts: %d compared", compared)
}

func isSubset(s *set, of func(byte) bool) bool {
	for c := range 256 {
		if s[c] && !of(byte(c)) {
			return false
		}
	}
	return true
}

func isSuperset(s *set) bool {
	for c := range 256 {
		if isWord(byte(c)) && !s[c] {
			return false
		}
	}
	return true
}

// compare compares the length of the match of a rule's parts with that of re.
func compare(t *testing.T, rule int, text string, re *regexp.Regexp) {
	t.Helper()
	s := search{text: text, scanner: loaded()}
	at, ok := 0, true
	for i := range s.forms[rule].parts {
		p := &s.forms[rule].parts[i]
		if p.set == nil {
			ok = ok && strings.HasPrefix(text[min(at, len(text)):], p.text)
			at += len(p.text)
			continue
		}
		length := 0
		if ok {
			length = s.run(p, at)
		}
		ok = ok && length >= p.min
		at += length
	}
	m := re.FindStringIndex(text)
	if ok != (m != nil) || ok && m[1] != at {
		t.Errorf("%s: %q: parts end at %d, %v; the regular expression matches %v", rules[rule].kind, text, at, ok, m)
	}
}

// TestMarkers finds no secret in markers.
func TestMarkers(t *testing.T) {
	for _, kind := range allKinds() {
		for _, text := range []string{marker(kind), marker(kind) + marker(kind), "https://u:" + marker(kind) + "@host", "Authorization: Bearer " + marker(kind), "Server=x;Password=" + marker(kind)} {
			if got := Find(text); len(got) > 0 {
				t.Errorf("Find(%q) = %v", text, got)
			}
		}
		if strings.Trim(kind, lower+"-0123456789") != "" {
			t.Errorf("kind %q", kind)
		}
	}
}

// allKinds returns the kinds that Find can return, sorted.
func allKinds() []string {
	kinds := make([]string, len(rules))
	for i, r := range rules {
		kinds[i] = r.kind
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
