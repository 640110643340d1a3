//go:build !linux

package peers

import "os/exec"

// dieWithParent does nothing: only Linux can.
func dieWithParent(*exec.Cmd) {}
