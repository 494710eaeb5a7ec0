package chat

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ErrOverflow is returned when the request does not fit the context window of
// the model.
var ErrOverflow = errors.New("the request does not fit the model's context window")

// Error is a call that failed. Its text has no key in it.
type Error struct {
	Provider, Model string
	Status          int           // of HTTP; 0 without a response
	Code, Message   string        // as sent by the endpoint, shortened
	RetryAfter      time.Duration // requested by the endpoint; 0 = not requested
	Attempts        int           // how often it was tried
	Err             error         // the cause if the endpoint did not report the error

	overflow, transient bool
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "model '%s' of provider '%s'", e.Model, e.Provider)
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
	if r := e.remedy(); r != "" {
		b.WriteString("; " + r)
	}
	return b.String()
}

func (e *Error) remedy() string {
	switch {
	case e.overflow:
		return "compact the session, or use a model with a larger context window"
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return "check the provider's api_key"
	case e.Status == http.StatusNotFound:
		return "check the provider's base_url and the name of the model"
	case e.Timeout():
		return "raise timeout or idle_timeout of the provider"
	}
	return ""
}

// Is makes an Error of a request that is too long an ErrOverflow.
func (e *Error) Is(target error) bool { return target == ErrOverflow && e.overflow }

func (e *Error) Unwrap() error { return e.Err }

// Transient reports whether the same call may succeed later: 408, 429, 5xx, no
// connection, or a timeout.
func (e *Error) Transient() bool { return e.transient }

// Timeout reports whether the call took too long.
func (e *Error) Timeout() bool {
	var t *timeoutError
	return errors.As(e.Err, &t)
}

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
		if strings.HasPrefix(text, "<") {
			text = "" // a page for people
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
	e := &Error{Message: cmp.Or(text(inner.Message), text(inner.Detail)), Code: cmp.Or(text(inner.Code), text(inner.Type), text(inner.Status))}
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

// transientCodes are of errors that come inside a stream, where no status is.
var transientCodes = []string{
	"server_error", "internal_error", "internal_server_error", "overloaded_error", "overloaded", "api_error", "timeout", "timeout_error",
	"rate_limit_exceeded", "rate_limit_error", "service_unavailable", "UNAVAILABLE", "INTERNAL", "RESOURCE_EXHAUSTED",
}

var overflowCodes = []string{
	"context_length_exceeded", "exceed_context_size_error", "model_max_prompt_tokens_exceeded", "tokens_limit_reached", "request_too_large",
}

// overflowTexts are parts of endpoints' messages, in lower case, for a request
// that exceeds the context window. They do not match limits per minute.
var overflowTexts = []string{
	"maximum context length", "context_length_exceeded", "context length exceeded", "exceeds the context window",
	"exceeds context window", "exceed context limit", "exceed the context limit", "available context size",
	"prompt is too long", "input is too long", "maximum prompt length", "exceeded model token limit",
	"exceeds the maximum number of tokens", "number of tokens in the prompt cannot exceed", "larger than the context",
	"longer than the context", "longer than the model's context", "context window exceeds", "exceeds the model's context",
	"exceeds the context length", "greater than the context length", "exceed context window", "context size has been exceeded",
	"exceeded this model context window", "longer than the maximum model length", "the model's context length is only",
	"loaded with context length of only", "reached context length", "range of input length should be",
	"tokens + `max_new_tokens` must be", "`inputs` must have less than", "prompt exceeds max length",
}

func (e *Error) classify() {
	e.transient = e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests || e.Status >= 500
	if e.Status == 0 {
		e.transient = slices.Contains(transientCodes, e.Code)
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests:
		return
	}
	message := strings.ToLower(e.Message)
	// 413 refers to bytes at Anthropic and in proxies. Groq uses it for the
	// tokens left in a minute.
	e.overflow = slices.Contains(overflowCodes, e.Code) || e.Status == http.StatusRequestEntityTooLarge && e.Code != "rate_limit_exceeded" ||
		slices.ContainsFunc(overflowTexts, func(t string) bool { return strings.Contains(message, t) })
	e.transient = e.transient && !e.overflow
}

// transportError is a call that no endpoint answered, or not to the end.
func transportError(err error) *Error {
	var certificate *tls.CertificateVerificationError
	return &Error{Err: err, transient: !errors.As(err, &certificate)}
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

func redact(s string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
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
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return strings.TrimSpace(s)
}
