package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by releases: -ldflags "-X main.version=v1.2.3".
var version string

func versionCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		GroupID: groupShell,
		Short:   "print the version",
		Long:    `Print the version, the commit of the build, and the formats that crabmem reads.`,
		Example: `  crabmem version
  crabmem version --json`,
	}
	cmd.RunE = func(*cobra.Command, []string) error { return c.printVersion() }
	return cmd
}

// versionAnswer is version --json.
type versionAnswer struct {
	Commit   string `json:"commit"`
	Format   string `json:"format"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Version  string `json:"version"`
}

func (c *app) printVersion() error {
	v, commit := buildVersion()
	if c.JSON {
		return c.PrintJSON(versionAnswer{commit, "CRMEM v1", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, v})
	}
	fmt.Fprintf(c.Out, "crabmem %s", v)
	if commit != "" {
		fmt.Fprintf(c.Out, " (%.12s)", commit)
	}
	fmt.Fprintf(c.Out, ", %s, %s/%s, format CRMEM v1\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
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
