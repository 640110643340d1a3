package changed

import (
	"math"

	"github.com/promwarp/promwarp/cache/tile"
)

// mostEmpty is how many stretches are noted as empty beside a new one at most.
const mostEmpty = 100

// Empty is what of one selector was found empty though there were samples then or earlier, and when
// it was so first. A store that starts, or has lost sight of its data, may answer nothing for a while.
type Empty struct{ since tile.Coverage }

// Found notes that s was found empty at the given time (ms), or not, and returns for how long all of
// it has been empty, in ms.
func (e *Empty) Found(s tile.Span, empty bool, now int64) (lasted int64) {
	known := e.since.Within(s, math.MinInt64)
	if e.since = e.since.Without(s); !empty {
		return 0
	}
	if len(e.since) > mostEmpty {
		e.since = nil
	}
	for _, rest := range known.All().Missing(s) {
		known = known.With(rest, now)
	}
	since := int64(math.MinInt64)
	for _, one := range known {
		e.since = e.since.Having(one)
		since = max(since, one.At)
	}
	return now - since
}
