package telegramtest

import (
	"errors"
	"io"
	"net/http"
)

// Fault is a request's failure.
type Fault string

// The faults.
const (
	OtherPoll     Fault = "another program polls"                  // 409
	Webhook       Fault = "the bot has a webhook"                  // 409
	Flood         Fault = "too many requests, wait 30 s"           // 429
	FloodNoTime   Fault = "too many requests"                      // 429 without retry_after
	BadGateway    Fault = "an HTML page of a proxy"                // 502
	ServerError   Fault = "an error of the server"                 // 500
	CutBefore     Fault = "the connection ends before the request" // which has no effect
	CutAfter      Fault = "the connection ends after the request"  // which has its effect
	NoConnection  Fault = "no connection"
	Blocked       Fault = "the person blocked the bot" // 403
	BadRequest    Fault = "the text is refused"        // 400
	WrongToken    Fault = "the token is wrong"         // 401
	Migrated      Fault = "the chat has another ID"    // 400
	UnknownMethod Fault = "the method is unknown"      // 404
	BadHTML       Fault = "the formatting is refused"  // 400
	NotModified   Fault = "the message is as it was"   // 400
)

// errSame refuses an edit without a difference, as Telegram does. A bot may repeat an edit.
var errSame = errors.New("message is not modified: specified new message content and reply markup are exactly the same")

// errRemoved refuses the edit of a message that a person removed, or that the bot did not send.
var errRemoved = errors.New("message to edit not found")

func refuse(w http.ResponseWriter, fault Fault) {
	code, text, parameters := 400, "Bad Request: can't parse", map[string]any{}
	switch fault {
	case CutBefore:
		panic(http.ErrAbortHandler)
	case BadGateway:
		w.WriteHeader(502)
		_, _ = io.WriteString(w, "<html>502 Bad Gateway</html>")
		return
	case OtherPoll:
		code, text = 409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
	case Webhook:
		code, text = 409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
	case Flood:
		code, text, parameters["retry_after"] = 429, "Too Many Requests: retry after 30", 30
	case FloodNoTime:
		code, text = 429, "Too Many Requests"
	case ServerError:
		code, text = 500, "Internal Server Error"
	case Blocked:
		code, text = 403, "Forbidden: bot was blocked by the user"
	case WrongToken:
		code, text = 401, "Unauthorized"
	case Migrated:
		text, parameters["migrate_to_chat_id"] = "Bad Request: group chat was upgraded to a supergroup chat", -1001
	case UnknownMethod:
		code, text = 404, "Not Found"
	case BadHTML:
		text = "Bad Request: can't parse entities: unsupported start tag"
	case NotModified:
		text = "Bad Request: " + errSame.Error()
	}
	respond(w, code, map[string]any{"ok": false, "error_code": code, "description": text, "parameters": parameters})
}
