//go:build !linux

package peers

import (
	"errors"
	"os/exec"
)

// startOn starts the program on all cores: only Linux can choose them here.
func startOn(cmd *exec.Cmd, cores int) error {
	if cores > 0 {
		return errors.New("only Linux can start a program on some cores")
	}
	return cmd.Start()
}

// Spread returns an error: only Linux can choose cores here.
func Spread() ([]int, error) { return nil, errors.New("only Linux can choose cores") }
