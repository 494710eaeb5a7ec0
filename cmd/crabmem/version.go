package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by releases: -ldflags "-X main.version=v1.2.3".
var version string

func versionCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "version",
		GroupID: groupShell,
		Short:   "print the version",
		Long:    `Print the version, the commit of the build, and the formats that crabmem reads.`,
		Example: `  crabmem version
  crabmem version --json`,
	}, func(context.Context, []string) (versionAnswer, error) { return thisVersion(), nil }, c.versionText)
}

// versionAnswer is version --json.
type versionAnswer struct {
	Commit   string `json:"commit"`
	Format   string `json:"format"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Version  string `json:"version"`
}

func thisVersion() versionAnswer {
	v, commit := buildVersion()
	return versionAnswer{commit, "CRMEM v1", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, v}
}

func (c *app) versionText(a versionAnswer) {
	commit := ""
	if a.Commit != "" {
		commit = fmt.Sprintf(" (%.12s)", a.Commit)
	}
	fmt.Fprintf(c.Out, "crabmem %s%s, %s, %s, format %s\n", a.Version, commit, a.Go, a.Platform, a.Format)
}

// buildVersion returns the version and commit from the linker or the build
// information.
func buildVersion() (v, commit string) {
	v = version
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v, ""
	}
	if v == "" {
		v = info.Main.Version
	}
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return v, commit
}
