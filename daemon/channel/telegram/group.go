package telegram

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"crabmem/daemon/channel"
)

// openPrefix begins the identities of groups with messages of all senders. So a rule for all
// identities of tg: does not give them its trust.
const openPrefix = "tg-open:"

// all is a value of Senders and Context.
const all = "all"

// Group is a group that the channel reads.
type Group struct {
	ID      int64   `toml:"id"`
	Senders string  `toml:"senders"` // empty: only users; or all
	Context string  `toml:"context"` // empty: only messages for the bot; or all
	Topics  []int64 `toml:"topics"`  // empty: all; 0: outside of topics
}

// Route selects the agent for messages. The route with the chat and the topic wins, then the one
// with the chat, then the one without.
type Route struct {
	Chat  int64  `toml:"chat"`
	Topic int64  `toml:"topic"`
	Agent string `toml:"agent"`
}

// entity is a part of a text, in UTF-16 units.
type entity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
	User   *user  `json:"user"`
}

func (c *Config) checkGroups() error {
	if n := max(len(c.Groups), len(c.Routes)); n > maxAllowed {
		return fmt.Errorf("groups or routes: %d tables, want at most %d", n, maxAllowed)
	}
	for i, g := range c.Groups {
		switch {
		case g.ID >= 0:
			return fmt.Errorf("groups: id = %d: want the ID of a group, as -1001234567890", g.ID)
		case slices.ContainsFunc(c.Groups[:i], func(o Group) bool { return o.ID == g.ID }):
			return fmt.Errorf("groups: id = %d is repeated", g.ID)
		case g.Senders != "" && g.Senders != all || g.Context != "" && g.Context != all:
			return fmt.Errorf("groups: senders and context of %d: want %q, or no value", g.ID, all)
		case len(g.Topics) > maxAllowed || slices.ContainsFunc(g.Topics, func(id int64) bool { return id < 0 }):
			return fmt.Errorf("groups: topics of %d: want at most %d IDs, or 0 for messages outside of topics", g.ID, maxAllowed)
		}
	}
	for i, r := range c.Routes {
		switch {
		case r.Agent == "":
			return errors.New("routes: agent is not set")
		case r.Topic != 0 && r.Chat == 0:
			return fmt.Errorf("routes: topic = %d without chat", r.Topic)
		case slices.ContainsFunc(c.Routes[:i], func(o Route) bool { return o.Chat == r.Chat && o.Topic == r.Topic }):
			return fmt.Errorf("routes: chat = %d, topic = %d is repeated", r.Chat, r.Topic)
		}
	}
	return nil
}

// agent returns the agent for a chat's messages, or "".
func (c *Config) agent(chat, topic int64) string {
	for _, want := range []Route{{Chat: chat, Topic: topic}, {Chat: chat}, {}} {
		for _, r := range c.Routes {
			if r.Chat == want.Chat && r.Topic == want.Topic {
				return r.Agent
			}
		}
	}
	return ""
}

// group returns a listed group, or nil.
func (c *Config) group(id int64) *Group {
	if i := slices.IndexFunc(c.Groups, func(g Group) bool { return g.ID == id }); i >= 0 {
		return &c.Groups[i]
	}
	return nil
}

// name returns the name of a group's conversation in a topic; 0: outside of topics.
func (g *Group) name(topic int64) string {
	if g.Senders == all {
		return conversation(openPrefix, g.ID, topic)
	}
	return conversation(prefix, g.ID, topic)
}

// identify asks for the name of the bot, with which messages in groups address it.
func (b *bot) identify(ctx context.Context) error {
	if len(b.config.Groups) == 0 || b.name != "" {
		return nil
	}
	var me struct {
		Name string `json:"username"`
	}
	err := b.call(ctx, sendTime, "getMe", map[string]any{}, &me)
	b.name = me.Name
	return err
}

// inGroup adds the group to its message. It returns false if no agent reads the message.
func (b *bot) inGroup(m *message, out *channel.Message) bool {
	g := b.config.group(m.Chat.ID)
	if g == nil {
		out.Group = &channel.Group{Addressed: true}
		return true
	}
	if len(g.Topics) > 0 && !slices.Contains(g.Topics, m.topic()) {
		return false
	}
	out.Group = &channel.Group{Listed: true, Open: g.Senders == all, Context: g.Context == all, Name: strings.TrimSpace(m.From.First + " " + m.From.Last)}
	out.Conversation = g.name(m.topic())
	out.Text, out.Group.Addressed = b.addressed(m, out.Text)
	return true
}

// addressed reports whether a message in a group is for the bot, and returns its text without
// the bot's name after a command.
func (b *bot) addressed(m *message, text string) (string, bool) {
	// The first message of a topic, of which all others are replies, is not a person's.
	ok := m.ReplyTo != nil && m.ReplyTo.From != nil && m.ReplyTo.From.ID == b.id && m.ReplyTo.ID != m.topic()
	entities, units := m.Entities, utf16.Encode([]rune(text))
	if m.Text == "" {
		entities = m.CaptionEntities
	}
	for _, e := range entities {
		if e.Offset < 0 || e.Length < 0 || e.Offset > len(units) || e.Length > len(units)-e.Offset {
			continue
		}
		command, name, _ := strings.Cut(string(utf16.Decode(units[e.Offset:e.Offset+e.Length])), "@")
		isName := b.name != "" && strings.EqualFold(name, b.name)
		switch {
		case e.Type == "text_mention" && e.User != nil && e.User.ID == b.id, e.Type == "mention" && command == "" && isName:
			ok = true
		case e.Type == "bot_command" && isName:
			ok = true
			if e.Offset == 0 {
				text = command + string(utf16.Decode(units[e.Length:]))
			}
		}
	}
	return text, ok
}

// migrated logs that a group has another ID.
func (b *bot) migrated(m *message) {
	if b.config.group(m.Chat.ID) != nil {
		b.log.Error("a group has another ID: its messages are ignored", "group", m.Chat.ID, "new", m.MigrateTo, "fix", "run crabmem channels migrate")
	}
}
