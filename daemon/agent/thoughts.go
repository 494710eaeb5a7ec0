package agent

import (
	"strings"

	"crabmem/daemon/lazyregexp"
	"crabmem/daemon/model"
)

// textOf returns the text of a response that is stored as something else, such
// as a title or a summary. what names it in errors.
func textOf(resp *model.Response, what string) (string, error) {
	if err := broken(what, resp.Finish); err != nil {
		return "", err
	}
	text := withoutThoughts(clean(resp.Message.Content))
	if text == "" {
		return "", errEmpty
	}
	return text, nil
}

// leadingThoughts matches reasoning that the server did not separate. If it has
// no end, the response has no text.
var leadingThoughts = lazyregexp.New(`(?is)^\s*<(?:think|thinking|thought|reasoning)>.*?(?:</(?:think|thinking|thought|reasoning)>|$)`)

// lateThoughts matches the end of reasoning whose start is in the prompt: a tag
// at the start or end of a line, or between two letters or punctuation marks.
var lateThoughts = lazyregexp.New("(?i)(?m:^[ \t]*</think>|</think>[ \t]*\r?$)|[^\\s`'\"(]</think>[^\\s`'\").,;:]")

// withoutThoughts returns a model's text without reasoning before it and white
// space around it. Later tags are text.
func withoutThoughts(text string) string {
	found := leadingThoughts().FindString(text)
	if found == "" {
		if at := lateThoughts().FindStringIndex(text); at != nil {
			const tag = "</think>"
			end := at[0] + strings.Index(strings.ToLower(text[at[0]:]), tag) + len(tag)
			if !strings.Contains(strings.ToLower(text[:at[0]]), "<think>") {
				found = text[:end]
			}
		}
	}
	for found != "" {
		text = text[len(found):]
		found = leadingThoughts().FindString(text)
	}
	return strings.TrimSpace(text)
}
