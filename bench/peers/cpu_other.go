//go:build !linux

package peers

import (
	"errors"
	"time"
)

// CPU returns an error.
func (*Process) CPU() (time.Duration, error) {
	return 0, errors.New("only Linux says how long another process has run")
}
