package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/prometheus/prometheus/util/httputil"

	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
)

// withExecutor reads the parameters executor and strict, which say who is to
// evaluate the request's query, into its context, and whether it asks for statistics.
func (a *API) withExecutor(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := readForm(r, a.o.MaxBodyBytes)
		if r.MultipartForm != nil {
			defer r.MultipartForm.RemoveAll() // net/http does so of its own request only
		}
		if err != nil {
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			respondFormError(w, err)
			return
		}
		if name, n := longParameter(r.Form); name != "" {
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			respondInvalid(w, name, fmt.Errorf("it is %d bytes long, and can be %d at most", n, maxParameter))
			return
		}
		mode, err := engine.ParseMode(r.FormValue("executor"))
		if err != nil {
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			respondInvalid(w, "executor", err)
			return
		}
		strict := false
		if s := r.FormValue("strict"); s != "" {
			if strict, err = strconv.ParseBool(s); err != nil {
				httputil.SetCORS(w, a.o.CORSOrigin, r)
				respondInvalid(w, "strict", fmt.Errorf("cannot parse %.100q: use true or false", s))
				return
			}
		}
		ctx := engine.WithMode(r.Context(), mode, strict)
		if r.FormValue("stats") != "" {
			ctx = engine.WithStatistics(ctx)
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// maxParameter is the most bytes of parameters that are numbers, times or words. Errors
// repeat them.
const maxParameter = 1000

// longParameter is the name of one that is longer, and its length in bytes.
func longParameter(form url.Values) (name string, n int) {
	for _, name := range []string{"time", "start", "end", "step", "timeout", "limit", "lookback_delta", "stats", "executor", "strict", "format", "analyze"} {
		if n := len(form.Get(name)); n > maxParameter {
			return name, n
		}
	}
	return "", 0
}

// readForm reads a request's form, in one part or several, which then stays with the
// request. Of a form that is wrong Prometheus's doors for queries take what can be
// read; only one that is too large or too slow is an error.
func readForm(r *http.Request, limit int64) error {
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
	return errors.As(err, &large) || errors.Is(err, errSlowBody) || memory.Exhausted(err)
}

// respondInvalid says that a parameter is wrong, in Prometheus's words.
func respondInvalid(w http.ResponseWriter, parameter string, err error) {
	respondError(w, http.StatusBadRequest, typeBadData, fmt.Sprintf("invalid parameter %q: %v", parameter, err))
}

// respondFormError says that a request's form cannot be read.
func respondFormError(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		respondError(w, http.StatusRequestEntityTooLarge, typeBadData, tooLarge(large))
		return
	}
	if errors.Is(err, errSlowBody) {
		respondError(w, http.StatusRequestTimeout, typeTimeout, err.Error())
		return
	}
	if memory.Exhausted(err) {
		w.Header().Set("Retry-After", retryAfter(nil))
		code, typ := classify(err)
		respondError(w, code, typ, err.Error())
		return
	}
	respondError(w, http.StatusBadRequest, typeBadData, fmt.Sprintf("error parsing form values: %v", err))
}

func tooLarge(e *http.MaxBytesError) string {
	return fmt.Sprintf("the request's body is larger than the %d bytes that promwarp takes", e.Limit)
}
