package placement

import (
	"fmt"
	"time"
)

// The time that the cores and a GPU are expected to take for a sum of rates over ever more
// series, each of a day's 5760 samples at 1440 steps, whose chunks are not on the GPU.
func ExampleConstants_Estimate() {
	measured := Constants{
		Cores:  Costs{Fixed: 20 * time.Microsecond, Series: 500, Sample: 2, Window: 2.6, Slow: 4, Ramp: 1200 * time.Microsecond},
		Device: Costs{Fixed: 420 * time.Microsecond, Series: 90, Sample: 0.02, Window: 0.02, Slow: 6, Ramp: 1300 * time.Microsecond},
		Copy:   360 * time.Microsecond, Link: 50e9,
	}
	for _, series := range []int64{1, 10, 100, 1000} {
		e := measured.Estimate(Size{Series: series, Samples: 5760 * series, Windows: 1440 * series, Missing: 2 * 5760 * series})
		fmt.Printf("%4d series: cores %7v, GPU %7v\n", series, e[Cores].Round(time.Microsecond), e[Device].Round(time.Microsecond))
	}
	// Output:
	//    1 series: cores    83µs, GPU   782µs
	//   10 series: cores   651µs, GPU   796µs
	//  100 series: cores 2.796ms, GPU   943µs
	// 1000 series: cores 16.984ms, GPU 2.414ms
}
