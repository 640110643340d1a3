package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/promwarp/promwarp/engine"
)

// withExecutor reads the parameters executor and strict, which say who is to
// evaluate the request's query, into its context, and whether it asks for statistics.
func (a *API) withExecutor(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The form stays with the request, so those behind find it too.
		if err := r.ParseForm(); err != nil {
			respondFormError(w, err)
			return
		}
		mode, err := engine.ParseMode(r.FormValue("executor"))
		if err != nil {
			respondInvalid(w, "executor", err)
			return
		}
		strict := false
		if s := r.FormValue("strict"); s != "" {
			if strict, err = strconv.ParseBool(s); err != nil {
				respondInvalid(w, "strict", fmt.Errorf("cannot parse %q: use true or false", s))
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
	respondError(w, http.StatusBadRequest, typeBadData, fmt.Sprintf("error parsing form values: %v", err))
}

func tooLarge(e *http.MaxBytesError) string {
	return fmt.Sprintf("the request's body is larger than the %d bytes that promwarp takes", e.Limit)
}
