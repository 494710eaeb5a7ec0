package agent

import (
	"context"
	_ "embed"
	"strings"

	"crabmem/daemon/model"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

//go:embed prompts/bulletin.md
var bulletinPrompt string

// Bulletin has a model rewrite a context. The model has no tools.
func (r *Runner) Bulletin(ctx context.Context, name, text string) (string, error) {
	resp, err := r.Models.Send(ctx, model.Request{
		Model: name, Once: true,
		Messages: []sessionlog.Message{{Role: record.RoleSystem, Content: strings.TrimSpace(bulletinPrompt)}, {Role: record.RoleUser, Content: clean(text)}},
	})
	if err != nil {
		return "", err
	}
	return textOf(resp, "bulletin")
}
