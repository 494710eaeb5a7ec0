package telegram

import (
	"maps"
	"strings"
	"sync"
	"time"
)

// pace spaces messages as the Bot API advises. It stores when the messages of the last minute were
// sent. It is safe for concurrent use.
type pace struct {
	mu   sync.Mutex
	sent map[string][]time.Time // by chat, the newest last; the empty key contains all chats
}

// The rates of messages. The Bot API advises them, and may refuse faster ones.
const (
	ofAll   = 30 // a second
	ofGroup = 20 // a minute
)

// next counts a message to a conversation, or returns how long to wait before the next call.
func (p *pace) next(conversation string) (wait time.Duration) {
	_, chat, _ := strings.Cut(conversation, ":")
	chat, _, _ = strings.Cut(chat, "/")
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	atMost := func(messages int, in time.Duration, chat string) {
		if list := p.sent[chat]; len(list) >= messages {
			wait = max(wait, list[len(list)-messages].Add(in).Sub(now))
		}
	}
	atMost(ofAll, time.Second, "")
	if atMost(1, time.Second, chat); strings.HasPrefix(chat, "-") {
		atMost(ofGroup, time.Minute, chat)
	}
	if wait > 0 {
		return wait
	}
	maps.DeleteFunc(p.sent, func(_ string, list []time.Time) bool { return now.Sub(list[len(list)-1]) > time.Minute })
	for _, key := range []string{"", chat} {
		list := append(p.sent[key], now)
		p.sent[key] = list[max(0, len(list)-ofAll):]
	}
	return 0
}
