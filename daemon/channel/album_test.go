package channel_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/fuzz/race"
)

const unreadable = "Only text can be read yet. Pictures, voice messages, and files are ignored."

// photo adds a picture of user 7, in an album unless album is empty, and returns its ID.
func (r *rig) photo(album, caption string) int64 {
	m := privateMessage(7)
	m["photo"] = []fields{{"file_id": "small", "file_size": 90}, {"file_id": "large", "file_size": 2048}}
	if album != "" {
		m["media_group_id"] = album
	}
	if caption != "" {
		m["caption"] = caption
	}
	return r.api.Message(m)
}

// full is a text of the largest length, with a character of two units.
var full = strings.Repeat("x", 4094) + "🦀"

// TestNoText: a message without text waits two seconds for it, then it has one notice. One
// with a caption has an answer.
func TestNoText(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.photo("", "")
		time.Sleep(2*time.Second - 1)
		r.want()
		time.Sleep(2 * time.Nanosecond)
		r.want(unreadable)
		r.photo("", "look")
		r.want(unreadable, "LOOK@")
		r.photo("", "")
		time.Sleep(time.Second)
		r.api.Text(7, "see")
		r.want(unreadable, "LOOK@", strings.ToUpper(pic[1:])+"\n\nSEE")
		r.lines("crab_tg-7_1: look@", "crab_tg-7_1: "+pic[1:]+"\n\nsee")
	})
}

// TestAlbum: the parts of an album are one turn, 2.5 seconds after the last one.
func TestAlbum(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		for i := range 3 {
			r.photo("a", fmt.Sprint(i))
			time.Sleep(2 * time.Second)
		}
		r.want()
		time.Sleep(500*time.Millisecond + 1)
		r.want("0@\n\n1@\n\n2@")
		r.photo("b", "")
		r.photo("b", "")
		time.Sleep(2500*time.Millisecond + 1)
		r.want("0@\n\n1@\n\n2@", unreadable)
	})
}

// TestLongAlbum: an album waits 10 seconds at most. Its late parts join the next turn, as more
// of the album, and do not begin one without text.
func TestLongAlbum(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		for i := range 6 {
			r.photo("a", fmt.Sprint(i))
			time.Sleep(2*time.Second + 1)
		}
		time.Sleep(time.Second)
		r.want("0@\n\n1@\n\n2@\n\n3@\n\n4@", "[CHANNEL: MORE OF THE SAME ALBUM]\n5@")
		r.photo("a", "")
		time.Sleep(time.Hour)
		_ = r.stop() // one poll returns both
		r.api.Text(7, "next")
		r.photo("a", "6")
		r.start()
		time.Sleep(time.Minute)
		r.lines("crab_tg-7_1: 0@\n\n1@\n\n2@\n\n3@\n\n4@", "crab_tg-7_1: [channel: more of the same album]\n5@", "crab_tg-7_1: [channel: more of the same album]@\n\nnext\n\n6@")
		r.photo("a", "")
		r.api.Text(7, "/help")
		time.Sleep(time.Minute)
		r.api.Text(7, "/skill x")
		if n := len(r.sent()); n != 5 || len(files(r.m)[0].Waiting) != 0 {
			t.Errorf("%d texts, %d messages wait", n, len(files(r.m)[0].Waiting))
		}
	})
}

// TestPaste: a text of the full length waits 1.5 seconds for its rest. They are joined without
// a separator. A rest may begin with a slash, but it is no command.
func TestPaste(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.api.Text(7, full)
		time.Sleep(1400 * time.Millisecond)
		r.api.Text(7, full)
		time.Sleep(1400 * time.Millisecond)
		r.api.Text(7, "/etc/hosts")
		synctest.Wait()
		r.api.Text(7, "next")
		synctest.Wait()
		r.api.Text(7, full)
		time.Sleep(1500*time.Millisecond + 1)
		synctest.Wait()
		r.lines("crab_tg-7_1: "+full+full+"/etc/hosts", "crab_tg-7_1: next", "crab_tg-7_1: "+full)
	})
}

// TestPasteInQueue: messages that waited for a run are one paste only if the platform got them
// in two seconds. A command ends a paste.
func TestPasteInQueue(t *testing.T) {
	bubble(t, func(r *rig) {
		r.slowly()
		r.start()
		r.api.Text(7, "run")
		synctest.Wait()
		r.api.Text(7, full)
		time.Sleep(time.Second)
		r.api.Text(7, "rest")
		time.Sleep(3 * time.Second)
		r.api.Text(7, full)
		time.Sleep(3 * time.Second)
		r.api.Text(7, "other")
		time.Sleep(time.Hour)
		r.lines("crab_tg-7_1: run", "crab_tg-7_1: "+full+"rest\n\n"+full+"\n\nother")
		r.api.Text(7, full)
		r.api.Text(7, "/stop")
		r.api.Text(7, "more")
		time.Sleep(time.Hour)
		r.lines("crab_tg-7_1: run", "crab_tg-7_1: "+full+"rest\n\n"+full+"\n\nother", "crab_tg-7_1: more")
	})
}

// TestSkillInAlbum: the parts of an album whose caption is a command are one turn.
func TestSkillInAlbum(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.photo("a", "/skill x")
		r.photo("a", "y")
		r.api.Text(7, "next")
		time.Sleep(time.Minute)
		r.lines("crab_tg-7_1: /skill x@\n\ny@", "crab_tg-7_1: next")
	})
}

// TestAlbumOverRestart: a restart between two parts composes the same turn, also if the
// channel was stopped for a long time.
func TestAlbumOverRestart(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.photo("a", "1")
		r.photo("a", "2")
		synctest.Wait()
		_ = r.stop()
		time.Sleep(time.Hour)
		r.photo("a", "3")
		r.m = r.m.Crash()
		r.api.Queue("getUpdates", telegramtest.NoConnection, telegramtest.NoConnection, telegramtest.NoConnection)
		r.start()
		time.Sleep(2 * time.Second)
		r.want()
		for r.api.Count("getUpdates") < 7 {
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		r.photo("a", "4")
		time.Sleep(time.Minute)
		r.want("1@\n\n2@\n\n3@\n\n4@")
	})
}

// TestLargeTurn: a turn of several messages has at most 256 KiB.
func TestLargeTurn(t *testing.T) {
	race.Skip(t)
	bubble(t, func(r *rig) {
		r.slowly()
		r.start()
		r.api.Text(7, "run")
		synctest.Wait()
		for _, s := range []string{"a", "b", "c"} {
			r.api.Text(7, strings.Repeat(s, 100<<10))
			time.Sleep(3 * time.Second)
		}
		time.Sleep(time.Hour)
		if l := r.d.lines; len(l) != 3 || !strings.HasSuffix(l[1], "a\n\n"+strings.Repeat("b", 100<<10)) || len(l[2]) != 100<<10+len("crab_tg-7_1: ") {
			t.Errorf("%d turns", len(l))
		}
	})
}
