package agent

import (
	"context"
	"fmt"
	"strings"

	"crabmem/daemon/model"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// flushSteps bounds the responses of the model in a flush.
const flushSteps = 3

// flush asks the model to store what a compaction may lose, if the hooks have a prompt
// and the run may call remember. Only the tools recall and remember run. Neither the
// session nor its log contains the messages. After an error, the compaction follows.
func (t *turn) flush(ctx context.Context) {
	scope := t.Scope().Narrow(tool.Only(tool.Recall, tool.Remember))
	if _, ok := t.Tools.Get(tool.Remember); !ok || t.Hooks.FlushPrompt == "" || !scope.Tools.Allows(tool.Remember) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, compactTimeout)
	defer cancel()
	var ms []sessionlog.Message
	if t.system != "" {
		ms = append(ms, sessionlog.Message{Role: record.RoleSystem, Content: t.system})
	}
	ms = append(ms, shortened(t.Session.answered(len(t.Session.Messages)), t.Models.ContextLimit(t.Agent.Model)*4/5*bytesPerToken)...)
	ms = append(ms, sessionlog.Message{Role: record.RoleUser, Content: strings.TrimSpace(t.Hooks.FlushPrompt)})
	for range flushSteps {
		resp, err := t.Models.Send(ctx, model.Request{Model: t.Agent.Model, Messages: ms, Tools: t.Tools.Schemas(scope, nil), OnNotice: t.notice})
		if err != nil {
			t.notice(fmt.Sprintf("flush memory: %v", err))
			return
		}
		if len(resp.Message.ToolCalls) == 0 {
			return
		}
		ms = append(ms, resp.Message)
		for _, c := range resp.Message.ToolCalls {
			call := t.toolCall(c)
			call.Scope, call.Offers = scope, nil
			r := t.Tools.Call(ctx, call)
			if r.Refused != nil {
				t.emit(Event{Kind: Refused, Refused: r.Refused})
			}
			ms = append(ms, sessionlog.Message{Role: record.RoleTool, Content: t.record(r.Output), ToolCallID: c.ID})
		}
	}
}
