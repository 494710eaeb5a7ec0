package telegram

import (
	"strconv"
	"strings"
	"time"

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
	MigrateTo       int64    `json:"migrate_to_chat_id"`
	ReplyTo         *message `json:"reply_to_message"`
	Entities        []entity `json:"entities"`
	CaptionEntities []entity `json:"caption_entities"`
	Date            uint32   `json:"date"` // Unix time
	Album           string   `json:"media_group_id"`
	Text            string   `json:"text"`
	Caption         string   `json:"caption"`
	Photo           []file   `json:"photo"` // sizes of one picture, the largest last
	Document        *file    `json:"document"`
	Voice           *file    `json:"voice"`
	Audio           *file    `json:"audio"`
	Video           *file    `json:"video"`
}

type user struct {
	ID    int64  `json:"id"`
	IsBot bool   `json:"is_bot"`
	First string `json:"first_name"`
	Last  string `json:"last_name"`
}

// messageOf returns a person's message, or false.
func (b *bot) messageOf(m *message) (channel.Message, bool) {
	if m != nil && m.MigrateTo != 0 {
		b.migrated(m)
	}
	if m == nil || m.MigrateTo != 0 || m.From == nil || m.From.IsBot || m.From.ID == b.id || m.SenderChat != nil {
		return channel.Message{}, false
	}
	isGroup := m.Chat.Type == "group" || m.Chat.Type == "supergroup"
	if !isGroup && (m.Chat.Type != "private" || m.Chat.ID != m.From.ID) {
		return channel.Message{}, false
	}
	out := channel.Message{ID: strconv.FormatInt(m.ID, 10), Sender: strconv.FormatInt(m.From.ID, 10), Text: m.Text, Attachment: m.attachment(),
		Conversation: conversation(prefix, m.Chat.ID, m.topic()), Agent: b.config.agent(m.Chat.ID, m.topic()),
		Received: box.Received{Sent: time.Unix(int64(m.Date), 0).UTC(), Album: clip.Bytes(m.Album, maxAlbum)}}
	if out.Text == "" {
		out.Text = m.Caption
	}
	if m.ReplyTo != nil {
		out.Of = strconv.FormatInt(m.ReplyTo.ID, 10)
	}
	if isGroup && !b.inGroup(m, &out) {
		return channel.Message{}, false
	}
	if strings.TrimSpace(out.Text) == "" {
		out.Text, out.NoText = "", true
	}
	out.Full = channel.Units(m.Text) >= fullText
	return out, true
}

// topic returns the topic of a message, or 0.
func (m *message) topic() int64 {
	if m.InTopic {
		return m.Topic
	}
	return 0
}

// conversation returns the name of a conversation.
func conversation(prefix string, chat, topic int64) string {
	name := prefix + strconv.FormatInt(chat, 10)
	if topic != 0 {
		name += "/" + strconv.FormatInt(topic, 10)
	}
	return name
}
