package telegram

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/daemon/box"
	"crabmem/daemon/channel"
	"crabmem/daemon/errtable"

	"github.com/PaulSonOfLars/gotgbot/v2"
)

// The limits of the Bot API, and of its use.
const (
	maxUnits    = 3900     // of a message; the API accepts 4,096 UTF-16 units
	maxResponse = 16 << 20 // bytes
	sendTime    = 20 * time.Second
	typingTime  = 4 * time.Second // the API shows typing for 5 s
	editTime    = 1500 * time.Millisecond
	floodWait   = 5 * time.Second // after a 429 without retry_after
	firstWait   = time.Second
	maxWait     = time.Minute
	otherWait   = 5 * time.Second // the first wait for another program that polls
	prefix      = "tg:"
)

// bot is a client of the Bot API. Only the requests and errors of gotgbot are used: with its
// types, the program is 1.6 MB larger.
type bot struct {
	client  gotgbot.BaseBotClient
	token   string
	id      int64
	name    string // in mentions; of receive
	config  *Config
	log     *slog.Logger
	timeout time.Duration // of a poll

	noDrafts atomic.Bool // the server does not know drafts
	pace     pace        // of messages
}

// New returns a configuration's platform. transport carries the requests; nil is
// [http.DefaultTransport].
func New(c *Config, log *slog.Logger, transport http.RoundTripper) *channel.Platform {
	b := newBot(c, log, transport)
	p := &channel.Platform{Dir: box.Telegram, Prefix: prefix, Limit: maxUnits, Receive: b.receive, Send: b.send, Edit: b.edit, Wait: b.pace.next, Unbutton: b.unbutton, Fetch: b.fetch, Typing: b.typing, TypingTime: typingTime}
	if c.Streaming != "off" {
		p.EditTime = editTime
	}
	if c.Streaming == "" || c.Streaming == "draft" {
		p.Draft = b.draft
	}
	return p
}

func newBot(c *Config, log *slog.Logger, transport http.RoundTripper) *bot {
	if transport == nil {
		transport = http.DefaultTransport
	}
	id, _, _ := strings.Cut(c.Token, ":")
	n, _ := strconv.ParseInt(id, 10, 64) // checked by ReadConfig
	return &bot{config: c, token: c.Token, id: n, log: log, pace: pace{sent: make(map[string][]time.Time)}, timeout: time.Duration(c.PollTimeout) * time.Second, client: gotgbot.BaseBotClient{
		Client: http.Client{
			Transport:     bounded{transport},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the path has the token
		},
		DefaultRequestOpts: &gotgbot.RequestOpts{APIURL: c.API},
	}}
}

// call calls an API method, and decodes its result.
func (b *bot) call(ctx context.Context, limit time.Duration, method string, params map[string]any, out any) error {
	result, err := b.client.RequestWithContext(ctx, b.token, method, params, &gotgbot.RequestOpts{Timeout: limit})
	if err != nil {
		return err
	}
	return json.Unmarshal(result, out)
}

// bounded limits the bodies of responses.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxResponse), resp.Body}
	}
	return resp, err
}

// receive polls for messages until ctx ends, or the owner must act. It confirms messages with
// the poll after accept stored them.
func (b *bot) receive(ctx context.Context, accept func([]channel.Message) error) error {
	var offset int64
	var shown sync.WaitGroup
	defer shown.Wait()
	wait, isOther := firstWait, false
	var hold time.Duration // of a poll; the first poll does not wait
	for ctx.Err() == nil {
		var updates []json.RawMessage
		err := b.identify(ctx)
		if err == nil {
			err = b.call(ctx, b.timeout+10*time.Second, "getUpdates", map[string]any{"offset": offset, "limit": 100, "timeout": int64(hold / time.Second),
				"allowed_updates": []string{"message", "callback_query"}}, &updates)
		}
		if err == nil {
			isOther = false
			if offset, err = b.store(ctx, &shown, updates, offset, accept); err == nil {
				wait, hold = firstWait, b.timeout
				continue
			}
			b.log.Error("messages are not stored: polling pauses, and they are delivered again", "wait", wait, "error", err)
			wait = sleep(ctx, wait)
			continue
		}
		if ctx.Err() != nil {
			break
		}
		e, _ := errors.AsType[*gotgbot.TelegramError](err)
		switch {
		case e == nil:
			b.log.Warn("Telegram does not answer", "wait", wait, "error", err)
			wait = sleep(ctx, wait)
		case isRefusal(e):
			return refused(e)
		case e.Code == http.StatusConflict && strings.Contains(e.Description, "webhook"):
			return &errtable.Error{Kind: "webhook", Exit: errtable.ExitConflict, Message: "Telegram sends the messages of this bot to a webhook: " + e.Description, Fix: "run crabmem telegram --delete-webhook", Err: err}
		case e.Code == http.StatusConflict && !isOther:
			// The poll of a process that was killed is active until its time-out.
			b.log.Warn("another program uses the token, or did until now", "wait", b.timeout)
			isOther, wait = true, otherWait
			channel.Pause(ctx, b.timeout)
		case e.Code == http.StatusConflict:
			wait = sleep(ctx, wait)
		case e.Code == http.StatusTooManyRequests:
			channel.Pause(ctx, flood(e))
		default:
			b.log.Warn("Telegram refuses to send messages", "wait", wait, "error", err)
			wait = sleep(ctx, wait)
		}
	}
	return nil
}

// isRefusal reports whether the API refuses the token.
func isRefusal(e *gotgbot.TelegramError) bool {
	return e.Code == http.StatusUnauthorized || e.Code == http.StatusNotFound
}

func refused(e *gotgbot.TelegramError) error {
	return &errtable.Error{Kind: "token", Exit: errtable.ExitPermission, Message: "Telegram refuses the token: " + e.Description, Fix: "set token in " + File + " to the token of BotFather", Err: e}
}

// store stores updates, and returns the offset that confirms them. It skips updates that it
// cannot decode, but at least one update must have a number. An empty poll confirms all earlier
// updates. The offset is then 0, because the numbers may begin again. shown counts the
// goroutines that end the progress bars of buttons.
func (b *bot) store(ctx context.Context, shown *sync.WaitGroup, updates []json.RawMessage, offset int64, accept func([]channel.Message) error) (int64, error) {
	var list []channel.Message
	presses := make(map[int]string) // IDs of presses of buttons, by the index in list
	last := int64(-1)
	for _, raw := range updates {
		var u update
		err := json.Unmarshal(raw, &u) // also with an error it sets the number
		if last = max(last, cmp.Or(u.ID, -1)); err != nil {
			b.log.Error("an update cannot be decoded: it is skipped", "update", u.ID, "error", err)
		} else if m, ok := b.messageOf(u.Message); ok {
			list = append(list, m)
		} else if m, ok := b.pressOf(u.Press); ok {
			list, presses[len(list)] = append(list, m), u.Press.ID
		}
	}
	if len(updates) > 0 && last < 0 {
		return offset, errors.New("decode updates: no update has a number")
	}
	if err := accept(list); err != nil {
		return offset, err
	}
	for i, id := range presses {
		shown.Go(func() { b.pressed(ctx, id, list[i].Reply) }) // until sendTime
	}
	return last + 1, nil
}

// sleep waits for a random part of at least half of d, and returns the next wait.
func sleep(ctx context.Context, d time.Duration) time.Duration {
	channel.Pause(ctx, d/2+rand.N(d/2+1))
	return min(2*d, maxWait)
}

// flood returns how long the API asks to wait.
func flood(e *gotgbot.TelegramError) time.Duration {
	if e.ResponseParams != nil && e.ResponseParams.RetryAfter > 0 {
		return time.Duration(min(e.ResponseParams.RetryAfter, int64(24*time.Hour/time.Second))) * time.Second
	}
	return floodWait
}

// to adds a conversation's chat and topic to request parameters.
func to(conversation string, params map[string]any) map[string]any {
	_, chat, _ := strings.Cut(conversation, ":")
	chat, topic, inTopic := strings.Cut(chat, "/")
	if params["chat_id"] = chat; inTopic {
		params["message_thread_id"] = topic
	}
	return params
}

// send sends a text.
func (b *bot) send(ctx context.Context, conversation string, t channel.Text) (string, error) {
	var m message
	params := to(conversation, map[string]any{})
	if t.ReplyTo != "" {
		params["reply_parameters"] = map[string]any{"message_id": json.Number(t.ReplyTo), "allow_sending_without_reply": true}
	}
	if len(t.Buttons) > 0 {
		params["reply_markup"] = keyboard(t.Buttons)
	}
	err := b.text(ctx, "sendMessage", params, t, &m)
	return strconv.FormatInt(m.ID, 10), err
}

// edit replaces a text. It succeeds if the message has the text.
func (b *bot) edit(ctx context.Context, conversation, id string, t channel.Text) error {
	var done any
	params := to(conversation, map[string]any{"message_id": id})
	delete(params, "message_thread_id")
	return b.text(ctx, "editMessageText", params, t, &done)
}

// text calls a method with a text, with formatting if the configuration says so. If the API refuses
// the formatting, the text is sent without.
func (b *bot) text(ctx context.Context, method string, params map[string]any, t channel.Text, out any) error {
	params["text"], params["link_preview_options"] = t.Content, map[string]any{"is_disabled": true}
	if b.config.Format == "html" && t.Markdown {
		if text := toHTML(t.Content); text != "" && visible(text) <= fullText {
			params["text"], params["parse_mode"] = text, "HTML"
		}
	}
	err := b.do(ctx, method, params, out)
	if e, ok := errors.AsType[*gotgbot.TelegramError](err); ok && params["parse_mode"] != nil && strings.Contains(e.Description, "can't parse entities") {
		b.log.Warn("Telegram refuses the formatting of a text: it is sent without", "error", err)
		params["text"] = t.Content
		delete(params, "parse_mode")
		err = b.do(ctx, method, params, out)
	}
	return err
}

// do calls a method that sends or changes a message. An error without a connection, or of a
// refusal, is a *channel.SendError: Telegram has no key that makes a repeated request one
// message.
func (b *bot) do(ctx context.Context, method string, params map[string]any, out any) error {
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	err := b.call(ctx, sendTime, method, params, out)
	if err == nil || strings.HasPrefix(method, "edit") && strings.Contains(err.Error(), "message is not modified") {
		return nil
	}
	e, refused := errors.AsType[*gotgbot.TelegramError](err)
	switch {
	case !refused && !connected:
		return &channel.SendError{Err: err, Retry: true}
	case !refused || e.Code >= http.StatusInternalServerError:
		return err
	case e.Code == http.StatusTooManyRequests:
		return &channel.SendError{Err: err, Retry: true, After: flood(e)}
	case e.Code == http.StatusUnauthorized || e.Code == http.StatusConflict:
		return &channel.SendError{Err: err, Retry: true} // the owner sets another token
	}
	return &channel.SendError{Err: err, NoID: strings.Contains(e.Description, "message to edit not found"), Gone: e.Code == http.StatusForbidden || strings.Contains(e.Description, "chat not found") || e.ResponseParams != nil && e.ResponseParams.MigrateToChatId != 0}
}

var errNoDrafts = &channel.SendError{Err: errors.New("the chat or the server has no drafts")}

// draft shows a text in a private chat. A server that does not know drafts is asked once.
func (b *bot) draft(ctx context.Context, conversation string, id int64, text string) error {
	if b.noDrafts.Load() || strings.Contains(conversation, ":-") {
		return errNoDrafts
	}
	var done bool
	err := b.do(ctx, "sendMessageDraft", to(conversation, map[string]any{"draft_id": id, "text": text}), &done)
	if e, ok := errors.AsType[*gotgbot.TelegramError](err); ok && e.Code == http.StatusNotFound {
		b.noDrafts.Store(true)
	}
	return err
}

// typing shows that the agent works. A failure has no effect.
func (b *bot) typing(ctx context.Context, conversation string) {
	var done bool
	if err := b.call(ctx, sendTime, "sendChatAction", to(conversation, map[string]any{"action": "typing"}), &done); err != nil && ctx.Err() == nil {
		b.log.Debug("typing", "error", err)
	}
}

// DeleteWebhook makes Telegram keep messages for polls. It drops no message.
func DeleteWebhook(ctx context.Context, c *Config, log *slog.Logger, transport http.RoundTripper) error {
	var done bool
	if err := newBot(c, log, transport).call(ctx, sendTime, "deleteWebhook", map[string]any{}, &done); err != nil {
		return fmt.Errorf("delete the webhook: %w", err)
	}
	return nil
}
