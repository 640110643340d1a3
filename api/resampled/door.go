// Package resampled is the side of /query and /explain that answers resample requests.
//
// A form comes in, of a GET, a POST or made of a JSON body (Form); out goes the answer as JSON in
// the form of Prometheus's range queries or as a table (api/table), or an error that names the
// field. The answer is written as it is encoded, once all of it has been computed and the request's slot
// was given back.
//
// Start with Door.Answer.
package resampled

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/api/table"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/resample"
)

// Door answers resample requests.
type Door struct {
	Executor  *resample.Executor
	Known     resample.Known
	Memory    *memory.Pool // for answers; nil is without limit
	NotePanic func(error)  // logs an error that is a panic
}

// Evaluated ends the evaluation of a request: what is left is to write. It returns the error of that,
// which is a *memory.TooLargeError where the request alone needs more memory than there is.
type Evaluated func(err error) error

// Form gives a request with a JSON body the form that says the same, with the parameters of its
// URL. Other requests stay as they are. What is wrong with the object is a *resample.Error, such as
// a list of more than mostValues.
func Form(r *http.Request, mostValues int) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || r.Method != http.MethodPost {
		return nil
	}
	form, err := formOf(r.Body, mostValues)
	if err != nil {
		return err
	}
	for name, values := range r.URL.Query() {
		if form.Has(name) {
			return &resample.Error{Code: resample.CodeRepeatedField, Field: name, Text: "it is in the body and in the URL", Hint: "leave one of them out"}
		}
		form[name] = values
	}
	r.Form, r.PostForm = form, url.Values{}
	return nil
}

// Failed answers with an error.
func (d *Door) Failed(w http.ResponseWriter, err error) {
	if wrong, ok := errors.AsType[*resample.Error](err); ok {
		promapi.Wrong(w, promapi.Mistake{Code: wrong.Code, Field: wrong.Field, Hint: wrong.Hint}, wrong.Error())
		return
	}
	d.NotePanic(err)
	promapi.Failed(w, err)
}

// Answer answers a request whose form was read, with samples from a storage.
func (d *Door) Answer(w http.ResponseWriter, r *http.Request, from storage.Queryable, evaluated Evaluated) {
	if err := d.answer(w, r, from, evaluated); err != nil {
		d.Failed(w, err)
	}
}

// answer computes and writes the answer. An error comes before anything is written.
func (d *Door) answer(w http.ResponseWriter, r *http.Request, from storage.Queryable, evaluated Evaluated) error {
	asked, err := table.Ask(r.Header, r.Form)
	if err != nil {
		return err
	}
	p, err := d.plan(r.Form)
	if err != nil {
		return err
	}
	if p.Explained && !asked.IsJSON() {
		return &resample.Error{Code: resample.CodeConflict, Field: "explain", Text: "the format " + asked.Name + " has no place for an explanation", Hint: "use format=json, or /explain"}
	}
	result, err := d.Executor.Run(r.Context(), from, p)
	if err = evaluated(err); err != nil {
		return err
	}
	defer result.Release()
	warnings := warningsOf(result)
	if asked.IsJSON() {
		writeMatrix(w, result, warnings)
		return nil
	}
	return asked.Answer(r.Context(), w, tableOf(r.Context(), result, warnings), d.Memory)
}

// plan reads and plans a request.
func (d *Door) plan(form url.Values) (*resample.Plan, error) {
	r, err := resample.Parse(form, time.Now(), d.Known)
	if err != nil {
		return nil, err
	}
	switch form.Get("executor") {
	case "prometheus":
		return nil, &resample.Error{Code: resample.CodeUnsupported, Field: "executor", Text: "Prometheus's engine does not resample", Hint: "use auto, cpu or gpu"}
	case "cpu":
		r.Executor = resample.ChooseCores
	case "gpu":
		r.Executor = resample.ChooseGPU
		r.Strict, _ = strconv.ParseBool(form.Get("strict")) // which was checked
	}
	return resample.NewPlan(r)
}

// Explain answers with how a request whose form was read is computed, and with analyze what that
// took.
func (d *Door) Explain(w http.ResponseWriter, r *http.Request, from storage.Queryable, evaluated Evaluated, analyze bool) {
	p, err := d.plan(r.Form)
	if err != nil {
		d.Failed(w, err)
		return
	}
	x := d.Executor.Explain(p)
	if p.Explained = analyze; analyze {
		result, err := d.Executor.Run(r.Context(), from, p)
		if err = evaluated(err); err != nil {
			d.Failed(w, err)
			return
		}
		defer result.Release()
		x = result.Explain()
	}
	promapi.Data(w, x)
}
