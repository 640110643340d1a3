package wire

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Label is a label as it lies in an answer.
type Label struct{ Name, Value []byte }

// WalkLabel goes through a prompb.Label.
func WalkLabel(b []byte) (l Label, err error) {
	for f, err := range Messages(b, "a label", 2) {
		switch {
		case err != nil:
			return l, err
		case f.Num == 1:
			l.Name = f.Bytes
		default:
			l.Value = f.Bytes
		}
	}
	return l, nil
}

// LabelMaker makes labels of those that lie in an answer.
type LabelMaker struct{ scratch labels.ScratchBuilder }

func NewLabelMaker() LabelMaker {
	m := LabelMaker{labels.NewScratchBuilder(0)}
	// What it is given lies in an answer and is copied.
	m.scratch.SetUnsafeAdd(true)
	return m
}

// Make makes labels of ls, which it checks.
func (m *LabelMaker) Make(ls []Label) (labels.Labels, error) {
	m.scratch.Reset()
	for i, l := range ls {
		if err := CheckLabel(String(l.Name), String(l.Value)); err != nil {
			return labels.Labels{}, fmt.Errorf("series %s: %w", Describe(ls), err)
		}
		if i > 0 {
			switch prev := ls[i-1].Name; strings.Compare(String(prev), String(l.Name)) {
			case 0:
				return labels.Labels{}, fmt.Errorf("series %s: label %q appears twice", Describe(ls), l.Name)
			case 1:
				return labels.Labels{}, fmt.Errorf("series %s: labels are not sorted: %q comes after %q", Describe(ls), l.Name, prev)
			}
		}
		m.scratch.Add(String(l.Name), String(l.Value))
	}
	return m.scratch.Labels(), nil
}

// Overwrite makes out what ls are, unchecked, in memory that the next call uses again.
// It does not if one is too long.
func (m *LabelMaker) Overwrite(ls []Label, out *labels.Labels) bool {
	m.scratch.Reset()
	for _, l := range ls {
		if len(l.Name) > maxLabel || len(l.Value) > maxLabel {
			return false
		}
		m.scratch.Add(String(l.Name), String(l.Value))
	}
	m.scratch.Overwrite(out)
	return true
}

// maxLabel is the most bytes of a label's name or value that labels.Labels can
// hold; it panics on longer ones.
const maxLabel = 1<<24 - 1

// CheckLabel checks one label as Prometheus does on what it reads.
func CheckLabel(name, value string) error {
	switch {
	case name == "":
		return errors.New("a label has no name")
	case len(name) > maxLabel || len(value) > maxLabel:
		return fmt.Errorf("label %q is longer than %d bytes", Short([]byte(name)), maxLabel)
	case !utf8.ValidString(name):
		return fmt.Errorf("label name %q is not valid UTF-8", name)
	case !utf8.ValidString(value):
		return fmt.Errorf("the value of label %q is not valid UTF-8", name)
	case name == model.MetricNameLabel && value == "":
		return errors.New("the metric name is empty")
	}
	return nil
}

// MaxSeriesText is the most bytes of a series in a message, about.
const MaxSeriesText = 512

// Describe is the text of labels that may not be valid.
func Describe(ls []Label) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, l := range ls {
		if i > 0 {
			b.WriteString(", ")
		}
		if b.Len() > MaxSeriesText {
			b.WriteString("…")
			break
		}
		fmt.Fprintf(&b, "%s=%q", Short(l.Name), Short(l.Value))
	}
	b.WriteByte('}')
	return b.String()
}

// Short is b, or the beginning of a very long one.
func Short(b []byte) string {
	const most = 128
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "�") + "…"
	}
	return strings.ToValidUTF8(string(b), "�")
}

// String is b as a string that shares its bytes.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
