package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/daemon/model"
	"crabmem/daemon/tool"
)

// maxResult limits a tool's result in a request of an agent with a role, in bytes.
const maxResult = 16 << 10

// shorten returns a long result's beginning and end, and where all of it is. An
// agent without a role receives the result as it is.
func (t *turn) shorten(name, text string) string {
	if t.Agent.Offers == nil || len(text) <= maxResult || t.KeepResult == nil || t.Session.Results == "" {
		return text
	}
	where := "read less of it: offset, limit"
	if name != tool.Read {
		var ran map[string]any // of a command; its JSON is one line
		if name == tool.Bash && json.Unmarshal([]byte(text), &ran) == nil {
			text = fmt.Sprintf("exit_code: %v\nstderr:\n%v\nstdout:\n%v", ran["exit_code"], ran["stderr"], ran["stdout"])
		}
		file := filepath.Join(t.Session.Results, fmt.Sprintf("%08x.txt", crc32.ChecksumIEEE([]byte(text))))
		if err := t.KeepResult(file, text); err != nil {
			t.notice("keep a long result: " + err.Error())
			return text
		}
		where = "all of it is in " + file + " for the tool read"
	}
	const part = maxResult/2 - 512
	return fmt.Sprintf("%s\n... [%d bytes left out; %s]\n%s", clip.Bytes(text, part), len(text)-2*part, where, strings.ToValidUTF8(text[len(text)-part:], ""))
}

// fit measures the next request of an agent with a role. If the request does not fit the
// model's context, fit compacts the session, then truncates texts in the request; the error
// means that it still does not fit.
func (t *turn) fit(ctx context.Context) error {
	t.short = nil
	if t.Agent.Offers == nil {
		return nil
	}
	room := t.Models.ContextLimit(t.Agent.Model)
	if room == 0 {
		return nil
	}
	if t.counted == 0 {
		t.full, t.counted = t.estimate(), len(t.Session.Messages)
	}
	switch w := t.window(); {
	case t.tiered():
		if float64(t.now()) > float64(w)*cmp.Or(t.Tiers, DefaultTiers).Emergency {
			t.emergency(w)
		}
	case t.now() > room && !t.noCompact && t.Agent.CompactThreshold > 0:
		t.compact(ctx)
	}
	n := t.now()
	if over := n - room; over > 0 && t.tiered() {
		left := Size(t.Session.Messages) - over*bytesPerToken
		if t.short = squeezed(slices.Clone(t.Session.Messages), left, maxResult); Size(t.short) <= left {
			return nil
		}
	}
	if n > room {
		return fmt.Errorf("%w: about %d tokens, and the context of the model has %d; the request was not sent", model.ErrOverflow, n, room)
	}
	return nil
}
