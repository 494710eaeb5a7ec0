package config

// Known is a provider that crabmem init finds by a variable or a port.
type Known struct {
	Name     string // of the table [provider.NAME], and of the secret
	Kind     string
	KeyVars  []string // variables with the key; none: a local server
	BaseURL  string   // empty: the default of the kind
	BaseVars []string // variables with another base URL, which only init reads
	Model    string   // if the provider lists it, or lists none
}

// Providers are the known providers, those with keys first.
var Providers = []Known{
	{"openai", "openai", []string{"OPENAI_API_KEY"}, "", []string{"OPENAI_BASE_URL", "OPENAI_API_BASE"}, "gpt-4o-mini"},
	{"anthropic", "anthropic", []string{"ANTHROPIC_API_KEY"}, "", []string{"ANTHROPIC_BASE_URL"}, "claude-sonnet-4-5"},
	{"gemini", "google", []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, "", []string{"GEMINI_BASE_URL"}, "gemini-2.5-flash"},
	{"openrouter", "openai-compatible", []string{"OPENROUTER_API_KEY"}, "https://openrouter.ai/api/v1", []string{"OPENROUTER_BASE_URL"}, "openai/gpt-4o-mini"},
	{"groq", "openai-compatible", []string{"GROQ_API_KEY"}, "https://api.groq.com/openai/v1", []string{"GROQ_BASE_URL"}, "llama-3.3-70b-versatile"},
	{"mistral", "openai-compatible", []string{"MISTRAL_API_KEY"}, "https://api.mistral.ai/v1", []string{"MISTRAL_BASE_URL"}, "mistral-small-latest"},
	{"deepseek", "openai-compatible", []string{"DEEPSEEK_API_KEY"}, "https://api.deepseek.com/v1", []string{"DEEPSEEK_BASE_URL"}, "deepseek-chat"},
	{"xai", "openai-compatible", []string{"XAI_API_KEY"}, "https://api.x.ai/v1", []string{"XAI_BASE_URL"}, "grok-4"},
	{"azure", "azure", []string{"AZURE_OPENAI_API_KEY"}, "", []string{"AZURE_OPENAI_ENDPOINT"}, ""},
	{"ollama", "ollama", nil, "http://localhost:11434/v1", []string{"OLLAMA_HOST"}, ""},
	{"lmstudio", "openai-compatible", nil, "http://localhost:1234/v1", nil, ""},
	{"llamacpp", "llama.cpp", nil, "http://localhost:8080/v1", nil, ""},
	{"vllm", "openai-compatible", nil, "http://localhost:8000/v1", nil, ""},
}

// KeyVariable returns the first variable that contains the key of a known provider, or "".
func KeyVariable(getenv func(string) string) string {
	for _, k := range Providers {
		for _, name := range k.KeyVars {
			if getenv(name) != "" {
				return name
			}
		}
	}
	return ""
}

// Chosen returns the config.toml for a chosen provider, or for none.
func Chosen(p *Provider, key string) []byte {
	text := "# Written by crabmem init. crabmem config edit changes this file, crabmem config get\n# lists all keys, and crabmem config check finds problems.\n"
	if p == nil {
		return []byte(text + "# No provider: agents answer from memory only, with the model offline.\n")
	}
	text += "\n[provider." + p.Name + "]\nkind = " + literal(p.Kind) + "\n"
	if p.BaseURL != "" {
		text += "base_url = " + literal(p.BaseURL) + "\n"
	}
	if key != "" {
		text += "api_key = " + literal(key) + "\n"
	}
	return []byte(text + "models = " + literal(p.Models) + "\n")
}
