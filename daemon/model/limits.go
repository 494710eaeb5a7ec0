package model

import "strings"

// limits are the context windows by how names begin; the first that fits
// counts.
var limits = []struct {
	prefix string
	tokens int
}{
	{"claude-", 200_000},
	{"gpt-4o", 128_000},
	{"gpt-4-turbo", 128_000},
	{"gpt-4.1", 1_000_000},
	{"gpt-4", 8_192},
	{"gpt-3.5", 16_385},
	{"gpt-5", 272_000},
	{"o1", 200_000},
	{"o3", 200_000},
	{"o4", 200_000},
	{"gemini-", 1_000_000},
	{"deepseek-", 128_000},
	{"grok-", 131_072},
	{"qwen-", 32_768},
	{"qwq-", 32_768},
	{"kimi-", 128_000},
	{"moonshot-", 128_000},
}

// defaultLimit is the limit of an unknown model.
const defaultLimit = 8_192

// contextLimit is a guess by a model's name. Of names like "vendor/model" and
// "region.vendor.model" each end counts.
func contextLimit(model string) int {
	for name := model; ; {
		for _, l := range limits {
			if strings.HasPrefix(name, l.prefix) {
				return l.tokens
			}
		}
		i := strings.IndexAny(name, "/.")
		if i < 0 {
			return defaultLimit
		}
		name = name[i+1:]
	}
}
