package telegramtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

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
		if s.ReplyTo, err = replyTo(r.FormValue("reply_parameters")); err != nil {
			return nil, err
		}
		if r.FormValue("parse_mode") == "HTML" {
			s.HTML = s.Text
			if s.Text, err = ParseHTML(s.HTML); err != nil {
				return nil, err
			}
		}
		return a.send(s)
	case "editMessageText":
		text, html := r.FormValue("text"), ""
		if r.FormValue("parse_mode") == "HTML" {
			var err error
			if html = text; html != "" {
				text, err = ParseHTML(html)
			}
			if err != nil {
				return nil, err
			}
		}
		return a.edit(number("chat_id"), number("message_id"), func(s *Sent) { s.Text, s.HTML, s.Buttons, s.Edits = text, html, nil, append(s.Edits, text) })
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
		if n := utf8.RuneCountInString(r.FormValue("text")); n > 200 {
			return nil, fmt.Errorf("callback query: text of %d characters", n)
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

// replyTo returns the message in reply_parameters, which may be empty. Without the parameter
// allow_sending_without_reply, a bot could not answer a message that a person removed.
func replyTo(parameters string) (int64, error) {
	var p struct {
		ID      int64 `json:"message_id"`
		Without bool  `json:"allow_sending_without_reply"`
	}
	if parameters == "" {
		return 0, nil
	}
	if err := json.Unmarshal([]byte(parameters), &p); err != nil || p.ID <= 0 || !p.Without {
		return 0, fmt.Errorf("reply_parameters %s: %v", parameters, err)
	}
	return p.ID, nil
}

// buttonsOf returns the buttons in a reply_markup, which may be empty.
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
	s.ID, s.At = a.message, time.Now()
	a.sent = append(a.sent, s)
	return s.result(), nil
}

// result returns the message as the API does.
func (s *Sent) result() map[string]any {
	return map[string]any{"message_id": s.ID, "date": 1, "chat": map[string]any{"id": s.Chat, "type": "private"}, "text": s.Text}
}

// edit changes the bot's message.
func (a *API) edit(chat, id int64, change func(*Sent)) (any, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.sent {
		s := a.sent[i]
		if s.Chat != chat || s.ID != id {
			continue
		}
		if s.Removed {
			return nil, errRemoved
		}
		if change(&s); s.Text == a.sent[i].Text && s.HTML == a.sent[i].HTML && slices.Equal(s.Buttons, a.sent[i].Buttons) {
			return nil, errSame
		}
		if err := s.check(); err != nil {
			return nil, err
		}
		a.sent[i] = s
		return s.result(), nil
	}
	return nil, fmt.Errorf("%w: %d in chat %d", errRemoved, id, chat)
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
