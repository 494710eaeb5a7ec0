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
	"net/url"
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
	BadHTML       Fault = "the formatting is refused"  // 400
	NotModified   Fault = "the message is as it was"   // 400
)

// Sent is a message from the bot.
type Sent struct {
	Chat, Topic, ID int64
	Text            string // without tags
	HTML            string // empty: the text has no formatting
	Buttons         []Button
}

// Button is a button below a message.
type Button struct {
	Label string `json:"text"`
	Data  string `json:"callback_data"`
}

// update is a person's message, or a press of a button.
type update struct {
	id    int64
	chat  int64
	key   int64 // for Confirmed
	field string
	value map[string]any
}

// API is a Bot API. It is safe for concurrent use.
type API struct {
	// Confirmed, if set, is called before a poll confirms a chat's message, or a press of a
	// button, whose number is negative. Its error fails the test.
	Confirmed func(chat, message int64) error
	// Do, if set, is called for each request after it has had its effect.
	Do func(method string)
	// Fail is called with each bot error.
	Fail func(error)
	// Other is set if the bot is another program: its requests differ from the channel's.
	Other bool

	mu      sync.Mutex
	queue   []update
	lastID  int64
	message int64
	sent    []Sent
	pressed []string          // texts that answered the presses
	drafts  []Sent            // with the ID of the draft
	files   map[string]string // texts, by ID
	counts  map[string]int    // requests, by method
	faults  map[string][]Fault
	changed chan struct{} // closed and replaced when the queue changes
}

// New returns an API. fail is called with each bot error.
func New(fail func(error)) *API {
	return &API{Fail: fail, lastID: 1000, message: 1, counts: make(map[string]int), faults: make(map[string][]Fault), changed: make(chan struct{})}
}

// Text adds a person's text, and returns its ID.
func (a *API) Text(user int64, text string) int64 {
	return a.Message(map[string]any{"from": map[string]any{"id": user}, "chat": map[string]any{"id": user, "type": "private"}, "text": text})
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
	fields["message_id"] = id
	if fields["date"] == nil {
		fields["date"] = time.Now().Unix()
	}
	if from, ok := fields["from"].(map[string]any); ok && from["is_bot"] == nil {
		from["is_bot"] = false
		if from["first_name"] == nil {
			from["first_name"] = "Mia"
		}
	}
	a.push(update{chat: fields["chat"].(map[string]any)["id"].(int64), key: id, field: "message", value: fields})
}

// push adds an update. The caller holds mu.
func (a *API) push(u update) {
	a.lastID++
	u.id = a.lastID
	a.queue = append(a.queue, u)
	close(a.changed)
	a.changed = make(chan struct{})
}

// Press presses the button of a message with some data, and returns the negative number of the
// press. It does nothing if the message has no such button.
func (a *API) Press(user, message int64, data string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.sent {
		if s.ID == message && slices.ContainsFunc(s.Buttons, func(b Button) bool { return b.Data == data }) {
			a.message++
			of := map[string]any{"message_id": message, "chat": map[string]any{"id": s.Chat, "type": "private"}, "from": map[string]any{"id": 123456, "is_bot": true}, "text": s.Text}
			if s.Topic != 0 {
				of["message_thread_id"], of["is_topic_message"] = s.Topic, true
			}
			a.push(update{chat: s.Chat, key: -a.message, field: "callback_query", value: map[string]any{"id": strconv.FormatInt(a.message, 10), "from": map[string]any{"id": user}, "message": of, "data": data}})
			return -a.message
		}
	}
	return 0
}

// Pressed returns the texts that answered presses of buttons.
func (a *API) Pressed() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.pressed)
}

// File adds a file for getFile.
func (a *API) File(id, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.files == nil {
		a.files = make(map[string]string)
	}
	a.files[id] = text
}

// file answers a request for the content of a file.
func (a *API) file(w http.ResponseWriter, id string) {
	a.mu.Lock()
	a.counts["file"]++
	text, ok := a.files[id]
	a.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = io.WriteString(w, text) // an error: the client is gone
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

// Clear removes the faults of a method's next requests.
func (a *API) Clear(method string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.faults, method)
}

// Sent returns the bot's messages.
func (a *API) Sent() []Sent {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.sent)
}

// Drafts returns the texts that the bot showed before a message.
func (a *API) Drafts() []Sent {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.drafts)
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
	if id, ok := strings.CutPrefix(r.URL.Path, "/file/bot"+Token+"/documents/"); ok {
		a.file(w, id)
		return
	}
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+Token+"/")
	if err := r.ParseMultipartForm(1 << 20); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		panic(http.ErrAbortHandler) // the client is gone
	}
	a.mu.Lock()
	a.counts[method]++
	record(method, r.Form)
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
		if !errors.Is(err, errSame) {
			a.Fail(err)
		}
		respond(w, 400, map[string]any{"ok": false, "error_code": 400, "description": "Bad Request: " + err.Error()})
	default:
		respond(w, 200, map[string]any{"ok": true, "result": result})
	}
}

// errSame refuses a change that changes nothing, as Telegram does. A bot may repeat a change.
var errSame = errors.New("message is not modified: specified new message content and reply markup are exactly the same")

// Record receives each request, as a line of JSON; nil: none does.
var Record io.Writer

func record(method string, form url.Values) {
	if Record == nil {
		return
	}
	params := map[string]string{}
	for key := range form {
		params[key] = form.Get(key)
	}
	b, err := json.Marshal(map[string]any{"method": method, "params": params})
	if err == nil {
		_, err = Record.Write(append(b, '\n'))
	}
	if err != nil {
		panic(err) // the test must not pass without the record
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
	case BadHTML:
		text = "Bad Request: can't parse entities: unsupported start tag"
	case NotModified:
		text = "Bad Request: " + errSame.Error()
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
		if got := r.FormValue("link_preview_options"); got != `{"is_disabled":true}` && !a.Other {
			return nil, errors.New("link_preview_options " + got)
		}
		buttons, err := buttonsOf(r.FormValue("reply_markup"))
		if err != nil {
			return nil, err
		}
		s := Sent{Chat: number("chat_id"), Topic: number("message_thread_id"), Text: r.FormValue("text"), Buttons: buttons}
		if r.FormValue("parse_mode") == "HTML" {
			s.HTML = s.Text
			if s.Text, err = ParseHTML(s.HTML); err != nil {
				return nil, err
			}
		}
		return a.send(s)
	case "editMessageReplyMarkup":
		buttons, err := buttonsOf(r.FormValue("reply_markup"))
		if err != nil {
			return nil, err
		}
		return a.edit(number("chat_id"), number("message_id"), func(s *Sent) { s.Buttons = buttons })
	case "sendMessageDraft":
		s := Sent{Chat: number("chat_id"), Topic: number("message_thread_id"), ID: number("draft_id"), Text: r.FormValue("text")}
		if err := s.check(); err != nil || s.ID == 0 || s.Chat < 0 {
			return nil, fmt.Errorf("draft %d in chat %d: %v", s.ID, s.Chat, err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.drafts = append(a.drafts, s)
		return true, nil
	case "answerCallbackQuery":
		a.mu.Lock()
		defer a.mu.Unlock()
		if r.FormValue("callback_query_id") == "" {
			return nil, errors.New("callback_query_id is empty")
		}
		a.pressed = append(a.pressed, r.FormValue("text"))
		return true, nil
	case "getFile":
		return map[string]any{"file_id": r.FormValue("file_id"), "file_path": "documents/" + r.FormValue("file_id")}, nil
	case "sendChatAction", "deleteWebhook":
		return true, nil
	case "getMe":
		return map[string]any{"id": 123456, "is_bot": true, "first_name": "Crab", "username": "crab_bot", "can_read_all_group_messages": false}, nil
	case "getWebhookInfo":
		return map[string]any{"url": "", "pending_update_count": a.Unconfirmed()}, nil
	}
	return nil, fmt.Errorf("unknown method %s", method)
}

// buttonsOf returns the buttons of a reply_markup, which may be empty.
func buttonsOf(markup string) (list []Button, err error) {
	var m struct {
		Lines [][]Button `json:"inline_keyboard"`
	}
	if markup == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(markup), &m); err != nil || len(m.Lines) == 0 {
		return nil, fmt.Errorf("reply_markup %s: %v", markup, err)
	}
	for _, line := range m.Lines {
		for _, b := range line {
			if b.Label == "" || len(b.Data) < 1 || len(b.Data) > 64 {
				return nil, fmt.Errorf("BUTTON_DATA_INVALID: %+v", b)
			}
			list = append(list, b)
		}
	}
	return list, nil
}

// check returns an error for a message that Telegram refuses.
func (s *Sent) check() error {
	units := 0
	for _, c := range s.Text {
		if units++; c > 0xffff {
			units++
		}
	}
	if units > 4096 || strings.TrimSpace(s.Text) == "" || s.Chat == 0 {
		return fmt.Errorf("message of %d units to chat %d", units, s.Chat)
	}
	return nil
}

func (a *API) send(s Sent) (any, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.message++
	s.ID = a.message
	a.sent = append(a.sent, s)
	return map[string]any{"message_id": s.ID, "date": 1, "chat": map[string]any{"id": s.Chat, "type": "private"}, "text": s.Text}, nil
}

// edit changes a message of the bot.
func (a *API) edit(chat, id int64, change func(*Sent)) (any, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.sent {
		s := a.sent[i]
		if s.Chat != chat || s.ID != id {
			continue
		}
		if change(&s); s.Text == a.sent[i].Text && slices.Equal(s.Buttons, a.sent[i].Buttons) {
			return nil, errSame
		}
		if err := s.check(); err != nil {
			return nil, err
		}
		a.sent[i] = s
		return map[string]any{"message_id": id, "date": 1, "chat": map[string]any{"id": chat, "type": "private"}, "text": s.Text}, nil
	}
	return nil, fmt.Errorf("message to edit not found: %d", id)
}

// poll confirms the updates before an offset, and returns the others, or waits for one.
func (a *API) poll(r *http.Request, offset int64, timeout time.Duration) (any, error) {
	if got := r.FormValue("allowed_updates"); got != `["message","callback_query"]` && !a.Other {
		return nil, errors.New("allowed_updates " + got)
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	for {
		a.mu.Lock()
		for len(a.queue) > 0 && a.queue[0].id < offset {
			if a.Confirmed != nil {
				if err := a.Confirmed(a.queue[0].chat, a.queue[0].key); err != nil {
					a.Fail(err)
				}
			}
			a.queue = a.queue[1:]
		}
		list, changed := []any{}, a.changed
		for _, u := range a.queue[:min(len(a.queue), 100)] {
			list = append(list, map[string]any{"update_id": u.id, u.field: u.value})
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
