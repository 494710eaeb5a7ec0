package telegram

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/trust"
)

// Accepts returns an error if a home's channel does not send texts to a conversation. The home's
// configuration contains the rules.
func Accepts(fsys vfs.FS, home, conversation string, rules trust.Rules) error {
	var c Config
	if err := config.ReadPrivateTOML(fsys, filepath.Join(home, File), &c); err != nil {
		return err
	}
	name, topic, inTopic := strings.Cut(conversation, "/")
	if inTopic && (topic == "" || topic[0] == '0' || strings.Trim(topic, "0123456789") != "") {
		return fmt.Errorf("%q is not a conversation: want the number of a topic after /", conversation)
	}
	var listed []string
	for _, id := range c.Users(rules) {
		listed = append(listed, Identity(id))
	}
	for _, g := range c.Groups {
		if n, _ := strconv.ParseInt(topic, 10, 64); len(g.Topics) == 0 || slices.Contains(g.Topics, n) {
			listed = append(listed, g.name(0))
		}
	}
	if !slices.Contains(listed, name) {
		return fmt.Errorf("%q is not a user or group of the channel: crabmem channels pair telegram adds users", conversation)
	}
	return nil
}
