package window

import (
	"sort"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/internal/spin"
)

// times are the times of a frame's samples: runs where there are some, and else, or where
// somebody asks, a list.
type times struct {
	n    int
	of   column.Times // with tail for its own
	tail []int64
	runs column.Runs

	once   spin.Once
	ts     []int64
	joined []int64     // memory for ts where they are in no other
	memory column.Runs // for runs
}

// set makes t the times of, with tail in place of its own.
func (t *times) set(of column.Times, tail []int64) {
	t.of, t.tail, t.n = of, tail, of.Known+len(tail)
	t.runs = of.Runs(tail, &t.memory)
	t.once.Reset()
}

// list returns all times in ms.
func (t *times) list() []int64 {
	t.once.Do(func() { t.ts = t.of.Join(t.tail, &t.joined) })
	return t.ts
}

// at is the time of sample i in ms.
func (t *times) at(i int) int64 {
	if i >= t.of.Known {
		return t.tail[i-t.of.Known]
	}
	if len(t.runs.Even) == 0 {
		return t.list()[i]
	}
	k := sort.Search(len(t.runs.Even), func(k int) bool { return int(t.runs.Even[k].To) > i })
	return t.runs.At(k, int32(i))
}

// release gives back what is borrowed.
func (t *times) release() {
	t.ts, t.of, t.runs = nil, column.Times{}, column.Runs{}
}
