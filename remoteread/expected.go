package remoteread

import (
	"errors"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// expected are the series, in label order, that an answer may bring. As answers are
// in that order, too, those that it brings are found one after another.
type expected []labels.Labels

// find returns the labels equal to ls if they are among those that come next. Those
// before are passed over.
func (e *expected) find(ls []wireLabel) (labels.Labels, bool) {
	for len(*e) > 0 {
		first := (*e)[0]
		order := compareWire(first, ls)
		if order > 0 {
			break
		}
		*e = (*e)[1:]
		if order == 0 {
			return first, true
		}
	}
	return labels.Labels{}, false
}

var errDiffer = errors.New("labels differ")

// compareWire is labels.Compare for labels that lie in a frame.
func compareWire(a labels.Labels, b []wireLabel) int {
	order := 0
	_ = a.Validate(func(l labels.Label) error {
		if len(b) == 0 {
			order = 1
			return errDiffer
		}
		if order = strings.Compare(l.Name, str(b[0].name)); order == 0 {
			order = strings.Compare(l.Value, str(b[0].value))
		}
		if order != 0 {
			return errDiffer
		}
		b = b[1:]
		return nil
	})
	if order == 0 && len(b) > 0 {
		return -1
	}
	return order
}
