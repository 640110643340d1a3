package respond

import (
	"errors"
	"net/http"

	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/selection"
)

// isUnavailable reports whether err says that the upstream failed, rather than
// that it, or a limit of promwarp's, refused what was asked.
func isUnavailable(err error) bool {
	var up *remoteread.Error
	if !errors.As(err, &up) || errors.Is(err, selection.ErrTooLarge) {
		return false
	}
	return up.StatusCode != http.StatusBadRequest && up.StatusCode != http.StatusUnprocessableEntity
}
