package main

import (
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/fusion"
	"crabmem/daemon/config"
	"crabmem/daemon/embedder"
)

// semantic returns how recall uses the embedding model of the configuration. Stores that
// are opened later use the model.
func (c *app) semantic() (*fusion.Request, error) {
	home := c.homeDir()
	conf, err := config.Load(c.fs, home, c.Getenv)
	if err != nil {
		return nil, err
	}
	s := embedder.Semantic(conf.Embedder)
	if s == nil {
		return nil, noEmbedder()
	}
	if c.embed, err = embedder.Open(c.fs, home, conf.Embedder); err != nil {
		return nil, err
	}
	s.Complete = true
	return s, nil
}

// noEmbedder is the error of a command that needs an embedding model.
func noEmbedder() error {
	return &cli.Failure{Code: cli.ExitUsage, Kind: "no_embedder", Message: "no embedding model is configured",
		Remedy: "install one with crabmem model add, and set static in [embedder] of config.toml"}
}
