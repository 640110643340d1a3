package config

import (
	"encoding"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"golang.org/x/net/http/httpguts"

	"github.com/promwarp/promwarp/internal/queue"
)

// QueueSettings say how queries, and remote reads, wait for others to end.
type QueueSettings struct {
	// MaxLists is how many requests for labels, series and metadata are asked of upstreams at
	// once; 0 sets no limit.
	MaxLists int `yaml:"max_lists"`
	// MaxQueue is the most that wait; 0 lets none wait.
	MaxQueue int `yaml:"max_queue"`
	// MaxQueueTime is the longest that one waits.
	MaxQueueTime model.Duration `yaml:"max_queue_time"`
	// TenantHeader is the header that says whose a request is; empty is none.
	TenantHeader string `yaml:"tenant_header"`
}

func defaultQueue() QueueSettings {
	return QueueSettings{MaxLists: 4, MaxQueue: 1000, MaxQueueTime: model.Duration(10 * time.Second)}
}

// validate checks what the types cannot say.
func (s *QueueSettings) validate() error {
	return broken(
		rule{s.MaxLists < 0, "query.max_lists must not be negative; 0 sets no limit, the default is 4"},
		rule{s.MaxQueue < 0, "query.max_queue must not be negative; 0 lets no query wait, the default is 1000"},
		rule{s.TenantHeader != "" && (!httpguts.ValidHeaderFieldName(s.TenantHeader) || strings.EqualFold(s.TenantHeader, "Host")), fmt.Sprintf("query.tenant_header: no request can have a header %q; write one such as X-Scope-OrgID", s.TenantHeader)},
		rule{s.MaxQueueTime <= 0, "query.max_queue_time must be more than 0; the default is 10s"},
	)
}

// addQueue declares the flags of the queues.
func (f *Flags) addQueue(to flagger) {
	f.number(to, "query.max-lists", "4", "Requests for labels, series and metadata that upstreams are asked to answer at once, so that they leave them time for samples; others wait as queries do. 0 sets no limit.", func(s *Settings) *int { return &s.Query.MaxLists })
	f.number(to, "query.max-queue", "1000", "Queries that may wait for one of query.max-concurrency to end, and as many remote reads; others are refused at once with 503. 0 lets none wait.", func(s *Settings) *int { return &s.Query.MaxQueue })
	f.parsed(to, "query.max-queue-time", "10s", "Longest that a query or remote read waits for another to end; then it is refused with 503.", func(s *Settings) encoding.TextUnmarshaler { return &s.Query.MaxQueueTime })
	f.text(to, "query.tenant-header", "NAME", "Header that says whose a request is, such as X-Scope-OrgID: those who wait take turns. By default it is the remote address.", func(s *Settings) *string { return &s.Query.TenantHeader })
}

// values lists the settings by the names of their flags.
func (s *QueueSettings) values() map[string]string {
	return map[string]string{
		"query.max-lists":      strconv.Itoa(s.MaxLists),
		"query.max-queue":      strconv.Itoa(s.MaxQueue),
		"query.max-queue-time": s.MaxQueueTime.String(),
		"query.tenant-header":  s.TenantHeader,
	}
}

// Limits are those of a queue with that many slots; 0 sets no limit. A quarter of them is
// kept from a client that has all others.
func (s *QueueSettings) Limits(slots int) queue.Limits {
	return queue.Limits{Slots: slots, Spare: slots / 4, MaxWaiting: s.MaxQueue, MaxWait: time.Duration(s.MaxQueueTime)}
}
