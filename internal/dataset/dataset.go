// Package dataset generates a realistic and deterministic monitoring data set:
// what a Prometheus server would have stored had it scraped a few services, the
// nodes they run on and the pods of a cluster.
//
// Every instance of a service is scraped in three places, its application, its
// node exporter and its kubelet, and yields about 68 series:
//
//	http_requests_total                    32  counter by code, method and handler
//	http_request_duration_seconds_bucket   10  classic histogram, le from 0.005 to +Inf
//	http_request_duration_seconds_sum       1
//	http_request_duration_seconds_count     1
//	process_resident_memory_bytes           1  gauge, a saw tooth that falls at restarts
//	app_build_info                          1  gauge, always 1
//	up                                      2  gauge, 0 or 1, of application and node
//	node_cpu_seconds_total                 12  counter by cpu and mode, two decimals
//	node_memory_bytes                       5  gauge by type
//	kube_pod_memory_working_set_bytes      1+  gauge by namespace and pod; pods come and go
//
// so that Options.Series of 6800 makes 100 instances of 8 services (label job,
// of unequal sizes) and 3200 series of http_requests_total.
//
// What makes it like the real thing:
//
//   - Applications are scraped exactly every Options.Interval at an offset of
//     their own; a quarter of the nodes and all kubelets are scraped with
//     jitter, kubelets at twice the interval.
//   - Requests follow the time of day. Most series with an error code hardly
//     move; incidents of a job raise its errors and its latency for minutes.
//   - Instances restart every few hours, which resets all of their counters,
//     with or without an outage in which up is 0 and the other series end in a
//     stale marker.
//   - Instances vanish from discovery for a while (all of their series end in a
//     stale marker, up too), and scrapes are lost (a gap without a marker).
//   - Pods live for some hours, end in a stale marker and are followed by a pod
//     of another name: the cardinality grows with the time covered.
//
// The same options give the same samples, bit for bit, whatever they are
// written to and in whatever steps. A sample's value depends on the seed, the
// start and the interval but not on the end.
package dataset

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options say what to generate.
type Options struct {
	// Start and End bound the samples' timestamps, in ms since the epoch. End is
	// not included.
	Start, End int64
	// Interval is the scrape interval; 0 is 15 s.
	Interval time.Duration
	// Series is about how many series there are in a day; 0 is 6800.
	Series int
	// Seed picks one of many data sets of the same kind.
	Seed uint64
	// Jitter says by what samples come up to 3 ms later than they are due: "scrape" for the samples
	// of a scrape alike, "series" for each by itself, as where they are pushed; "" or "none" for
	// none.
	Jitter string
}

// Stats say what was written.
type Stats struct {
	Series       int   // series, pods of the past included
	Samples      int64 // samples, stale markers included
	StaleMarkers int64
}

// seriesPerInstance is what one instance yields in a day.
const seriesPerInstance = 68

func (o *Options) validate() error {
	if o.Interval == 0 {
		o.Interval = 15 * time.Second
	}
	if o.Series == 0 {
		o.Series = 6800
	}
	switch {
	case o.Interval < time.Second:
		return errors.New("the scrape interval must be at least one second")
	case o.Series < 0:
		return errors.New("the number of series must not be negative")
	case !slices.Contains([]string{"", "none", "scrape", "series"}, o.Jitter):
		return fmt.Errorf("there is no jitter %q; there are none, scrape and series", o.Jitter)
	case o.Start < 0:
		return errors.New("the start must not be before 1970")
	case o.End <= o.Start:
		return errors.New("the end must be after the start")
	}
	return nil
}

// instances is the number of instances that make about o.Series series.
func (o *Options) instances() int {
	return max(1, (o.Series+seriesPerInstance/2)/seriesPerInstance)
}
