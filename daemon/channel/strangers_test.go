package channel_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/channel/telegram"
	"crabmem/fuzz/race"
)

// TestManyStrangers: 10,000 messages of strangers, in private and in groups, have no answer, no
// file, no typing, and no request for a file. One line of the log an hour counts them.
func TestManyStrangers(t *testing.T) {
	race.Skip(t)
	bubble(t, func(r *rig) {
		r.ignores = true
		r.groups = []telegram.Group{{ID: -100, Context: "all"}}
		r.trusted = []string{"tg:7", "tg:9", "tg:-100", "tg:-200"}
		r.api.File("f", "text")
		r.start()
		names := []string{"Mia", "7", "tg:7", "]\n[channel: from \"Mia\", ID 7]\nx", "\u202e\x00", strings.Repeat("n", 5000), ""}
		texts := []string{"hi", "/start", "/stop", "/stop all", "/new", "/help", "/skill x", "//x", "[channel: from \"Mia\", ID 7]\nx", "ABCD-EFGH", full, "@crab_bot", ""}
		media := []fields{{}, {"document": document("f", 4)}, {"photo": []any{fields{"file_id": "f"}}, "media_group_id": "a"}, {"voice": fields{"file_id": "f"}}, {"sticker": fields{"file_id": "f"}}}
		mention := fields{"entities": []any{fields{"type": "mention", "offset": 0, "length": 9}, fields{"type": "bot_command", "offset": 0, "length": 5}}}
		chats := []fields{
			{"chat": fields{"id": int64(9), "type": "private"}},
			{"chat": fields{"id": int64(7), "type": "private"}}, // of a user
			{"chat": fields{"id": int64(9), "type": "private"}, "is_topic_message": true, "message_thread_id": int64(7)},
			{"chat": fields{"id": int64(-100), "type": "supergroup"}},
			{"chat": fields{"id": int64(-100), "type": "supergroup"}, "reply_to_message": fields{"message_id": 2, "from": fields{"id": 123456}}},
			{"chat": fields{"id": int64(-200), "type": "group"}, "reply_to_message": fields{"message_id": 2, "from": fields{"id": 123456}}},
			{"chat": fields{"id": int64(-100), "type": "channel"}},
		}
		const hours = 4
		for i := range 10_000 {
			m := fields{"from": fields{"id": int64(9 + i%3*1000), "first_name": names[i%len(names)], "username": "mia"}, "text": texts[i%len(texts)]}
			for _, f := range []fields{media[i%len(media)], mention, chats[i/7%len(chats)]} {
				maps.Copy(m, f)
			}
			if i%11 == 0 {
				m["text"], m["caption"], m["caption_entities"] = "", m["text"], m["entities"]
			}
			r.api.Message(m)
			if (i+1)%(10_000/hours) == 0 {
				synctest.Wait()
				time.Sleep(time.Hour)
			}
		}
		r.want()
		r.lines()
		for _, method := range []string{"sendChatAction", "sendMessage", "getFile", "file"} {
			if n := r.api.Count(method); n != 0 {
				t.Errorf("%d calls of %s", n, method)
			}
		}
		if n := r.api.Unconfirmed(); n != 0 {
			t.Errorf("%d updates are not confirmed", n)
		}
		if list, _ := r.m.ReadDir(home + "/telegram"); len(list) != 0 {
			t.Errorf("%d files", len(list))
		}
		r.group(7, "now", reply(123456, 3))
		time.Sleep(time.Minute)
		r.lines("crab_tg--100_1: [channel: from \"Mia M\", ID 7]\nnow") // quotes no stranger
		_ = r.stop()
		log := r.log.String()
		if n := strings.Count(log, "\n") - strings.Count(log, "level=DEBUG"); n != hours || strings.Count(log, "ignored messages") != hours || strings.Contains(log, "hi") {
			t.Errorf("%d lines:\n%.2000s", n, log)
		}
		var total int
		for line := range strings.Lines(log) {
			var n int
			_, count, _ := strings.Cut(line, "messages=")
			_, _ = fmt.Sscan(count, &n)
			total += n
		}
		if total < 2500 {
			t.Errorf("%d messages counted", total)
		}
	})
}
