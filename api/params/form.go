package params

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/promwarp/promwarp/api/respond"
	"github.com/promwarp/promwarp/internal/memory"
)

// maxParameter is the most bytes of parameters that are numbers, times or words. Errors
// repeat them.
const maxParameter = 1000

// Long finds a parameter that is longer than numbers, times and words are; the error says so.
func Long(form url.Values) (name string, err error) {
	for _, name := range []string{"time", "start", "end", "step", "timeout", "limit", "lookback_delta", "stats", "executor", "strict", "exact", "format", "layout", "analyze"} {
		if n := len(form.Get(name)); n > maxParameter {
			return name, fmt.Errorf("it is %d bytes long, and can be %d at most", n, maxParameter)
		}
	}
	return "", nil
}

// ReadForm reads a request's form, in one part or several, which then stays with the
// request. Of a form that is wrong Prometheus's doors for queries take what can be
// read; only one that is too large or too slow is an error.
func ReadForm(r *http.Request, limit int64) error {
	if err := r.ParseForm(); isUnread(err) {
		return err
	}
	if err := r.ParseMultipartForm(limit); isUnread(err) {
		return err
	}
	return nil
}

// isUnread reports whether err says that promwarp did not read a form to its end.
func isUnread(err error) bool {
	var large *http.MaxBytesError
	return errors.As(err, &large) || errors.Is(err, respond.ErrSlowBody) || memory.Exhausted(err)
}

// FormError answers a request whose form cannot be read.
func FormError(w http.ResponseWriter, err error) {
	if respond.UnreadBody(w, err) {
		return
	}
	if memory.Exhausted(err) {
		w.Header().Set("Retry-After", respond.RetryAfter(nil))
		code, typ := respond.Classify(err)
		respond.Error(w, code, typ, err.Error())
		return
	}
	respond.Error(w, http.StatusBadRequest, respond.BadData, fmt.Sprintf("error parsing form values: %v", err))
}
