package dataset

// A kind of event that befalls an instance.
type kind uint8

const (
	restart kind = iota // the process is restarted between two scrapes
	down                // the target does not answer, then comes back restarted
	removed             // discovery drops the target for a while
	lost                // scrapes are missing, without a stale marker
)

// event is something that befalls an instance in [from, to), in ms.
type event struct {
	kind     kind
	from, to int64
}

// outages yields an instance's events in time order, without end.
type outages struct {
	r   rng
	cur event
}

const minute = 60_000

func newOutages(seed uint64, instance int, start int64) outages {
	o := outages{r: newRNG(seed, "outages", instance)}
	o.cur.to = start
	o.advance()
	return o
}

// advance moves to the next event.
func (o *outages) advance() {
	from := o.cur.to + int64(o.r.exponential(7*60*minute)) + 10*minute
	e := event{from: from, to: from + 1}
	switch p := o.r.float(); {
	case p < 0.5:
		e.kind = restart
	case p < 0.75:
		e.kind = down
		e.to = from + int64(o.r.spread(0.5*minute, 20*minute))
	case p < 0.85:
		e.kind = removed
		e.to = from + int64(o.r.spread(5*minute, 90*minute))
	default:
		e.kind = lost
		e.to = from + int64(o.r.spread(0.5*minute, 15*minute))
	}
	o.cur = e
}

// incidents yields the times at which a job's errors and latency are high.
type incidents struct {
	r        rng
	from, to int64
}

func newIncidents(seed uint64, job int, start int64) incidents {
	i := incidents{r: newRNG(seed, "incidents", job), to: start}
	i.advance()
	return i
}

func (i *incidents) advance() {
	i.from = i.to + int64(i.r.exponential(5*60*minute)) + 5*minute
	i.to = i.from + int64(i.r.between(4*minute, 30*minute))
}

// at says whether an incident is on; times must not go back.
func (i *incidents) at(t int64) bool {
	for t >= i.to {
		i.advance()
	}
	return t >= i.from
}
