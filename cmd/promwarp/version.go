package main

import (
	"runtime/debug"

	"github.com/prometheus/common/version"
)

// A release sets version.Version when linking. go install and go build leave
// it empty, but note the module's version.
func init() {
	if version.Version != "" {
		return
	}
	version.Version = "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		version.Version = info.Main.Version
	}
}
