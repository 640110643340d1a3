package promapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/resample"
)

// words are the parameters that are numbers, times or words, and maxParameter the most bytes of each:
// errors repeat them.
var words = []string{"time", "start", "end", "step", "timeout", "limit", "max_series", "max_samples", "lookback_delta", "stats", "executor", "strict", "exact", "format", "layout", "analyze", "explain"}

const maxParameter = 1000

// ReadForm reads a request's form, in one part or several, which then stays with the
// request. Of a form that is wrong Prometheus's doors for queries take what can be
// read; only one that is too large or too slow is an error, and a parameter that is longer than numbers,
// times and words are.
func ReadForm(r *http.Request, limit int64) error {
	for _, err := range []error{r.ParseForm(), r.ParseMultipartForm(limit)} {
		if err != nil && err != http.ErrNotMultipart && (errors.As(err, new(*http.MaxBytesError)) || errors.Is(err, ErrSlowBody) || memory.Exhausted(err)) {
			return err
		}
	}
	for _, name := range words {
		if n := len(r.Form.Get(name)); n > maxParameter {
			return WrongParameter(name, fmt.Errorf("it is %d bytes long, and can be %d at most", n, maxParameter))
		}
	}
	return nil
}

// FormError answers a request whose form cannot be read.
func FormError(w http.ResponseWriter, err error) {
	if !UnreadBody(w, err) {
		Error(w, http.StatusBadRequest, BadData, fmt.Sprintf("error parsing form values: %v", err))
	}
}

// Bounded reports whether a request's lists are within the limits, and refuses it where they are not,
// before anything is made of what they list. It is the same for all endpoints, as each selector costs
// each of them. The body stays readable for who answers, and may forward it.
func Bounded(limits planner.Limits, w http.ResponseWriter, r *http.Request) bool {
	body, err := formBody(r)
	if err != nil {
		FormError(w, err)
		return false
	}
	if name, err := checkLists(limits, r.URL.RawQuery, string(body)); err != nil {
		BeyondLimits(w, name, err)
		return false
	}
	return true
}

// formBody reads the body of a request that sends a form in one part, and leaves the same bytes to
// be read again.
func formBody(r *http.Request) ([]byte, error) {
	// As net/http reads the type: a wrong parameter leaves it one.
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/x-www-form-urlencoded" || r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(body), r.Body}
	return body, nil
}

// checkLists returns the error of the first parameter, and its name, that is beyond a limit. What is
// wrong with a form otherwise is for its reader to say.
func checkLists(limits planner.Limits, forms ...string) (name string, err error) {
	parameters, bytes := len(forms), 0
	for _, form := range forms {
		parameters += strings.Count(form, "&")
		bytes += len(form)
	}
	if bytes < limits.Least() {
		return "", nil
	}
	// Before the text is split: a form may be nothing but separators.
	if err := limits.CheckParameters(parameters); err != nil {
		return "match[]", err
	}
	for _, form := range forms {
		values, _ := url.ParseQuery(form)
		if name, err := CheckForm(limits, values); err != nil {
			return name, err
		}
	}
	return "", nil
}

// commaLists are the parameters whose values are lists with commas, by all of their names.
var commaLists = func() (names []string) {
	for _, f := range resample.Fields() {
		if f.List && f.Name != "match[]" && f.Name != "define" {
			names = append(append(names, f.Name), f.Aliases...)
		}
	}
	return names
}()

// CheckForm returns the error of the first parameter, and its name, that lists more than the limits
// allow.
func CheckForm(limits planner.Limits, form url.Values) (name string, err error) {
	for name, values := range form {
		switch {
		case name == "match[]" || name == "match":
			err = limits.CheckAll(values)
		case name == "query":
			for _, q := range values {
				err = errors.Join(err, limits.Check(q))
			}
		default:
			items := len(values)
			if slices.Contains(commaLists, name) {
				for _, v := range values {
					items += strings.Count(v, ",")
				}
			}
			err = limits.CheckItems(items, "values")
		}
		if err != nil {
			return name, err
		}
	}
	return "", nil
}

// BeyondLimits refuses a request for the error of a parameter that lists too much, in Prometheus's
// words.
func BeyondLimits(w http.ResponseWriter, name string, err error) {
	Wrong(w, Mistake{Code: resample.CodeOutOfRange, Field: name, Hint: "ask for less at once, or have the limit raised"},
		fmt.Sprintf("invalid parameter %q: %v", name, err))
}
