// Package telegramtest provides a Bot API for tests. It delivers updates until a poll
// confirms them, records the messages that a bot sends, and fails the requests that a test
// selects.
package telegramtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Token is the bot's token.
const Token = "123456:AAE-planted_token"

// Fault is what happens to a request.
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
)

// Sent is a message from the bot.
type Sent struct {
	Chat, Topic, ID int64
	Text            string
}

// update is a person's message.
type update struct {
	id      int64
	message map[string]any
}

// API is a Bot API. It is safe for concurrent use.
type API struct {
	// Confirmed, if set, is called before a poll confirms a chat's message. Its error fails
	// the test.
	Confirmed func(chat, message int64) error
	// Do, if set, is called for each request after it has had its effect.
	Do func(method string)
	// Fail is called with each bot error.
	Fail func(error)

	mu      sync.Mutex
	queue   []update
	lastID  int64
	message int64
	sent    []Sent
	counts  map[string]int // requests, by method
	faults  map[string][]Fault
	changed chan struct{} // closed and replaced when the queue changes
}

// New returns an API. fail is called with each bot error.
func New(fail func(error)) *API {
	return &API{Fail: fail, lastID: 1000, message: 1, counts: make(map[string]int), faults: make(map[string][]Fault), changed: make(chan struct{})}
}

// Text adds a person's text, and returns its ID.
func (a *API) Text(user int64, text string) int64 {
	return a.Message(map[string]any{"from": map[string]any{"id": user, "first_name": "Mia"}, "chat": map[string]any{"id": user, "type": "private"}, "text": text})
}

// Message adds a message with the given fields, and returns its ID.
func (a *API) Message(fields map[string]any) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.message++
	a.add(fields, a.message)
	return a.message
}

// Redeliver delivers a message again.
func (a *API) Redeliver(fields map[string]any, id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(fields, id)
}

func (a *API) add(fields map[string]any, id int64) {
	a.lastID++
	fields["message_id"] = id
	if fields["date"] == nil {
		fields["date"] = time.Now().Unix()
	}
	a.queue = append(a.queue, update{a.lastID, fields})
	close(a.changed)
	a.changed = make(chan struct{})
}

// Restart makes the numbers of updates begin again at id, as Telegram does after a week.
func (a *API) Restart(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastID = id
}

// Queue makes a method's next requests fail, one fault each. An empty fault lets one pass.
func (a *API) Queue(method string, faults ...Fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults[method] = append(a.faults[method], faults...)
}

// Sent returns the bot's messages.
func (a *API) Sent() []Sent {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.sent)
}

// Count returns how many requests a method had.
func (a *API) Count(method string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[method]
}

// Unconfirmed returns the number of updates that no poll confirmed.
func (a *API) Unconfirmed() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue)
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+Token+"/")
	if err := r.ParseMultipartForm(1 << 20); err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	a.mu.Lock()
	a.counts[method]++
	var fault Fault
	if list := a.faults[method]; len(list) > 0 {
		fault, a.faults[method] = list[0], list[1:]
	}
	a.mu.Unlock()
	if !ok {
		fault = WrongToken
	}
	if fault != "" && fault != CutAfter {
		refuse(w, fault)
		return
	}
	result, err := a.do(method, r)
	if a.Do != nil {
		a.Do(method)
	}
	switch {
	case fault == CutAfter:
		panic(http.ErrAbortHandler)
	case err != nil:
		a.Fail(err)
		respond(w, 400, map[string]any{"ok": false, "error_code": 400, "description": "Bad Request: " + err.Error()})
	default:
		respond(w, 200, map[string]any{"ok": true, "result": result})
	}
}

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
	}
	respond(w, code, map[string]any{"ok": false, "error_code": code, "description": text, "parameters": parameters})
}

func respond(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of plain values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // an error: the client is gone
}

// do carries out a request.
func (a *API) do(method string, r *http.Request) (any, error) {
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(r.FormValue(key), 10, 64)
		return n
	}
	switch method {
	case "getUpdates":
		return a.poll(r, number("offset"), time.Duration(number("timeout"))*time.Second)
	case "sendMessage":
		if got := r.FormValue("link_preview_options"); got != `{"is_disabled":true}` {
			return nil, errors.New("link_preview_options " + got)
		}
		return a.send(number("chat_id"), number("message_thread_id"), r.FormValue("text"))
	case "sendChatAction", "deleteWebhook":
		return true, nil
	case "getMe":
		return map[string]any{"id": 123456, "is_bot": true, "first_name": "Crab", "username": "crab_bot", "can_read_all_group_messages": false}, nil
	case "getWebhookInfo":
		return map[string]any{"url": "", "pending_update_count": a.Unconfirmed()}, nil
	}
	return nil, fmt.Errorf("unknown method %s", method)
}

func (a *API) send(chat, topic int64, text string) (any, error) {
	units := 0
	for _, c := range text {
		if units++; c > 0xffff {
			units++
		}
	}
	if units > 4096 || strings.TrimSpace(text) == "" || chat == 0 {
		return nil, fmt.Errorf("message of %d units to chat %d", units, chat)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.message++
	a.sent = append(a.sent, Sent{chat, topic, a.message, text})
	return map[string]any{"message_id": a.message, "date": 1, "chat": map[string]any{"id": chat, "type": "private"}, "text": text}, nil
}

// poll confirms the updates before an offset, and returns the others, or waits for one.
func (a *API) poll(r *http.Request, offset int64, timeout time.Duration) (any, error) {
	if got := r.FormValue("allowed_updates"); got != `["message"]` {
		return nil, errors.New("allowed_updates " + got)
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	for {
		a.mu.Lock()
		for len(a.queue) > 0 && a.queue[0].id < offset {
			m := a.queue[0].message
			if a.Confirmed != nil {
				if err := a.Confirmed(m["chat"].(map[string]any)["id"].(int64), m["message_id"].(int64)); err != nil {
					a.Fail(err)
				}
			}
			a.queue = a.queue[1:]
		}
		list, changed := []any{}, a.changed
		for _, u := range a.queue[:min(len(a.queue), 100)] {
			list = append(list, map[string]any{"update_id": u.id, "message": u.message})
		}
		a.mu.Unlock()
		if len(list) > 0 {
			return list, nil
		}
		select {
		case <-changed:
		case <-late.C:
			return list, nil
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
}

// Transport returns a transport that calls the API in the request's goroutine.
func (a *API) Transport() http.RoundTripper { return transport{a} }

type transport struct{ *API }

func (t transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	_, method, _ := strings.Cut(r.URL.Path[1:], "/")
	t.mu.Lock()
	if list := t.faults[method]; len(list) > 0 && list[0] == NoConnection {
		t.faults[method] = list[1:]
		t.counts[method]++
		t.mu.Unlock()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	t.mu.Unlock()
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			resp, err = nil, errors.Join(io.ErrUnexpectedEOF, r.Context().Err())
		} else if p != nil {
			panic(p)
		}
	}()
	w := httptest.NewRecorder()
	t.ServeHTTP(w, r)
	return w.Result(), nil
}
