package chat

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"crabmem/bm25/clip"
)

// Error is a call that failed. Its text has no key in it.
type Error struct {
	Provider, Model string
	Status          int           // of HTTP; 0 without a response
	Code, Message   string        // as sent by the endpoint, shortened
	RetryAfter      time.Duration // requested by the endpoint; 0 = not requested
	Attempts        int           // how often it was tried
	Err             error         // the cause if the endpoint did not report the error

	cause     error  // one of those above, or nil
	kind      string // type of the error, as sent by the endpoint
	transient bool
}

// NewOverflow returns the error for a request that is not sent, because it does not
// fit the model's context window.
func NewOverflow(provider, model string, err error) *Error {
	return &Error{Provider: provider, Model: model, Err: err, cause: ErrOverflow}
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "model '%s' of provider '%s'", e.Model, e.Provider)
	if e.cause != nil {
		b.WriteString(": " + e.cause.Error())
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, ": %d %s", e.Status, http.StatusText(e.Status))
	}
	if e.Code != "" && e.Code != strconv.Itoa(e.Status) {
		b.WriteString(": " + e.Code)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (tried %d times)", e.Attempts)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; retry after %v", e.RetryAfter.Round(time.Millisecond))
	}
	return b.String()
}

// Is reports whether target is [ErrCall] or the cause of the error.
func (e *Error) Is(target error) bool {
	return target == ErrCall || target == e.cause && e.cause != nil
}

func (e *Error) Unwrap() error { return e.Err }

// Cause returns the cause of the error in a few words.
func (e *Error) Cause() string {
	if e.cause == nil {
		return "the call failed"
	}
	return e.cause.Error()
}

// Transient reports whether the same call may succeed later.
func (e *Error) Transient() bool { return e.transient }

// Timeout reports whether the call took too long.
func (e *Error) Timeout() bool { return e.cause == ErrTimeout }

// timeoutError is the cause of a call that was canceled.
type timeoutError struct {
	what  string
	after time.Duration
}

func (e *timeoutError) Error() string { return fmt.Sprintf("%s within %v", e.what, e.after) }

// statusError converts the response of an endpoint that refuses a request. The
// body may be anything.
func statusError(status int, header http.Header, body []byte) *Error {
	e := payloadError(body)
	e.Status = status
	e.RetryAfter = retryAfter(header)
	e.classify()
	return e
}

// payloadError parses the forms of endpoints' errors: an object, a list of one
// object, or a text; with message, code, type, or status in the object or in
// its member "error".
func payloadError(body []byte) *Error {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer, inner fault
	if json.Unmarshal(body, &outer) != nil {
		text := strings.TrimSpace(string(body))
		if isPage(text) {
			text = ""
		}
		return &Error{Message: text}
	}
	inner = outer
	if !isNull(outer.Error) {
		inner = fault{}
		if json.Unmarshal(outer.Error, &inner) != nil {
			return &Error{Message: colon(text(outer.Error), text(outer.Message)), Code: text(outer.Code)}
		}
	}
	e := &Error{Message: cmp.Or(text(inner.Message), text(inner.Detail)), Code: cmp.Or(text(inner.Code), text(inner.Type), text(inner.Status)), kind: text(inner.Type)}
	var upstream struct{ Raw json.RawMessage }
	if json.Unmarshal(inner.Metadata, &upstream) == nil { // OpenRouter: its own message is empty
		e.Message = colon(e.Message, text(upstream.Raw))
	}
	if e.Message == "" {
		e.Message = strings.TrimSpace(string(body)) // the cause is in it somewhere
	}
	// A number repeats the status; the type is more specific.
	if n, err := strconv.Atoi(e.Code); err == nil {
		if n >= 400 && n < 600 {
			e.Status = n
		}
		e.Code = cmp.Or(text(inner.Type), text(inner.Status), e.Code)
	}
	return e
}

// isPage reports whether a text is a page for people, in HTML or XML.
func isPage(text string) bool {
	return len(text) > 1 && text[0] == '<' && (text[1] == '!' || text[1] == '?' || unicode.IsLetter(rune(text[1])))
}

// fault is any of those objects.
type fault struct {
	Error, Message, Detail, Code, Type, Status, Metadata json.RawMessage
}

func colon(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}

// text is a JSON string as it is, and any other value as its JSON.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	if t := string(raw); t != "null" {
		return t
	}
	return ""
}

// retryAfter returns the delay that an endpoint requests: milliseconds,
// seconds, or a date.
func retryAfter(h http.Header) time.Duration {
	for _, f := range []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		v := h.Get(f.name)
		if n, err := strconv.ParseFloat(v, 64); err == nil && n > 0 {
			return time.Duration(min(n*float64(f.unit), math.MaxInt64/2))
		}
		if t, err := http.ParseTime(v); err == nil {
			return max(0, time.Until(t))
		}
	}
	return 0
}

// clean makes the texts of an error fit to be shown: no secret, one line, not
// endless.
func (e *Error) clean(secrets []string) {
	e.Code = shorten(redact(e.Code, secrets), 100)
	e.Message = shorten(redact(e.Message, secrets), 1000)
	if e.Err != nil {
		if text := e.Err.Error(); redact(text, secrets) != text {
			e.Err = errors.New(redact(text, secrets))
		}
	}
}

// minSecret is the length of the shortest key that is removed from texts. Shorter ones
// are placeholders for servers without keys, such as "ollama".
const minSecret = 8

func redact(s string, secrets []string) string {
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			s = strings.ReplaceAll(s, secret, "[key]")
		}
	}
	return s
}

func shorten(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return clip.Marked(strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD")), n)
}
