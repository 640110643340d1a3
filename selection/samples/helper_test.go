package samples

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/selection/selectiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Those of selectiontest that nearly every test uses.
type sample = selectiontest.Sample

var (
	current, drain     = selectiontest.Current, selectiontest.Drain
	encodings          = selectiontest.Encodings
	encode, rising     = selectiontest.Encode, selectiontest.Rising
	timesBetween, name = selectiontest.TimesBetween, selectiontest.Name
)
