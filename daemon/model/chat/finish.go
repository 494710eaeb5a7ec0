package chat

import "strings"

// End is how a model ended a response.
type End int

// The ends of a response. An unknown finish reason is EndUnknown.
const (
	EndUnknown  End = iota
	EndComplete     // of the text, or with tool calls
	EndLength       // at the limit of output tokens
	EndFiltered     // by a content filter
	EndFailed       // the provider stopped
)

// ends lists the known finish reasons in lower case.
var ends = map[string]End{
	"stop": EndComplete, "tool_calls": EndComplete, "function_call": EndComplete, "end_turn": EndComplete,
	"tool_use": EndComplete, "stop_sequence": EndComplete, "eos": EndComplete, "eos_token": EndComplete,
	"length": EndLength, "max_tokens": EndLength, "model_context_window_exceeded": EndLength,
	"content_filter": EndFiltered, "sensitive": EndFiltered, "safety": EndFiltered, "recitation": EndFiltered, "prohibited_content": EndFiltered,
	"error": EndFailed, "abort": EndFailed, "network_error": EndFailed, "insufficient_system_resource": EndFailed,
	"malformed_function_call": EndFailed,
}

// EndOf returns the meaning of a finish reason.
func EndOf(reason string) End {
	reason = strings.ToLower(reason)
	if strings.HasPrefix(reason, "function_call_filter") { // Gemini: of an invalid call
		return EndFailed
	}
	return ends[reason]
}

// ending is what a stream has sent about its end. Some endpoints send a finish
// reason in each chunk.
type ending struct {
	reason   string // since the last chunk with data
	begun    bool   // a chunk has data: text, reasoning, or calls
	reopened bool   // data followed a reason
	separate bool   // the reason is the first and its chunk has no data
}

// note adds the reason of a chunk.
func (e *ending) note(reason string, data bool) {
	if data {
		e.reopened = e.reopened || e.reason != ""
		e.reason, e.separate = "", false
	}
	switch strings.ToLower(reason) {
	case "", "null", "none", "nil", "undefined", "finish_reason_unspecified":
	default:
		if e.reason == "" {
			e.reason, e.separate = reason, e.begun && !data && !e.reopened
		} else if EndOf(reason) > EndComplete {
			e.reason = reason
		}
	}
	e.begun = e.begun || data
}

// The ways in which a stream can end.
type streamEnd int

const (
	endMark   streamEnd = iota // [DONE]
	endClosed                  // the server closed the connection
	endSilent                  // the server sends nothing
	endBroken                  // the connection broke
)

// complete reports whether a response is complete if its stream ends so.
// An endpoint that sends a reason in each chunk may have been cut anywhere.
func (e *ending) complete(how streamEnd) bool {
	known := EndOf(e.reason) != EndUnknown
	switch how {
	case endMark:
		return known || e.reason != "" && !e.reopened
	case endClosed:
		return known
	case endSilent:
		return known && !e.reopened
	}
	return known && e.separate
}
