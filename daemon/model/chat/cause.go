package chat

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"crabmem/daemon/lazyregexp"
)

// The causes of an [Error]; test for them with errors.Is. Every Error matches
// ErrCall, and at most one of the other causes. The text of an Error begins with
// the text of its cause.
var (
	ErrCall      = errors.New("call model")
	ErrKey       = errors.New("the provider rejected the API key")
	ErrForbidden = errors.New("the provider denied access")
	ErrMissing   = errors.New("model or address not found")
	ErrTools     = errors.New("the model does not support tools")
	ErrRateLimit = errors.New("rate limited")
	ErrQuota     = errors.New("quota or credit used up")
	ErrServer    = errors.New("the provider returned a server error")
	// ErrOverflow means that the request does not fit the model's context window.
	ErrOverflow = errors.New("the request does not fit the model's context window")
	ErrCut      = errors.New("the response was cut off")
	ErrInvalid  = errors.New("the response is invalid")
	ErrConnect  = errors.New("cannot connect")
	ErrResolve  = errors.New("cannot resolve the host name")
	ErrTLS      = errors.New("TLS failed")
	ErrTimeout  = errors.New("timed out")
)

// Error codes of endpoints. They classify errors inside a stream, which have no
// HTTP status, and refine the status of other errors.
var (
	serverCodes = []string{
		"server_error", "internal_error", "internal_server_error", "overloaded_error", "overloaded", "api_error",
		"service_unavailable", "UNAVAILABLE", "INTERNAL",
	}
	timeoutCodes = []string{"timeout", "timeout_error"}
	rateCodes    = []string{"rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"}
	quotaCodes   = []string{
		"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "exceeded_current_quota_error", "insufficient_balance",
	}
	overflowCodes = []string{"tokens_limit_reached", "request_too_large"}
)

// Parts of error messages, in lower case. They classify errors whose status and code
// are ambiguous.
var (
	keyTexts   = []string{"api key not valid", "invalid api key", "incorrect api key"}
	quotaTexts = []string{"credit balance is too low", "insufficient balance", "used all available credits"}
)

// Expressions that recognize an overflow by its meaning, in lower case: the context,
// the prompt, or the input is near a word for an excess. A rate or an account that is
// exceeded, a schema, a deadline, and an answer that is too long are no overflow.
var (
	overflowPattern = lazyregexp.New(`(?s)` + near(
		`context|prompt|input[^.]{0,3} (\(?[0-9]+ )?(token|length|is\b|exceed)|model (token|max)|length of the (messages|input)`,
		`exceed|maximum|overflow|too (long|large)|(longer|larger|greater) than|must (be <|have less)|should be \[|\bonly\b|reduce`,
	) + `|\bcontext_(too_large|overflow)`)
	noOverflowPattern = lazyregexp.New(`rate.?limit|\bper[ -](min|day|hour|sec|month)|quota|credit|monthly|schema|deadline|time[d -]*out`)
	answerPattern     = lazyregexp.New(`max_(completion_|output_|new_)?tokens`)
	requestPattern    = lazyregexp.New(`input|prompt|message`)
)

// near returns an expression for two expressions at most 40 characters apart.
func near(a, b string) string {
	return fmt.Sprintf(`(%[1]s).{0,40}(%[2]s)|(%[2]s).{0,40}(%[1]s)`, a, b)
}

// isOverflow reports whether a message, in lower case, is about a request that does
// not fit the context.
func isOverflow(message string) bool {
	return overflowPattern().MatchString(message) && !noOverflowPattern().MatchString(message) &&
		(!answerPattern().MatchString(message) || requestPattern().MatchString(message))
}

// Expressions that recognize a refusal of tools, and one of a stream.
var (
	toolsPattern = lazyregexp.New(`(?s)` + near(`\btools?\b|tool.choice|function.calling`,
		`(not|n.t) (support|enabled)|unsupported|requires? --|no endpoints found that support`))
	streamPattern = lazyregexp.New(`(?s)` + near(`\bstream(ing|_options)?\b`,
		`(not|n.t|un)[ -]?(support|allowed|permitted|available|enabled|recognized|known|expected)|disabled|must be (false|verified)`))
)

// refusesStream reports whether the endpoint responds only without a stream.
func (e *Error) refusesStream() bool {
	refused := e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests || e.Status == http.StatusNotImplemented
	return refused && e.cause != ErrKey && e.cause != ErrQuota && e.cause != ErrForbidden && streamPattern().MatchString(strings.ToLower(e.Message))
}

// classify sets cause and transient of an error that an endpoint reported. It must
// be called only once, because it clears kind.
func (e *Error) classify() {
	e.cause = e.reported()
	switch e.cause {
	case ErrRateLimit:
		e.transient = e.Status == 0 || e.Status == http.StatusTooManyRequests || e.Status >= 500
	case ErrServer, ErrTimeout:
		e.transient = true
	}
	e.kind = "" // may contain a key
}

func (e *Error) reported() error {
	message := strings.ToLower(e.Message)
	has := func(texts []string) bool {
		return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(message, t) })
	}
	switch e.Status {
	case http.StatusUnauthorized:
		return ErrKey
	case http.StatusPaymentRequired:
		return ErrQuota
	case http.StatusForbidden, http.StatusTooManyRequests:
		switch {
		case e.hasCode(quotaCodes) || has(quotaTexts):
			return ErrQuota
		case e.Status == http.StatusForbidden:
			return ErrForbidden
		}
		return ErrRateLimit
	case http.StatusNotFound:
		if toolsPattern().MatchString(message) {
			return ErrTools
		}
		return ErrMissing
	}
	// At Anthropic and in proxies, 413 means too many bytes. At Groq with
	// rate_limit_exceeded, it means too many tokens for this minute.
	tooLarge := e.Status == http.StatusRequestEntityTooLarge && e.Code != "rate_limit_exceeded" && !noOverflowPattern().MatchString(message)
	switch {
	case tooLarge || e.hasCode(overflowCodes) || isOverflow(strings.ToLower(e.Code+" "+e.kind+" "+message)):
		return ErrOverflow
	case e.hasCode(quotaCodes) || has(quotaTexts):
		return ErrQuota
	case e.Status == http.StatusBadRequest && has(keyTexts):
		return ErrKey
	case toolsPattern().MatchString(message):
		return ErrTools
	case e.Code == "model_not_found":
		return ErrMissing
	case e.hasCode(rateCodes):
		return ErrRateLimit
	case e.Status == http.StatusRequestTimeout, e.Status == 0 && e.hasCode(timeoutCodes):
		return ErrTimeout
	case e.Status >= 500, e.Status == 0 && e.hasCode(serverCodes):
		return ErrServer
	}
	return nil
}

// hasCode reports whether the code or the type of the error is in a list.
func (e *Error) hasCode(codes []string) bool {
	return slices.Contains(codes, e.Code) || slices.Contains(codes, e.kind)
}

// transportError is the error of a call without a response, or with an
// incomplete one.
func transportError(err error) *Error {
	e := &Error{Err: err, cause: ErrCut, transient: true}
	dns, isDNS := errors.AsType[*net.DNSError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	_, late := errors.AsType[*timeoutError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case late:
		e.cause, e.transient = ErrTimeout, false // the next attempt would take as long
	case isDNS:
		e.cause, e.transient = ErrResolve, !dns.IsNotFound
	case isOp && (op.Op == "dial" || op.Op == "proxyconnect"):
		e.cause = ErrConnect
	case isTLS(err, op):
		e.cause, e.transient = ErrTLS, false
	case isNet && timeout.Timeout():
		e.cause = ErrTimeout
	}
	return e
}

// isTLS reports whether an error is about certificates, or about a peer that
// does not speak TLS.
func isTLS(err error, op *net.OpError) bool {
	if op != nil && (op.Op == "remote error" || op.Op == "local error") { // a TLS alert
		return true
	}
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.RecordHeaderError)) ||
		errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(x509.HostnameError)) || errors.Is(err, http.ErrSchemeMismatch)
}
