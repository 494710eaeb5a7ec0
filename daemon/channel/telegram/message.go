package telegram

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"crabmem/bm25/clip"
	"crabmem/daemon/box"
	"crabmem/daemon/channel"
)

const (
	fullText = 4096 // UTF-16 units: the largest text of a message
	maxAlbum = 64   // bytes of an album's ID
)

// update is the part of an update that the channel reads.
type update struct {
	ID      int64    `json:"update_id"`
	Message *message `json:"message"`
	Press   *press   `json:"callback_query"`
}

type message struct {
	ID         int64     `json:"message_id"`
	Topic      int64     `json:"message_thread_id"`
	InTopic    bool      `json:"is_topic_message"`
	From       *user     `json:"from"`
	SenderChat *struct{} `json:"sender_chat"`
	Chat       struct {
		ID   int64  `json:"id"`
		Type string `json:"type"`
	} `json:"chat"`
	Date     int64  `json:"date"` // Unix time
	Album    string `json:"media_group_id"`
	Text     string `json:"text"`
	Caption  string `json:"caption"`
	Photo    []file `json:"photo"` // sizes of one picture, the largest last
	Document *file  `json:"document"`
	Voice    *file  `json:"voice"`
	Audio    *file  `json:"audio"`
	Video    *file  `json:"video"`
}

type user struct {
	ID    int64 `json:"id"`
	IsBot bool  `json:"is_bot"`
}

// messageOf returns a person's message in a private chat, or false.
func (b *bot) messageOf(m *message) (channel.Message, bool) {
	if m == nil || m.From == nil || m.From.IsBot || m.From.ID == b.id || m.SenderChat != nil || m.Chat.Type != "private" || m.Chat.ID != m.From.ID {
		return channel.Message{}, false
	}
	sender := strconv.FormatInt(m.From.ID, 10)
	out := channel.Message{ID: strconv.FormatInt(m.ID, 10), Conversation: prefix + sender, Sender: sender, Text: m.Text, Attachment: m.attachment(),
		Received: box.Received{Sent: time.Unix(m.Date, 0).UTC(), Album: clip.Bytes(m.Album, maxAlbum)}}
	if m.InTopic && m.Topic != 0 {
		out.Conversation += "/" + strconv.FormatInt(m.Topic, 10)
	}
	if out.Text == "" {
		out.Text = m.Caption
	}
	if strings.TrimSpace(out.Text) == "" {
		out.Text, out.NoText = "", true
	}
	out.Full = len(utf16.Encode([]rune(m.Text))) >= fullText
	return out, true
}
