package metadata

import (
	"fmt"
	"strings"
	"testing"
)

// TestCheck checks which contents have a problem, and the line and reason of each.
func TestCheck(t *testing.T) {
	const noValue = "the value is not a word or a list of words: put it in double quotes"
	for content, want := range map[string]string{
		"":                              "",
		"text":                          "",
		"---\n":                         "",
		"---\n---\ntext":                "",
		"---\ntype: fact\n---\ntext":    "",
		"---\ntype:\ntags: []\n---\n":   "",
		"---\nmy key: any: [[x]]\n":     "", // neither a known key nor an end
		"---\nA title\n---\ntext":       "", // Markdown: a rule and a heading
		"---\n\nsome text\n\n---\n":     "",
		"---- \ntype: fact\n---\n":      "",
		"--- a/file\n+++ b/file\n":      "",
		"---\nwith: a comment # x\n---": "",
		"---\nA\n---\n":                 "",
		"---\nSee (this): x\n---\n":     "",
		"---\nnote: one\ntwo\n":         "", // neither a known key nor an end
		"\ufeff---\n---\ntext":          "",

		"---\ntype: fact\ntext":                                 "3: the closing line --- is missing",
		"---\ntype: fact\n\n# note\n":                           "5: the closing line --- is missing",
		"---\ntitle: a: b\n---\n":                               "2: " + noValue,
		"---\r\na: b\r\na: c\r\n---\r\n":                        "3: the key a occurs twice",
		"---\na: *b\n---\n":                                     "2: " + noValue,
		"---\na:\n  b: c\n---\n":                                "3: only items of a list may be indented",
		"---\n" + keys(MaxKeys+1) + "---\n":                     "66: there are more than 64 keys",
		"---\na: b\n- c\n---\n":                                 "3: an item of a list needs a key without a value before it",
		"---\na:\n- b\n - c\n---\n":                             "4: the items of a list need the same indentation",
		"---\na: [b, {c}]\n---\n":                               "2: the list in brackets is not valid: put its values in double quotes",
		"---\na: b\nsome words\n---\n":                          "3: the line is neither the closing --- nor a key, a colon, a space, and a value",
		"---\na: b\tc\n---\n":                                   "2: the line contains a tab or another control character",
		"---\na: b\n" + strings.Repeat("# x\n", 1500) + "---\n": "1024: the closing line --- is not within the first 4096 bytes",
		"\ufeff---\ntype: fact\n---\n":                          "1: white space or a byte order mark is before the first ---",
		"\n---\ntype: fact\n---\n":                              "1: white space or a byte order mark is before the first ---",
		"--- \ntype: fact\n---\n":                               "1: white space is after the first ---",

		"---\ntype: two words\n---\n":                                                    `type type "two words": want a word, such as fact, preference, decision, identity, event, observation, goal, todo`,
		"---\ntype: [fact, todo]\n---\n":                                                 "type type: want one value",
		"---\n# x\nimportance: high\n---\n":                                              `importance importance "high": want a number from 0 to 1`,
		"---\nexpires: 2026-02-30\n---\n":                                                `expires expires "2026-02-30": want a day, such as 2026-04-14`,
		"---\nrelated: [\"\", b]\nimportance: \"\"\n---\n":                               `related related "b": want a link, such as [[name]]`,
		"---\nsupersedes: deploy\n---\n":                                                 `supersedes supersedes "deploy": want a link, such as [[name]]`,
		"---\nrelated: [\"[[a]]\", b]\nimportance: 2\n---\ntext":                         `related related "b": want a link, such as [[name]]; importance importance "2": want a number from 0 to 1`,
		"---\nrelated: \"[[a]]\"\nimportance: 1\nexpires: 2026-04-14\nother: [x]\n---\n": "",
	} {
		var got []string
		for _, p := range Check(content) {
			place := fmt.Sprint(p.Line, ":")
			if p.Key != "" {
				if !strings.HasPrefix(lineOf(content, p.Line), p.Key+":") {
					t.Errorf("%q: line %d is not that of %s", content, p.Line, p.Key)
				}
				place = p.Key
			}
			got = append(got, place+" "+p.Message)
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%.200q:\n%s, want\n%s", content, got, want)
		}
		if _, _, ok := Parse(content); ok && len(got) > 0 && strings.Contains(want, "---") {
			t.Errorf("%q has metadata, and the problem %s", content, want)
		}
	}
}

func lineOf(content string, n int) string { return strings.Split(content, "\n")[n-1] }

// TestPlaces checks the lines of links.
func TestPlaces(t *testing.T) {
	content := "---\n# x\nsupersedes: \"[[a]]\"\nrelated:\n  - \"[[b]]\"\nother: see [[c]]\n---\n" +
		"[[d]]\n```\n[[no]]\n```\n`[[no]]` [[e]] [[d]]\r\n\n[[f|text]] [[g]]"
	want := "[{{supersedes a} 3} {{related b} 4} {{related c} 6} {{related d} 8} {{related e} 12} {{related f} 14} {{related g} 14}]"
	if got := fmt.Sprint(Places(content)); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if got := fmt.Sprint(Places("a\n\n[[b]]")); got != "[{{related b} 3}]" {
		t.Errorf("without metadata: %s", got)
	}
}
