package modeltest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Script adds the rules of a script, after those that are there.
func (s *Server) Script(text string) error {
	rules, err := parse(text)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rules {
		r.s = s
	}
	s.rules = append(s.rules, rules...)
	return nil
}

func parse(text string) ([]*Rule, error) {
	var rules []*Rule
	var rule *Rule
	open := false // conditions may be added to the rule
	begin := func() {
		rule = new(Rule)
		rules = append(rules, rule)
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		var err error
		switch word {
		case "when":
			if !open {
				begin()
			}
			open = true
			var c func(*Request) bool
			if c, err = condition(rest); err == nil {
				rule.when = append(rule.when, c)
			}
		case "always":
			begin()
			open = false
		default:
			if rule == nil {
				begin()
			}
			open = false
			err = rule.line(word, rest)
		}
		if err != nil {
			return nil, fmt.Errorf("script: line %d: %w", number, err)
		}
	}
	for i, r := range rules {
		if len(r.replies) == 0 {
			return nil, fmt.Errorf("script: rule %d has no reply", i+1)
		}
	}
	return rules, nil
}

func condition(text string) (func(*Request) bool, error) {
	what, rest, _ := strings.Cut(text, " ")
	want, err := unquote(strings.TrimSpace(rest))
	if err != nil {
		return nil, err
	}
	switch what {
	case "user":
		return func(r *Request) bool { return strings.Contains(r.LastUser(), want) }, nil
	case "last":
		return func(r *Request) bool { return strings.Contains(r.Messages[len(r.Messages)-1].Content, want) }, nil
	case "system":
		return func(r *Request) bool {
			return slices.ContainsFunc(r.Messages, func(m Message) bool { return m.Role == "system" && strings.Contains(m.Content, want) })
		}, nil
	case "model":
		return func(r *Request) bool { return r.Model == want }, nil
	}
	return nil, fmt.Errorf("when %q: it is user, last, system or model", what)
}

// line adds the step of a line to the rule's last reply.
func (r *Rule) line(word, rest string) error {
	switch word {
	case "reply":
		r.replies = append(r.replies, Reply{})
		return nil
	case "repeat":
		r.repeat = true
		return nil
	}
	if len(r.replies) == 0 {
		r.replies = append(r.replies, Reply{})
	}
	last := &r.replies[len(r.replies)-1]
	reply, err := last.line(word, rest)
	if err == nil {
		*last = reply
	}
	return err
}

func (r Reply) line(word, rest string) (Reply, error) {
	first, second, _ := strings.Cut(rest, " ")
	second = strings.TrimSpace(second)
	switch word {
	case "text", "words", "think", "raw":
		text, err := unquote(rest)
		if err != nil {
			return r, err
		}
		switch word {
		case "text":
			return r.Text(text), nil
		case "words":
			return r.Text(strings.SplitAfter(text, " ")...), nil
		case "think":
			return r.Think(text), nil
		}
		return r.Raw(text), nil
	case "call":
		if first == "" {
			return r, fmt.Errorf("call needs a name")
		}
		return r.Call(first, second), nil
	case "usage":
		prompt, err1 := strconv.Atoi(first)
		completion, err2 := strconv.Atoi(second)
		if err1 != nil || err2 != nil {
			return r, fmt.Errorf("usage needs two numbers")
		}
		return r.Usage(prompt, completion), nil
	case "finish":
		return r.Finish(rest), nil
	case "status":
		code, err := strconv.Atoi(first)
		if err != nil || code < 200 || code > 599 {
			return r, fmt.Errorf("status %q is not an HTTP status", first)
		}
		text, err := unquote(second)
		return r.with(step{op: "status", n: code, text: text}), err
	case "header":
		name, value, ok := strings.Cut(rest, ":")
		if !ok {
			return r, fmt.Errorf("header needs a name, a colon and a value")
		}
		return r.Header(name, strings.TrimSpace(value)), nil
	case "stall", "drip":
		if rest == "" && word == "stall" {
			return r.Stall(0), nil
		}
		ms, err := strconv.Atoi(rest)
		if err != nil || ms <= 0 {
			return r, fmt.Errorf("%s %q: it is a number of milliseconds", word, rest)
		}
		return r.with(step{op: word, wait: time.Duration(ms) * time.Millisecond}), nil
	case "cut":
		return r.Cut(), nil
	case "garbage":
		return r.Garbage(), nil
	}
	return r, fmt.Errorf("%q is nothing that a script can say", word)
}

func unquote(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		return s, nil
	}
	text, err := strconv.Unquote(s)
	if err != nil {
		return "", fmt.Errorf("%s: not a quoted text", s)
	}
	return text, nil
}
