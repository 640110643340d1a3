// Package resampled is the side of /query and /explain that answers resample requests.
//
// A form comes in, of a GET, a POST or made of a JSON body (Form); out goes the answer as JSON in
// the form of Prometheus's range queries, as CSV, or as NDJSON, or an error that names the field.
// The answer is written as it is encoded, once all of it has been computed and the request's slot
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
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/api/admit"
	"github.com/promwarp/promwarp/api/respond"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/resample"
)

// Door answers resample requests.
type Door struct {
	Executor  *resample.Executor
	Queryable storage.Queryable
	Parser    parser.Parser
	NotePanic func(error) // logs an error that is a panic
}

// Form gives a request with a JSON body the form that says the same, with the parameters of its
// URL. Other requests stay as they are. What is wrong with the object is a *resample.Error.
func Form(r *http.Request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || r.Method != http.MethodPost {
		return nil
	}
	form, err := resample.FormOf(r.Body)
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
	var wrong *resample.Error
	if errors.As(err, &wrong) {
		respond.Wrong(w, respond.Mistake{Code: wrong.Code, Field: wrong.Field, Hint: wrong.Hint}, wrong.Error())
		return
	}
	d.NotePanic(err)
	if memory.Exhausted(err) {
		w.Header().Set("Retry-After", respond.RetryAfter(nil))
	}
	code, typ := respond.Classify(err)
	respond.Error(w, code, typ, err.Error())
}

// Answer answers a request whose form was read.
func (d *Door) Answer(w http.ResponseWriter, r *http.Request) {
	write, err := format(r)
	if err == nil {
		err = d.answer(w, r, write)
	}
	if err != nil {
		d.Failed(w, err)
	}
}

// answer computes and writes the answer. An error comes before anything is written.
func (d *Door) answer(w http.ResponseWriter, r *http.Request, write writing) error {
	p, err := d.plan(r.Form)
	if err != nil {
		return err
	}
	result, err := d.Executor.Run(r.Context(), d.Queryable, p)
	admit.EvaluationEnded(r.Context())
	if err != nil {
		return err
	}
	defer result.Release()
	return write(w, newAnswer(result))
}

// plan reads and plans a request.
func (d *Door) plan(form url.Values) (*resample.Plan, error) {
	r, err := resample.Parse(form, time.Now(), d.Parser)
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
func (d *Door) Explain(w http.ResponseWriter, r *http.Request, analyze bool) {
	p, err := d.plan(r.Form)
	if err != nil {
		d.Failed(w, err)
		return
	}
	x := d.Executor.Explain(p)
	if analyze {
		result, err := d.Executor.Run(r.Context(), d.Queryable, p)
		admit.EvaluationEnded(r.Context())
		if err != nil {
			d.Failed(w, err)
			return
		}
		defer result.Release()
		x = result.Explain()
		x.Work = &result.Work
	}
	respond.Data(w, x)
}

// writing writes an answer. An error comes before anything is written.
type writing func(http.ResponseWriter, *answer) error

// formats are the forms of answers by the value of format, with their media types.
var formats = []struct {
	name, media string
	write       writing
}{
	{"json", "application/json", writeMatrix},
	{"csv", "text/csv", writeTable},
	{"ndjson", "application/x-ndjson", writeLines},
}

// format is the form that a request asks for: by format, else the first of its Accept header that
// there is, else JSON.
func format(r *http.Request) (writing, error) {
	name := r.Form.Get("format")
	for _, f := range formats {
		if f.name == name {
			return f.write, nil
		}
	}
	if name != "" {
		return nil, &resample.Error{Code: resample.CodeInvalidValue, Field: "format", Text: "there is no such format", Hint: "use json, csv or ndjson"}
	}
	for media := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		media, _, _ = strings.Cut(media, ";")
		for _, f := range formats {
			if f.media == strings.TrimSpace(media) {
				return f.write, nil
			}
		}
	}
	return writeMatrix, nil
}
