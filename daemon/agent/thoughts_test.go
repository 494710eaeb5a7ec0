package agent

import (
	"testing"

	"crabmem/daemon/model"
)

// TestWithoutThoughts checks that reasoning before a text is removed, and that
// a text about such tags is unchanged.
func TestWithoutThoughts(t *testing.T) {
	for text, want := range map[string]string{
		"<think>\nthe PIN is 4711\n</think>\n\nSummary.":       "Summary.",
		" <THINK>a</think><think>b</think> Summary.":           "Summary.",
		"<thinking>a</thinking>Summary.":                       "Summary.",
		"<thought>a</thought>\nSummary. <think>":               "Summary. <think>",
		"<reasoning>a</reasoning>Summary.":                     "Summary.",
		"<think>no end":                                        "",
		"<think></think>":                                      "",
		"the start is in the prompt\n</think>\n\nSummary.":     "Summary.",
		"hm</think>Summary.":                                   "Summary.",
		"hm\n</think> Summary.":                                "Summary.",
		"hm</think>\r\nSummary.":                               "Summary.",
		"Titles had a stray </think> tag.":                     "Titles had a stray </think> tag.",
		"The tag `</think>` ends it.":                          "The tag `</think>` ends it.",
		"It sends <think>a</think> first.\n</think>\nNo more.": "It sends <think>a</think> first.\n</think>\nNo more.",
		"<thinker> is an element":                              "<thinker> is an element",
		"a\n":                                                  "a",
	} {
		if got := withoutThoughts(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	resp := &model.Response{Finish: "stop"}
	resp.Message.Content = "<think>only</think>"
	if _, err := textOf(resp, "title"); err != errEmpty {
		t.Error(err)
	}
}
