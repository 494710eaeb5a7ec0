// Package telegramtest provides a Bot API for tests. It delivers updates until a poll
// confirms them, records the messages that a bot sends, and fails the requests that a test
// selects.
package telegramtest

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// Token is the bot's token.
const Token = "123456:AAE-planted_token"

// Sent is a message from the bot.
type Sent struct {
	Chat, Topic, ID int64
	Text            string // without tags
	HTML            string // empty: the text has no formatting
	Buttons         []Button
	ReplyTo         int64 // 0: not a reply
	At              time.Time
	Removed         bool     // by a person
	Edits           []string // texts, without those of edits that were refused
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
// press. It returns 0 if the message has no such button.
func (a *API) Press(user, message int64, data string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.sent {
		if s.ID == message && slices.ContainsFunc(s.Buttons, func(b Button) bool { return b.Data == data }) {
			a.message++
			kind := "private"
			if s.Chat < 0 {
				kind = "supergroup"
			}
			of := map[string]any{"message_id": message, "chat": map[string]any{"id": s.Chat, "type": kind}, "from": map[string]any{"id": 123456, "is_bot": true}, "text": s.Text}
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

// Remove removes the bot's newest message, as a person does.
func (a *API) Remove() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent[len(a.sent)-1].Removed = true
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
