package telegram

import (
	"context"

	"crabmem/bm25/clip"
	"crabmem/daemon/channel"
)

// press is a callback query: a person pressed a button below a message.
type press struct {
	ID      string   `json:"id"`
	From    *user    `json:"from"`
	Message *message `json:"message"`
	Data    string   `json:"data"`
}

const (
	maxData  = 64  // bytes of a button's data; the channel's own data is shorter
	maxShown = 200 // bytes of a text after a press
)

// pressOf returns a press of a button as a message, or false.
func (b *bot) pressOf(p *press) (channel.Message, bool) {
	if p == nil || p.Message == nil || p.Data == "" || len(p.Data) > maxData || len(p.ID) > maxData {
		return channel.Message{}, false
	}
	of := *p.Message
	of.From, of.SenderChat = p.From, nil
	m, ok := b.messageOf(&of)
	if ok && m.Group != nil {
		m.Group.Addressed = true
	}
	m.ID, m.Text, m.Button, m.Of = "press "+p.ID, "", p.Data, m.ID
	return m, ok
}

// keyboard returns buttons below a text, one in a line.
func keyboard(buttons []channel.Button) map[string]any {
	var lines [][]map[string]string
	for _, b := range buttons {
		lines = append(lines, []map[string]string{{"text": b.Label, "callback_data": b.Data}})
	}
	return map[string]any{"inline_keyboard": lines}
}

// pressed ends a button's progress bar, and shows the person a text unless it is empty.
// A failure has no effect.
func (b *bot) pressed(ctx context.Context, id, text string) {
	params := map[string]any{"callback_query_id": id}
	if text != "" {
		params["text"] = clip.Bytes(text, maxShown)
	}
	var done bool
	if err := b.call(ctx, sendTime, "answerCallbackQuery", params, &done); err != nil && ctx.Err() == nil {
		b.log.Debug("answer a button", "error", err)
	}
}

// unbutton removes the buttons below a message.
func (b *bot) unbutton(ctx context.Context, conversation, id string) error {
	var done any
	return b.do(ctx, "editMessageReplyMarkup", to(conversation, map[string]any{"message_id": id}), &done)
}
