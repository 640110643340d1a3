package vector

import "time"

// dates are the functions of plan.Maps that tell of a time.
var dates = map[string]func(time.Time) float64{
	"minute":       func(t time.Time) float64 { return float64(t.Minute()) },
	"hour":         func(t time.Time) float64 { return float64(t.Hour()) },
	"day_of_week":  func(t time.Time) float64 { return float64(t.Weekday()) },
	"day_of_month": func(t time.Time) float64 { return float64(t.Day()) },
	"day_of_year":  func(t time.Time) float64 { return float64(t.YearDay()) },
	"month":        func(t time.Time) float64 { return float64(t.Month()) },
	"year":         func(t time.Time) float64 { return float64(t.Year()) },
	"days_in_month": func(t time.Time) float64 {
		// By how far day 32 lies in the next month. So Prometheus does it, and years that
		// overflow come to the same.
		return float64(32 - time.Date(t.Year(), t.Month(), 32, 0, 0, 0, 0, time.UTC).Day())
	},
}
