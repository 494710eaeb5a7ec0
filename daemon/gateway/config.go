package gateway

import (
	"fmt"
	"path/filepath"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
)

// File is the configuration of the gateway in the home.
const File = "config/gateway.toml"

// Config is the configuration of a gateway.
type Config struct {
	Server  Server `toml:"server"`
	Gateway Paths  `toml:"gateway"`
	Limits  Limits `toml:"limits"`
}

// Server is where a gateway listens.
type Server struct {
	Host string `toml:"host"`
	Port int    `toml:"port"` // 0: a free one
	// AllowHosts are further names in the header Host, such as that of a proxy. An
	// address that other machines can reach needs one.
	AllowHosts []string `toml:"allow_hosts"`
	// CORS are the origins of other sites whose pages may send requests with a key, such as
	// https://app.example.org.
	CORS []string `toml:"cors"`
	// TLSCert and TLSKey are PEM files, relative to the home: the certificate with its
	// chain, and its private key. Without both, the gateway serves plain HTTP.
	TLSCert string `toml:"tls_cert"`
	TLSKey  string `toml:"tls_key"`
}

// Paths turns paths on that are off by default.
type Paths struct {
	OpenAI    bool `toml:"openai"`     // /v1/chat/completions and /v1/models
	SwaggerUI bool `toml:"swagger_ui"` // /swagger-ui/
}

// Limits bound what clients occupy.
type Limits struct {
	Connections   int     `toml:"connections"`     // that sent a key
	Calls         int     `toml:"calls"`           // concurrent, without streams
	Streams       int     `toml:"streams"`         // concurrent
	StreamsPerKey int     `toml:"streams_per_key"` // of one key
	RunsPerKey    int     `toml:"runs_per_key"`    // of one key
	Rate          float64 `toml:"rate"`            // requests per second of one key
	Burst         int     `toml:"burst"`           // requests above the rate
	UntrustedRuns int     `toml:"untrusted_runs"`  // in a minute, of one untrusted key
}

// DefaultConfig returns the configuration of a home without the file.
func DefaultConfig() Config {
	return Config{
		Server: Server{Host: "127.0.0.1", Port: 3000},
		Limits: Limits{Connections: 256, Calls: 64, Streams: 64, StreamsPerKey: 8, RunsPerKey: 2, Rate: 10, Burst: 40, UntrustedRuns: 6},
	}
}

// ReadConfig reads the configuration in a home.
func ReadConfig(fsys vfs.FS, home string) (Config, error) {
	c := DefaultConfig()
	path := filepath.Join(home, File)
	if err := config.ReadPrivateTOML(fsys, path, &c); err != nil {
		return c, err
	}
	return c, config.Invalid(path, c.check())
}

func (c *Config) check() error {
	l := &c.Limits
	for name, n := range map[string]int{"connections": l.Connections, "calls": l.Calls, "streams": l.Streams, "streams_per_key": l.StreamsPerKey,
		"runs_per_key": l.RunsPerKey, "burst": l.Burst, "untrusted_runs": l.UntrustedRuns} {
		if n < 1 || n > 1<<20 {
			return fmt.Errorf("limits.%s = %d: want 1 to %d", name, n, 1<<20)
		}
	}
	if !(l.Rate > 0 && l.Rate <= 1e6) {
		return fmt.Errorf("limits.rate = %v: want more than 0, and at most 1000000", l.Rate)
	}
	if c.Server.Port < 0 || c.Server.Port > 65535 {
		return fmt.Errorf("server.port = %d: want 0 to 65535", c.Server.Port)
	}
	if (c.Server.TLSCert == "") != (c.Server.TLSKey == "") {
		return fmt.Errorf("server.tls_cert = %q, server.tls_key = %q: set both, or neither", c.Server.TLSCert, c.Server.TLSKey)
	}
	for _, name := range c.Server.AllowHosts {
		if name == "" || strings.ContainsAny(name, "/ \t*") {
			return fmt.Errorf("server.allow_hosts: %q is not the name of a host", name)
		}
	}
	for _, origin := range c.Server.CORS {
		if !isOrigin(origin) {
			return fmt.Errorf("server.cors: %q is not an origin: want scheme and host as browsers send them, such as https://app.example.org", origin)
		}
	}
	return nil
}
