package resampled

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/api/encode"
	"github.com/promwarp/promwarp/resample"
)

// warningsOf are the warnings of a result.
func warningsOf(r *resample.Result) []string {
	warnings, _ := r.Warnings.AsStrings("", 10, 0)
	if r.Truncated {
		warnings = append(warnings, "results truncated due to limit")
	}
	return warnings
}

// outBytes is how many bytes are collected before they are written.
const outBytes = 64 << 10

// writeMatrix writes a result as Prometheus writes the answer to a range query: a series for each
// aggregate, which is its label aggregate. It ends once the client has gone.
func writeMatrix(w http.ResponseWriter, r *resample.Result, warnings []string) {
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, outBytes)
	defer out.Flush()
	times := make([]string, r.Grid.N())
	for k, ms := range r.Grid.Labels {
		times[k] = strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64)
	}
	text := []byte(`{"status":"success","data":{"resultType":"matrix","result":[`)
	b := labels.NewBuilder(labels.EmptyLabels())
	comma := ""
	for i := range r.Series {
		s := &r.Series[i]
		for k := range s.Rows {
			if len(s.Rows[k].Values) == 0 {
				continue
			}
			b.Reset(s.Labels)
			text = append(append(text, comma...), `{"metric":`...)
			comma = ","
			text = encode.AppendLabels(text, b.Set(resample.LabelAggregate, r.Aggregates[k].Text).Labels())
			text = appendPoints(append(text, `,"values":[`...), &s.Rows[k], times)
			text = append(text, `]}`...)
			if _, err := out.Write(text); err != nil {
				return
			}
			text = text[:0]
		}
	}
	text = append(text, ']')
	if r.Explained {
		text = appendJSON(append(text, `,"explanation":`...), r.Explain())
	}
	text = append(text, '}')
	if len(warnings) > 0 {
		text = appendJSON(append(text, `,"warnings":`...), warnings)
	}
	_, _ = out.Write(append(text, '}'))
}

// appendPoints appends the values of a row, each with the text of its time.
func appendPoints(b []byte, row *resample.Row, times []string) []byte {
	for i, v := range row.Values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, '['), times[row.Buckets[i]]...)
		if resample.IsNull(v) {
			b = append(b, ",null]"...)
			continue
		}
		b = append(encode.AppendFloat(append(b, `,"`...), v), `"]`...)
	}
	return b
}

// appendJSON appends a value of encoding/json.
func appendJSON(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte("null")
	}
	return append(b, text...)
}
