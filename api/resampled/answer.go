package resampled

import (
	"bufio"
	"encoding/json"
	"math"
	"net/http"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/resample"
)

// answer is a result on its way out.
type answer struct {
	*resample.Result
	warnings []string
	times    []string // of the buckets' labels: seconds since the epoch
}

func newAnswer(r *resample.Result) *answer {
	a := &answer{Result: r, times: make([]string, r.Grid.N())}
	for k, ms := range r.Grid.Labels {
		a.times[k] = strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64)
	}
	warnings, _ := r.Warnings.AsStrings("", 10, 0)
	a.warnings = warnings
	if r.Truncated {
		a.warnings = append(a.warnings, "results truncated due to limit")
	}
	return a
}

// out is where an answer is written. What writing returns is left out: once the client has gone
// nothing is written.
type out struct {
	*bufio.Writer
	scratch []byte
}

// outBytes is how many bytes are collected before they are written.
const outBytes = 64 << 10

func newOut(w http.ResponseWriter, media string) *out {
	w.Header().Set("Content-Type", media)
	return &out{Writer: bufio.NewWriterSize(w, outBytes)}
}

func (o *out) text(s string) { _, _ = o.WriteString(s) }

// quoted writes a JSON string.
func (o *out) quoted(s string) {
	b, _ := json.Marshal(s) // of a string, which has no error
	_, _ = o.Write(b)
}

// number writes a value as Prometheus's answers do.
func (o *out) number(v float64) {
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	o.scratch = strconv.AppendFloat(o.scratch[:0], v, format, -1, 64)
	_, _ = o.Write(o.scratch)
}

// object writes labels as a JSON object.
func (o *out) object(ls labels.Labels) {
	o.text("{")
	comma := ""
	ls.Range(func(l labels.Label) {
		o.text(comma)
		comma = ","
		o.quoted(l.Name)
		o.text(":")
		o.quoted(l.Value)
	})
	o.text("}")
}

// json writes a value of encoding/json.
func (o *out) json(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte("null")
	}
	_, _ = o.Write(b)
}

// writeMatrix writes an answer as Prometheus writes that to a range query: a series for each
// aggregate, which is its label aggregate.
func writeMatrix(w http.ResponseWriter, a *answer) error {
	o := newOut(w, "application/json")
	defer o.Flush()
	o.text(`{"status":"success","data":{"resultType":"matrix","result":[`)
	b := labels.NewBuilder(labels.EmptyLabels())
	comma := ""
	for i := range a.Series {
		s := &a.Series[i]
		for k := range s.Rows {
			if len(s.Rows[k].Values) == 0 {
				continue
			}
			b.Reset(s.Labels)
			o.text(comma)
			comma = ","
			o.text(`{"metric":`)
			o.object(b.Set(resample.LabelAggregate, a.Aggregates[k].Text).Labels())
			o.text(`,"values":[`)
			a.points(o, &s.Rows[k])
			o.text(`]}`)
		}
	}
	o.text(`]`)
	if a.Explained {
		o.text(`,"explanation":`)
		x := a.Plan.Explain()
		x.Work = &a.Work
		o.json(x)
	}
	o.text(`}`)
	if len(a.warnings) > 0 {
		o.text(`,"warnings":`)
		o.json(a.warnings)
	}
	o.text(`}`)
	return nil
}

// points writes the values of a row, each with its time.
func (a *answer) points(o *out, row *resample.Row) {
	for i, v := range row.Values {
		if i > 0 {
			o.text(",")
		}
		o.text("[")
		o.text(a.times[row.Buckets[i]])
		if resample.IsNull(v) {
			o.text(",null]")
			continue
		}
		o.text(`,"`)
		o.number(v)
		o.text(`"]`)
	}
}
