//go:build !linux

package peers

import (
	"errors"
	"time"
)

// CPU would be the time that the process has run on cores.
func (*Process) CPU() (time.Duration, error) {
	return 0, errors.New("only Linux says how long another process has run")
}
