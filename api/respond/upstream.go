package respond

import (
	"errors"
	"net/http"

	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/selection"
)

// Plain returns err, and of an upstream that cannot be reached its own error alone: that says first
// what is wrong, and the rest says only what for.
func Plain(err error) error {
	var up *remoteread.Error
	if errors.As(err, new(*remoteread.UnreachableError)) && errors.As(err, &up) {
		return up
	}
	return err
}

// isUnavailable reports whether err says that the upstream failed, rather than
// that it, or a limit of promwarp's, refused what was asked.
func isUnavailable(err error) bool {
	var up *remoteread.Error
	if !errors.As(err, &up) || errors.Is(err, selection.ErrTooLarge) {
		return false
	}
	return up.StatusCode != http.StatusBadRequest && up.StatusCode != http.StatusUnprocessableEntity
}
