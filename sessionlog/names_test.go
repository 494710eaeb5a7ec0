package sessionlog

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"
	"crabmem/fuzz/sessionref"
)

func TestSlug(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"", ""},
		{"user", "user"},
		{"tg:1", "tg-1"}, // the same as the next: who it is, the meta line says
		{"tg-1", "tg-1"},
		{":", ""},
		{"---", ""},
		{"-- tg::1 -", "tg-1"},
		{"my_agent", "my-agent"},
		{"team/crab", "team-crab"},
		{`..\..\etc`, "etc"},
		{".hidden", "hidden"},
		{"Which Port?", "which-port"},
		{"C++ and C#", "c-and-c"},
		{"6688", "6688"},
		{"a\x00b\nc\u0085d", "a-b-c-d"},
		{"a\xffb\xc3", "a-b"},
		{"日本語 の題", "日本語-の題"},
		{"ÉCOLE Ünd ΣΊΣΥΦΟΣ", "École-Ünd-ΣΊΣΥΦΟΣ"}, // only ASCII letters change
		{"\u0130\u212a", "\u0130\u212a"},           // their lower case is, or begins with, an ASCII letter
		{"हिन्दी", "हिन-दी"},                       // vowel signs are Alphabetic, the virama is not
		{"e\u0301", "e"},               // nor is the acute accent
		{"e\u0345", "e\u0345"},         // the iota below is
		{"ⒶⓏⓐ 🅰🄰", "ⒶⓏⓐ-🅰🄰"},           // circled and squared letters are
		{"①²½ Ⅷ ٣ 〇 ৴", "①²½-Ⅷ-٣-〇-৴"}, // No, Nl, Nd
		{"a‿b＿c", "a-b-c"},             // other scripts' low lines
		{"🦀crab🦀", "crab"},
		{"ªº", "ªº"},
		{"a\u200db", "a-b"},
	} {
		if got := slugOf(c.name); got != c.want {
			t.Errorf("slug(%+q) = %+q, want %+q", c.name, got, c.want)
		}
	}
}

// TestAlphanumericIsComplete checks that the other tables from which Unicode
// derives Alphabetic add no character, so alphanumeric needs no further tables.
func TestAlphanumericIsComplete(t *testing.T) {
	letters := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.In(r, unicode.Other_Lowercase, unicode.Other_Uppercase) && !alphanumeric(r) {
			t.Errorf("%U is Alphabetic", r)
		}
		if alphanumeric(r) {
			letters++
		}
		if ascii := r < utf8.RuneSelf; ascii && alphanumeric(r) != (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			t.Errorf("%q", r)
		}
	}
	if letters < 130_000 {
		t.Errorf("%d letters and numbers", letters)
	}
}

func TestPrefixOf(t *testing.T) {
	long, longer := strings.Repeat("a", 150), strings.Repeat("語", 4000)
	hash := func(slug string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(slug)))[:8] }
	for _, c := range []struct{ agent, sender, want string }{
		{"crab", "user", "crab_user_"},
		{"crab", "tg:1", "crab_tg-1_"},
		{"", "", "__"},
		{":", "", "__"},
		{"my_agent", "user", "my-agent_user_"},
		{"../x", "a/b", "x_a-b_"},
		{long, "user", long + "_user_"},
		// 187 bytes plus or minus one: 240 less two low lines, 20 digits,
		// .jsonl and 25.
		{strings.Repeat("a", 187), strings.Repeat("b", 25), strings.Repeat("a", 187) + "_" + strings.Repeat("b", 25) + "_"},
		{strings.Repeat("a", 188), strings.Repeat("b", 25),
			strings.Repeat("a", 91) + "-" + hash(strings.Repeat("a", 188)) + "_" + strings.Repeat("b", 25) + "_"},
		{long, long, long[:91] + "-" + hash(long) + "_" + long[:91] + "-" + hash(long) + "_"},
		// Cut at a character: 30 of three bytes.
		{longer, "user", longer[:90] + "-" + hash(longer) + "_user_"},
	} {
		if got := prefixOf(c.agent, c.sender); got != c.want {
			t.Errorf("prefixOf(%.20q, %.20q) = %q, want %q", c.agent, c.sender, got, c.want)
		}
	}
}

// TestIDOf uses files of this program, of the reference, and of other programs.
func TestIDOf(t *testing.T) {
	for _, c := range []struct {
		file, agent, sender string
		id                  string
		shaped              bool
	}{
		{"crab_user_1.jsonl", "crab", "user", "crab_user_1", true},
		{"crab_user_12_which-port.jsonl", "crab", "user", "crab_user_12", true},
		{"crab_user_1_.jsonl", "crab", "user", "crab_user_1", true},
		{"crab_tg-1_1.jsonl", "crab", "tg:1", "crab_tg-1_1", true},
		{"crab_tg-1_2.jsonl", "crab", "tg-1", "crab_tg-1_2", true},
		{"crab__3.jsonl", "crab", ":", "crab__3", true},
		{"__1.jsonl", "", "", "__1", true},
		// A second title, as the reference adds it.
		{"crab_user_1_first_second.jsonl", "crab", "user", "crab_user_1", true},
		// Numbers as sender and as title.
		{"crab_5_1_7.jsonl", "crab", "5", "crab_5_1", true},
		{"crab_user_1_7.jsonl", "crab", "user", "crab_user_1", true},
		{"crab_user_18446744073709551615.jsonl", "crab", "user", "crab_user_18446744073709551615", true},
		// The reference does not slug the agent.
		{"my_agent_user_1.jsonl", "my_agent", "user", "my_agent_user_1", false},
		{"my-agent_user_1.jsonl", "my_agent", "user", "my-agent_user_1", true},
		{"Crab_user_1_title.jsonl", "Crab", "user", "Crab_user_1_title", false},
		{"crab_user_1_2.jsonl", "crab_user", "1", "crab_user_1_2", false},
		// The name of another session, and no name.
		{"crab_user_1.jsonl", "crab", "other", "crab_user_1", false},
		{"notes.jsonl", "crab", "user", "notes", false},
		{"crab_user_.jsonl", "crab", "user", "crab_user_", false},
		{"crab_user_x.jsonl", "crab", "user", "crab_user_x", false},
		{"crab_user_0.jsonl", "crab", "user", "crab_user_0", false},
		{"crab_user_01.jsonl", "crab", "user", "crab_user_01", false},
		{"crab_user_+1.jsonl", "crab", "user", "crab_user_+1", false},
		{"crab_user_1x.jsonl", "crab", "user", "crab_user_1x", false},
		{"crab_user_1-x.jsonl", "crab", "user", "crab_user_1-x", false},
		{"crab_user_٣.jsonl", "crab", "user", "crab_user_٣", false},
		{"crab_user_18446744073709551616.jsonl", "crab", "user", "crab_user_18446744073709551616", false},
		{"crab_user_1.jsonl.bak", "crab", "user", "crab_user_1.jsonl.bak", false},
		{"crab_user_1", "crab", "user", "crab_user_1", false},
	} {
		id, shaped := idOf(c.file, &Meta{Agent: c.agent, CreatedBy: c.sender})
		if id != c.id || shaped != c.shaped {
			t.Errorf("idOf(%s) of %q and %q = %q, %v, want %q, %v", c.file, c.agent, c.sender, id, shaped, c.id, c.shaped)
		}
	}
}

func TestSeqOf(t *testing.T) {
	for file, want := range map[string]uint64{
		"crab_user_1.jsonl": 1, "crab_user_42_a-title.jsonl": 42, "crab_user_7_8_9.jsonl": 7,
		"crab_user_18446744073709551615.jsonl": math.MaxUint64,
		"crab_user_1.json":                     0, "crab_user_-1.jsonl": 0, ".crab_user_1.jsonl123": 0, "crab_use": 0, "": 0,
		"crab_user_1jsonl": 0, "crab_user_1.jsonl.jsonl": 0,
	} {
		if got, ok := seqOf("crab_user_", file); got != want || ok != (want != 0) {
			t.Errorf("seqOf(%q) = %d, %v, want %d", file, got, ok, want)
		}
	}
}

// TestFileNameOfLongID gives a title to ids that leave room for few bytes.
func TestFileNameOfLongID(t *testing.T) {
	for room := range 14 {
		id := strings.Repeat("i", maxName-len("_")-len(nameExt)-room)
		for _, slug := range []string{"a", "title", "ten-bytes-", "a-title-of-24-bytes-here"} {
			slug = slugOf(slug)
			want := id + "_" + slug + nameExt
			switch {
			case len(slug) > room && room < hashedBytes:
				want = id + nameExt
			case len(slug) > room:
				want = fmt.Sprintf("%s_%s-%x%s", id, slug[:room-hashedBytes], sha256.Sum256([]byte(slug)), nameExt)
				want = want[:maxName-len(nameExt)] + nameExt
			}
			if got := fileName(id, slug); got != want {
				t.Errorf("%d bytes for %q: %s, want %s", room, slug, got[len(id):], want[len(id):])
			}
		}
	}
}

func TestFileName(t *testing.T) {
	title := strings.Repeat("long title ", 1000)
	got := fileName("crab_user_1", title)
	if want := regexp.MustCompile(`^crab_user_1_(long-title-)+[a-z-]*-[0-9a-f]{8}\.jsonl$`); len(got) != maxName || !want.MatchString(got) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if other := fileName("crab_user_1", title+"x"); other == got {
		t.Error("two long titles have one name")
	}
	// The longest id of all leaves room for little.
	id := prefixOf(strings.Repeat("語", 50), strings.Repeat("é", 100)) + "18446744073709551615"
	for title, want := range map[string]string{
		"": "", "?": "", "Port": "_port", "Which port": "_which-port",
		"Which port is it?": "_which-" + fmt.Sprintf("%x", sha256.Sum256([]byte("which-port-is-it")))[:8],
	} {
		if got := fileName("crab_user_1", title); len(title) < 12 && got != "crab_user_1"+want+".jsonl" {
			t.Errorf("%q: %s, want %s", title, got, want)
		}
		if got := fileName(id, title); len(got) > maxName || !strings.HasPrefix(got, id) {
			t.Errorf("%q: %d bytes: %s", title, len(got), got)
		}
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"crab_user_1": true, "日本_user_1": true, "a b": true, "__1": true, "-x": true, "a.b": true, strings.Repeat("x", 250): true,
		"": false, ".": false, "..": false, ".locks": false, "a/b": false, `a\b`: false, "../x": false, "/": false,
		"a\x00": false, "a\nb": false, "a\x1b[2J": false, "a\u0085": false, "\xff": false, strings.Repeat("x", 251): false,
	} {
		if validID(id) != want {
			t.Errorf("validID(%q) = %v", id, !want)
		}
	}
}

// nasty are texts that a random name is made of.
var nasty = []string{
	"a", "B", "z9", "-", "--", "_", "/", "\\", ".", "..", ":", " ", "", "1", "42", "0", "user", "crab", ".jsonl", "語", "É", "ß", "İ",
	"e\u0301", "Ⓐ", "½", "٣", "\xff", "\x00", "\n", "\u2028", "🦀", "ि", strings.Repeat("long", 30), strings.Repeat("語", 40),
}

func randomName(r *rand.Rand) string {
	var b strings.Builder
	if r.IntN(50) == 0 {
		b.WriteString(strings.Repeat("x", 10_000))
	}
	for range r.IntN(6) {
		b.WriteString(nasty[r.IntN(len(nasty))])
	}
	return b.String()
}

// checkNames is every law that names keep.
func checkNames(t *testing.T, agent, createdBy string, seq uint64, title string) {
	t.Helper()
	for _, s := range []string{agent, createdBy, title} {
		slug := slugOf(s)
		if slugOf(slug) != slug {
			t.Fatalf("slug(%q) = %q, and of that %q", s, slug, slugOf(slug))
		}
		if strings.ContainsAny(slug, "_./\\: \x00") || strings.Contains(slug, "--") || strings.Trim(slug, "-") != slug ||
			!utf8.ValidString(slug) || slug != strings.Map(asciiLower, slug) {
			t.Fatalf("slug(%q) = %q", s, slug)
		}
	}
	prefix := prefixOf(agent, createdBy)
	id := fmt.Sprintf("%s%d", prefix, seq)
	file := fileName(id, title)
	if len(file) > maxName || !strings.HasSuffix(file, nameExt) || !validID(strings.TrimSuffix(file, nameExt)) || !validID(id) {
		t.Fatalf("file of %q, %q, %d, %q: %d bytes: %q", agent, createdBy, seq, title, len(file), file)
	}
	got, shaped := idOf(file, &Meta{Agent: agent, CreatedBy: createdBy})
	n, ok := seqOf(prefix, file)
	if want := seq != 0; shaped != want || ok != want || want && (got != id || n != seq) {
		t.Fatalf("%q of %q and %q: id %q, %v, number %d, %v; want id %q", file, agent, createdBy, got, shaped, n, ok, id)
	}
}

func asciiLower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

func TestNameLaws(t *testing.T) {
	r := seed.Random(t)
	type key struct {
		prefix string
		seq    uint64
	}
	ids := make(map[string]key)
	for range 5_000 {
		agent, sender, seq := randomName(r), randomName(r), r.Uint64()>>r.IntN(64)
		checkNames(t, agent, sender, seq, randomName(r))
		k := key{prefixOf(agent, sender), seq}
		id := fmt.Sprintf("%s%d", k.prefix, k.seq)
		if old, ok := ids[id]; ok && old != k {
			t.Fatalf("%v and %v have the id %q", old, k, id)
		}
		ids[id] = k
	}
	if len(ids) < 1000 {
		t.Fatalf("only %d ids", len(ids))
	}
}

// FuzzName reads any file name as one of any session, and makes names of any
// session.
func FuzzName(f *testing.F) {
	f.Add("crab_user_1_which-port.jsonl", "crab", "user", uint64(1), "Which port")
	f.Add("my_agent_user_1.jsonl", "my_agent", "user", uint64(0), "")
	f.Add("crab_tg-1_18446744073709551615.jsonl", "crab", "tg:1", uint64(math.MaxUint64), "日本語")
	f.Add("__1_.jsonl", "", ":", uint64(1), strings.Repeat("é", 300))
	f.Fuzz(func(t *testing.T, file, agent, createdBy string, seq uint64, title string) {
		checkNames(t, agent, createdBy, seq, title)
		m := &Meta{Agent: agent, CreatedBy: createdBy}
		prefix := prefixOf(agent, createdBy)
		id, shaped := idOf(file, m)
		n, ok := seqOf(prefix, file)
		if ok != shaped {
			t.Fatalf("%q of %q: shaped %v, number %d, %v", file, prefix, shaped, n, ok)
		}
		if !shaped {
			if id != file && id+nameExt != file {
				t.Fatalf("%q has the id %q", file, id)
			}
			return
		}
		if n == 0 || id != fmt.Sprintf("%s%d", prefix, n) || !strings.HasPrefix(file, id) {
			t.Fatalf("%q has the id %q and the number %d", file, id, n)
		}
		if rest := strings.TrimPrefix(file, id); rest != nameExt && rest[0] != '_' {
			t.Fatalf("%q has the id %q", file, id)
		}
		if again, _ := idOf(fileName(id, title), m); again != id {
			t.Fatalf("%q has the id %q, and with a title %q", file, id, again)
		}
	})
}

// TestSlugEqualsReference compares slugs of every character with those of the
// reference implementation.
func TestSlugEqualsReference(t *testing.T) {
	race.Skip(t)
	runes := 0
	for r := rune(0); r <= 0x10ffff; r++ {
		if 0xd800 <= r && r < 0xe000 {
			continue
		}
		s := "A" + string(r) + "b-" + string(r)
		if got, want := slugOf(s), sessionref.Slug(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
		runes++
	}
	t.Logf("slugs of %d characters", runes)
}
