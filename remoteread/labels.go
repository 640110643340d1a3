package remoteread

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/protobuf/encoding/protowire"
)

// wireLabel is a label as it lies in an answer.
type wireLabel struct{ name, value []byte }

// walkLabel goes through a prompb.Label.
func walkLabel(b []byte) (l wireLabel, err error) {
	// Nearly all are a name and a value of less than 128 bytes each.
	if len(b) >= 4 && b[0] == 0x0a {
		if n := int(b[1]); n < 0x80 && len(b) >= 4+n && b[2+n] == 0x12 && b[3+n] < 0x80 && len(b) == 4+n+int(b[3+n]) {
			return wireLabel{b[2 : 2+n], b[4+n:]}, nil
		}
	}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return l, malformedField("a label", n)
		}
		b = b[n:]
		if num > 2 {
			n := protowire.ConsumeFieldValue(num, typ, b)
			if n < 0 {
				return l, malformedField("a label", n)
			}
			b = b[n:]
			continue
		}
		if typ != protowire.BytesType {
			return l, wrongType("a label", num, typ)
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return l, malformedField("a label", n)
		}
		b = b[n:]
		if num == 1 {
			l.name = v
		} else {
			l.value = v
		}
	}
	return l, nil
}

// labelMaker makes labels of those that lie in an answer.
type labelMaker struct{ scratch labels.ScratchBuilder }

func newLabelMaker() labelMaker {
	m := labelMaker{labels.NewScratchBuilder(0)}
	// What it is given lies in an answer and is copied.
	m.scratch.SetUnsafeAdd(true)
	return m
}

// make makes labels of ls, which it checks.
func (m *labelMaker) make(ls []wireLabel) (labels.Labels, error) {
	m.scratch.Reset()
	for i, l := range ls {
		if err := checkLabel(str(l.name), str(l.value)); err != nil {
			return labels.Labels{}, fmt.Errorf("series %s: %w", describe(ls), err)
		}
		if i > 0 {
			switch prev := ls[i-1].name; strings.Compare(str(prev), str(l.name)) {
			case 0:
				return labels.Labels{}, fmt.Errorf("series %s: label %q appears twice", describe(ls), l.name)
			case 1:
				return labels.Labels{}, fmt.Errorf("series %s: labels are not sorted: %q comes after %q", describe(ls), l.name, prev)
			}
		}
		m.scratch.Add(str(l.name), str(l.value))
	}
	return m.scratch.Labels(), nil
}

// overwrite makes out what ls are, unchecked, in memory that the next call uses again.
// It does not if one is too long.
func (m *labelMaker) overwrite(ls []wireLabel, out *labels.Labels) bool {
	m.scratch.Reset()
	for _, l := range ls {
		if len(l.name) > maxLabel || len(l.value) > maxLabel {
			return false
		}
		m.scratch.Add(str(l.name), str(l.value))
	}
	m.scratch.Overwrite(out)
	return true
}

// maxLabel is the most bytes of a label's name or value that labels.Labels can
// hold; it panics on longer ones.
const maxLabel = 1<<24 - 1

// checkLabel checks one label as Prometheus does on what it reads.
func checkLabel(name, value string) error {
	switch {
	case name == "":
		return errors.New("a label has no name")
	case len(name) > maxLabel || len(value) > maxLabel:
		return fmt.Errorf("label %q is longer than %d bytes", short([]byte(name)), maxLabel)
	case !utf8.ValidString(name):
		return fmt.Errorf("label name %q is not valid UTF-8", name)
	case !utf8.ValidString(value):
		return fmt.Errorf("the value of label %q is not valid UTF-8", name)
	case name == model.MetricNameLabel && value == "":
		return errors.New("the metric name is empty")
	}
	return nil
}

// maxSeriesText is the most bytes of a series in a message, about.
const maxSeriesText = 512

// describe is the text of labels that may not be valid.
func describe(ls []wireLabel) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, l := range ls {
		if i > 0 {
			b.WriteString(", ")
		}
		if b.Len() > maxSeriesText {
			b.WriteString("…")
			break
		}
		fmt.Fprintf(&b, "%s=%q", short(l.name), short(l.value))
	}
	b.WriteByte('}')
	return b.String()
}

// short is b, or the beginning of a very long one.
func short(b []byte) string {
	const most = 128
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "�") + "…"
	}
	return strings.ToValidUTF8(string(b), "�")
}

// str is b as a string that shares its bytes.
func str(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
