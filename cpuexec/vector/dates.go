package vector

import (
	"time"

	"github.com/promwarp/promwarp/plan"
)

// This file defines the functions that tell of a time.

var (
	_ = defineDate("minute", func(t time.Time) float64 { return float64(t.Minute()) })
	_ = defineDate("hour", func(t time.Time) float64 { return float64(t.Hour()) })
	_ = defineDate("day_of_week", func(t time.Time) float64 { return float64(t.Weekday()) })
	_ = defineDate("day_of_month", func(t time.Time) float64 { return float64(t.Day()) })
	_ = defineDate("day_of_year", func(t time.Time) float64 { return float64(t.YearDay()) })
	_ = defineDate("month", func(t time.Time) float64 { return float64(t.Month()) })
	_ = defineDate("year", func(t time.Time) float64 { return float64(t.Year()) })
	_ = defineDate("days_in_month", func(t time.Time) float64 {
		// By how far day 32 lies in the next month. So Prometheus does it, and years that
		// overflow come to the same.
		return float64(32 - time.Date(t.Year(), t.Month(), 32, 0, 0, 0, 0, time.UTC).Day())
	})
)

// StepTime is the function timestamp of anything but a selector: the time of the step.
var StepTime = defineUnnamed(&Function{MapFunc: plan.MapFunc{Name: "timestamp"}, NoGPU: "it is the time of the step, whatever the value"})

func defineDate(name string, tells func(time.Time) float64) *plan.MapFunc {
	return define(&Function{
		MapFunc: plan.MapFunc{Name: name},
		value:   unary(func(v float64) float64 { return tells(time.Unix(int64(v), 0).UTC()) }),
		NoGPU:   "kernels know no calendar",
	})
}
