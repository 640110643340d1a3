package table

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/api/encode"
)

// textBytes is how many bytes of text are collected before they are written.
const textBytes = 64 << 10

// isNull reports whether a cell with a value is null.
func (t *Table) isNull(v float64) bool { return t.Nullable && value.IsStaleNaN(v) }

// times are the table's times as seconds since the epoch.
func (t *Table) times() []string {
	times := make([]string, len(t.Times))
	for k, ms := range t.Times {
		times[k] = strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64)
	}
	return times
}

// timesBytes is about what they take.
func (t *Table) timesBytes() int64 { return textBytes + 32*int64(len(t.Times)) }

// prepareCSV prepares CSV: a column for each label, then timestamp (seconds since the epoch), then the
// columns of values; a line for each row. A cell without a value is empty. Warnings have no place in it.
func prepareCSV(t *Table, _ bool) (func(io.Writer) error, int64, error) {
	names, others := t.names(), append([]string{"timestamp"}, t.Columns...)
	if err := checkColumns(slices.Concat(names, others)); err != nil {
		return nil, 0, err
	}
	return func(w io.Writer) error { return t.csv(w, names, others) }, t.timesBytes(), nil
}

func (t *Table) csv(w io.Writer, names, others []string) error {
	out := bufio.NewWriterSize(w, textBytes)
	line := append(appendCells(nil, append(slices.Clone(names), others...)), '\n')
	if _, err := out.Write(line); err != nil {
		return err
	}
	times, cells := t.times(), make([]string, len(names))
	for i := range t.Series {
		s := &t.Series[i]
		for k, name := range names {
			cells[k] = s.Labels.Get(name)
		}
		line = appendCells(line[:0], cells)
		if len(names) > 0 {
			line = append(line, ',')
		}
		head := len(line)
		err := t.rows(s, func(time int32, values [][]float64, i int) error {
			line = append(line[:head], times[time]...)
			for _, of := range values {
				line = append(line, ',')
				switch {
				case t.Text != nil:
					line = appendCells(line, []string{*t.Text})
				case of != nil && !t.isNull(of[i]):
					line = appendPlain(line, of[i])
				}
			}
			line = append(line, '\n')
			_, err := out.Write(line)
			return err
		})
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// appendCells appends cells of text with commas between them.
func appendCells(b []byte, cells []string) []byte {
	to := bytes.NewBuffer(b)
	c := csv.NewWriter(to)
	_ = c.Write(cells) // a buffer takes all
	c.Flush()
	return bytes.TrimSuffix(to.Bytes(), []byte("\n"))
}

// appendPlain appends a number without an exponent.
func appendPlain(b []byte, v float64) []byte {
	if abs := math.Abs(v); abs < 1e-6 || abs >= 1e21 {
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
	return encode.AppendFloat(b, v)
}

func prepareLines(t *Table, _ bool) (func(io.Writer) error, int64, error) {
	return t.lines, t.timesBytes(), nil
}

// lines writes a line of JSON for each row, with its labels, time and values, which are numbers
// but for NaN and infinities:
//
//	{"metric":{"job":"a"},"timestamp":1700000000,"values":{"count":3,"max":"+Inf","95pct":null}}
//	{"metric":{"job":"a"},"timestamp":1700000000,"value":3}
//
// The second is that of a PromQL answer. Warnings are a line of their own, the last one.
func (t *Table) lines(w io.Writer) error {
	out := bufio.NewWriterSize(w, textBytes)
	columns := make([][]byte, len(t.Columns))
	for k, name := range t.Columns {
		columns[k] = append(encode.AppendString(nil, name), ':')
	}
	times := t.times()
	var line []byte
	for i := range t.Series {
		s := &t.Series[i]
		line = append(encode.AppendLabels(append(line[:0], `{"metric":`...), s.Labels), `,"timestamp":`...)
		head := len(line)
		err := t.rows(s, func(time int32, values [][]float64, i int) error {
			line = append(line[:head], times[time]...)
			if t.Single {
				line = t.appendValue(append(line, `,"value":`...), values[0][i])
			} else {
				line = append(line, `,"values":{`...)
				for k, of := range values {
					if of == nil {
						continue
					}
					if line[len(line)-1] != '{' {
						line = append(line, ',')
					}
					line = t.appendValue(append(line, columns[k]...), of[i])
				}
				line = append(line, '}')
			}
			line = append(line, "}\n"...)
			_, err := out.Write(line)
			return err
		})
		if err != nil {
			return err
		}
	}
	if len(t.Warnings) > 0 {
		text, err := json.Marshal(t.Warnings)
		if err != nil {
			return err
		}
		_, _ = out.WriteString(`{"warnings":`) // an error shows when the buffer is flushed
		_, _ = out.Write(text)
		_, _ = out.WriteString("}\n")
	}
	return out.Flush()
}

// appendValue appends a cell's value as JSON.
func (t *Table) appendValue(b []byte, v float64) []byte {
	switch {
	case t.Text != nil:
		return encode.AppendString(b, *t.Text)
	case t.isNull(v):
		return append(b, "null"...)
	case v-v != 0: // NaN or infinite, which JSON has no numbers for
		return append(encode.AppendFloat(append(b, '"'), v), '"')
	}
	return encode.AppendFloat(b, v)
}
