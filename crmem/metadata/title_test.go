package metadata

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTitle names contents in many scripts, in Markdown, and without words.
func TestTitle(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct{ content, want string }{
		{"We deploy from main on Mondays.", "We deploy from main on Mondays"},
		{"one two three four five six seven eight nine ten", "one two three four five six seven eight"},
		{"a\n\tb.,;:", "a"}, {"\n\n  \t\nbuy  green\ttea ;\nthen", "buy green tea"},
		{"The staging database moves to Frankfurt, then the backups follow it", "The staging database moves to Frankfurt, then the"},
		// long words, and no spaces
		{x(64), x(64)}, {x(63) + ".", x(63)}, {x(65), x(64)}, {x(10_000), x(64)},
		{strings.Repeat("word ", 2000), "word word word word word word word word"},
		{"short " + x(100), "short " + x(58)}, {strings.Repeat("z", 40) + " " + x(40), strings.Repeat("z", 40)},
		{strings.Repeat(" ", 70_000) + "late", ""}, {strings.Repeat("\n", 70_000) + "late", ""},
		// scripts
		{"我们从主分支部署。先看金丝雀！", "我们从主分支部署"}, {"我们从主分支部署，", "我们从主分支部署"}, {strings.Repeat("部署", 5000), strings.Repeat("部署", 32)},
		{"デプロイは月曜日です。", "デプロイは月曜日です"}, {"우리는 월요일에 배포한다.", "우리는 월요일에 배포한다"}, {"「引用」です。", "「引用」です"},
		{"ننشر من الفرع الرئيسي؟", "ننشر من الفرع الرئيسي"}, {"אנחנו פורסים ביום שני.", "אנחנו פורסים ביום שני"}, {"हम सोमवार को तैनात करते हैं।", "हम सोमवार को तैनात करते हैं"},
		{"เราติดตั้งวันจันทร์", "เราติดตั้งวันจันทร์"}, {strings.Repeat("e\u0301", 60), strings.Repeat("e\u0301", 32)}, {x(63) + "e\u0301\u0302!", x(63)},
		{"\u202eevil\u202c \ufeffbom\u00adsoft", "evil bomsoft"}, {"می\u200cخواهم", "می\u200cخواهم"}, {"a\x1b[31mred\x00 \ufffdend", "a 31mred end"},
		// emoji, symbols, punctuation
		{"🎉 We won", "🎉 We won"}, {"🎉🎉", "🎉🎉"}, {"🎉\nlaunch day", "launch day"}, {"👩‍👩‍👧", "👩‍👩‍👧"}, {x(63) + "👩‍👧", x(63)}, {x(63) + "👍🏽", x(63)},
		{"$5 per day", "$5 per day"}, {"!!! ??? ...", ""}, {"。。。", ""}, {"...---...", ""}, {"", ""}, {" \n\t ", ""}, {strings.Repeat("\u0301", 100), ""}, {"---", ""},
		{"¿Dónde está?", "Dónde está"}, {`"quoted" text`, `"quoted" text`}, {"(see notes) first", "(see notes) first"}, {"42", "42"}, {"#5", "5"}, {"-x --y", "x --y"},
		// Markdown
		{"# Deploy steps #\n\nbuild", "Deploy steps #"}, {"## **Bold** and `code`", "Bold and code"}, {"- [ ] buy milk", "buy milk"}, {"- [x] done", "x done"}, {"* item", "item"}, {"> said\n> so", "said"},
		{"***\n\ntext", "text"}, {"```go\nfmt.Println()\n```\n", "fmt.Println()"}, {"| a | b |\n", "a b"}, {"see [[deploy]] and [x](y)", "see deploy and x(y)"}, {"===\nText", "Text"},
		// front matter
		{"---\ntype: decision\ntags: [a]\n---\nWe deploy.", "We deploy"}, {"---\nnested:\n  key: |\n    text\n---\n# Title\n", "Title"}, {"---\ntype: fact\n---\n", ""}, {"---\r\ntype: fact\r\n---\r\nWindows text\r\nmore", "Windows text"},
		{"---\nno end", "no end"},
	} {
		got := Title(c.content)
		if got != c.want {
			t.Errorf("Title(%.60q) = %q, want %q", c.content, got, c.want)
		}
		if n := utf8.RuneCountInString(got); n > titleChars || !utf8.ValidString(got) || strings.TrimSpace(got) != got {
			t.Errorf("Title(%.60q) = %q: %d characters", c.content, got, n)
		}
		if _, err := LinkTo(got); err != nil && got != "" {
			t.Errorf("Title(%.60q) = %q: %v", c.content, got, err)
		}
	}
	if got := Title("a\xff b\xc3"); got != "a b" {
		t.Errorf("of invalid UTF-8: %q", got)
	}
}

// TestNewFields: the fields of a new entry are in its front matter, unless the text, the
// edit, or a limit rules them out.
func TestNewFields(t *testing.T) {
	project := []Field{{Key: Project, Values: []string{"shop"}}}
	long := "---\n" + strings.Repeat("k", 100) + ": " + strings.Repeat("v", MaxBytes-115) + "\n---\ntext"
	if _, _, ok := Parse(long); !ok {
		t.Fatal("no front matter at the limit")
	}
	for _, c := range []struct {
		edit            Edit
		old, text, want string
	}{
		{Edit{New: project}, "", "text", "---\nproject: shop\n---\ntext"},
		{Edit{New: project}, "old", "text", "text"},
		{Edit{New: project}, "---\ntype: fact\n---\nold", "text", "---\ntype: fact\n---\ntext"},
		{Edit{New: project}, "", "---\nproject: web\n---\ntext", "---\nproject: web\n---\ntext"},
		{Edit{New: project}, "", "---\nnested:\n  key: v\n---\ntext", "---\nnested:\n  key: v\n---\ntext"},
		{Edit{New: project, Set: []Field{{Key: Project, Values: []string{"web"}}}}, "", "text", "---\nproject: web\ncrabmem: 1\n---\ntext"},
		{Edit{New: project, Set: []Field{{Key: Type, Values: []string{"fact"}}}}, "", "text", "---\nproject: shop\ntype: fact\ncrabmem: 1\n---\ntext"},
		{Edit{New: project}, "", long, long},
	} {
		if got, err := c.edit.Apply(c.old, c.text); got != c.want || err != nil {
			t.Errorf("%+v of %.40q: %q, %v, want %q", c.edit, c.text, got, err, c.want)
		}
	}
}
