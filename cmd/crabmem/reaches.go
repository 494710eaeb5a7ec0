package main

import (
	"fmt"
	"slices"
	"strings"

	"crabmem/daemon/box"
	"crabmem/daemon/channel/telegram"
	"crabmem/daemon/gateway"
)

// reaches returns an error if a home has no channel that delivers to a conversation.
func (c *app) reaches(home, conversation string) error {
	if box.DirOf(conversation) == box.Telegram {
		conf, err := c.loadStructure()
		if err != nil {
			return err
		}
		return telegram.Accepts(c.fs, home, conversation, conf.Origins)
	}
	_, rest, _ := strings.Cut(conversation, ":")
	name, id, _ := strings.Cut(rest, "/")
	keys, err := gateway.Keys(c.fs, home)
	if err == nil && (!slices.ContainsFunc(keys, func(k gateway.Key) bool { return k.Name == name }) || gateway.CheckConversation(id) != nil) {
		err = fmt.Errorf("%q is not a conversation of a key: crabmem gateway key list lists the keys", conversation)
	}
	return err
}
