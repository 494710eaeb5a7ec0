package telegram

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
)

// Accepts returns an error if the channel of a home does not send texts to a conversation.
// The users are those of its configuration, and those that a pairing added.
func Accepts(fsys vfs.FS, home, conversation string, paired []string) error {
	var c Config
	if err := config.ReadPrivateTOML(fsys, filepath.Join(home, File), &c); err != nil {
		return err
	}
	user, topic, inTopic := strings.Cut(strings.TrimPrefix(conversation, prefix), "/")
	if inTopic && (topic == "" || topic[0] == '0' || strings.Trim(topic, "0123456789") != "") {
		return fmt.Errorf("%q is not a conversation: want the number of a topic after /", conversation)
	}
	if !slices.Contains(slices.Concat(c.Allowed(), paired), user) {
		return fmt.Errorf("%q is not a user of the channel: crabmem channels pair telegram adds users", conversation)
	}
	return nil
}
