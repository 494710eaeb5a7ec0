package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"crabmem/daemon/lazyregexp"
)

// The JSON objects of responses, complete or in chunks. They contain only the
// fields that are used: with the types of openai-go, which keep every field of
// every element, four megabytes of empty choices take a gigabyte.
type (
	wire struct {
		Choices list[choice]
		Usage   *struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
			Total      int `json:"total_tokens"`
		}
		Progress struct{ Total, Processed int } `json:"prompt_progress"` // llama.cpp
	}
	choice struct {
		Index          position
		Delta, Message message
		FinishReason   string `json:"finish_reason"`
		Error          json.RawMessage
	}
	message struct {
		Content          content
		Refusal          string
		ReasoningContent string `json:"reasoning_content"`
		Reasoning        string
		ReasoningText    string                               `json:"reasoning_text"`
		ReasoningDetails list[struct{ Text, Summary string }] `json:"reasoning_details"`
		ToolCalls        list[toolCall]                       `json:"tool_calls"`
	}
	toolCall struct {
		Index    position
		ID, Type string
		Function struct {
			Name      string
			Arguments arguments
		}
	}
)

// decode reads a JSON object. Members of other types than they should have
// count as missing.
func decode(data []byte) (*wire, error) {
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return nil, errors.New("not a JSON object")
	}
	var w wire
	if err := lenient(json.Unmarshal(data, &w)); err != nil {
		return nil, err
	}
	return &w, nil
}

func lenient(err error) error {
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil
	}
	return err
}

func (w *wire) usage() *Usage {
	if w.Usage == nil {
		return nil
	}
	u := Usage{Prompt: max(0, w.Usage.Prompt), Completion: max(0, w.Usage.Completion), Total: max(0, w.Usage.Total)}
	if u.Total == 0 {
		u.Total = u.Prompt + u.Completion
	}
	return &u
}

// text returns the text of a message, and reasoning its reasoning. If an
// endpoint sends the reasoning twice, it counts once.
func (m *message) text() string { return m.Content.text + m.Refusal }

func (m *message) thoughts() string {
	for _, s := range []string{m.ReasoningContent, m.Reasoning, m.ReasoningText} {
		if s != "" {
			return m.Content.thoughts + s
		}
	}
	var b strings.Builder
	b.WriteString(m.Content.thoughts)
	for _, d := range m.ReasoningDetails {
		b.WriteString(d.Text + d.Summary)
	}
	return b.String()
}

// list is an array that is not believed to be longer than any has reason to be.
type list[T any] []T

func (l *list[T]) UnmarshalJSON(data []byte) error {
	*l = nil
	if len(data) == 0 || data[0] != '[' {
		return nil
	}
	if bytes.Count(data, []byte{','}) < maxCalls {
		return lenient(json.Unmarshal(data, (*[]T)(l))) // it cannot be too long
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		if len(*l) > maxCalls {
			return fmt.Errorf("an array has more than %d elements", maxCalls)
		}
		var v T
		if err := lenient(d.Decode(&v)); err != nil {
			return err
		}
		*l = append(*l, v)
	}
	return nil
}

// position is an index: an integer or its text. Other values count as missing.
type position struct {
	n  int
	ok bool
}

func (p *position) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(data), `" `), 64)
	if *p = (position{int(f), err == nil}); float64(p.n) != f {
		*p = position{}
	}
	return nil
}

// content is a text, or a list of texts and thoughts as Mistral, Anthropic, and
// their proxies send it. Signatures of thoughts are omitted.
type content struct{ text, thoughts string }

func (c *content) UnmarshalJSON(data []byte) error {
	*c = content{}
	var parts list[struct {
		Type, Text string
		Thinking   thinking
	}]
	if len(data) == 0 || data[0] != '[' {
		return lenient(json.Unmarshal(data, &c.text))
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Type == "reasoning" || p.Type == "thinking" {
			p.Thinking, p.Text = thinking(p.Text)+p.Thinking, ""
		}
		c.text += p.Text
		c.thoughts += string(p.Thinking)
	}
	return nil
}

// thinking is a text or a list of texts.
type thinking string

func (t *thinking) UnmarshalJSON(data []byte) error {
	*t = ""
	if len(data) == 0 || data[0] != '[' {
		return lenient(json.Unmarshal(data, (*string)(t)))
	}
	var parts list[struct{ Text string }]
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		*t += thinking(p.Text)
	}
	return nil
}

// arguments is the text of an object or, for some endpoints, the object. It
// keeps text that the decoder would replace with U+FFFD recognizable, so that a
// tool can refuse it: see keepInexact.
type arguments string

func (a *arguments) UnmarshalJSON(data []byte) error {
	*a = ""
	if len(data) > 0 && data[0] == '{' {
		*a = arguments(escapeBytes(data, `\`))
		return nil
	}
	return lenient(json.Unmarshal(keepInexact(data), (*string)(a)))
}

// escapePattern matches an escape of a JSON string, a surrogate pair being one.
var escapePattern = lazyregexp.New(`\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)`)

// keepInexact returns a JSON string in which decoding replaces nothing. A lone
// surrogate becomes the text of its escape: two halves of a pair that a stream
// has split become a pair again in the arguments. A byte 0xNN that is not UTF-8
// becomes the text \udcNN, a lone surrogate.
func keepInexact(data []byte) []byte {
	if bytes.Contains(data, []byte(`\u`)) {
		data = escapePattern().ReplaceAllFunc(data, func(escape []byte) []byte {
			if !isLone(escape) {
				return escape
			}
			return append([]byte(`\`), escape...)
		})
	}
	return escapeBytes(data, `\\`)
}

// isLone reports whether a match of escapePattern is a lone surrogate.
func isLone(escape []byte) bool { return len(escape) == len(`\ud800`) && escape[1] == 'u' }

// hasLone reports whether JSON text has an escape of a lone surrogate.
func hasLone(text string) bool {
	return slices.ContainsFunc(escapePattern().FindAll([]byte(text), -1), isLone)
}

// escapeBytes writes each byte 0xNN that is not UTF-8 as udcNN after backslash.
func escapeBytes(data []byte, backslash string) []byte {
	if utf8.Valid(data) {
		return data
	}
	var b []byte
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			b = fmt.Appendf(b, "%sudc%02x", backslash, data[0])
		} else {
			b = append(b, data[:size]...)
		}
		data = data[size:]
	}
	return b
}
