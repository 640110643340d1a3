package upstream

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/singleflight"
)

const (
	// DefaultEvery is how often everything is read again.
	DefaultEvery = time.Minute
	// unknownEvery is how often it is while the server has not answered yet, or is away.
	unknownEvery = 2 * time.Second
)

// Options are what a Watcher is made from.
type Options struct {
	// Base is the server's HTTP API without /api/v1; nil if it is not known.
	Base *url.URL
	// Client sends requests, with promwarp's credentials for the server.
	Client *http.Client
	// ExternalLabels, if not nil, are what the operator says the labels are.
	ExternalLabels *labels.Labels
	// Every is how often everything is read again; 0 is DefaultEvery.
	Every time.Duration
	// Name is the server in messages.
	Name string
	// Away, if not nil, probes the store where it is away, and reports whether it still is. It is
	// called when everything has been read again.
	Away func(context.Context) bool
	// Changed, if not nil, is called from a goroutine of its own when facts have changed.
	Changed func()
	Logger  *slog.Logger
}

// Watcher knows what is known of a server. It is safe for concurrent use.
type Watcher struct {
	o      Options
	source *source // nil if there is no API to ask
	stop   context.CancelFunc
	ctx    context.Context
	done   sync.WaitGroup
	nudge  chan struct{}
	turn   sync.Mutex         // held while the configuration is read
	asked  singleflight.Group // for it

	mu       sync.Mutex // guards what follows
	config   *configured
	noConfig string // why there is none to be read; empty if there may be
	program  *program
	said     map[string]bool // what was logged of what is not known
	shown    []byte          // the answer that config was read from
}

// New returns a watcher, which reads nothing before it is asked to. It must be closed.
func New(o Options) *Watcher {
	if o.Every == 0 {
		o.Every = DefaultEvery
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{o: o, nudge: make(chan struct{}, 1), said: map[string]bool{}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	if o.Base == nil {
		w.noConfig = "the base URL of its HTTP API is not known"
	} else {
		w.source = &source{base: o.Base, client: o.Client}
	}
	return w
}

// Start reads everything, for at most as long as ctx, and goes on reading until Close.
func (w *Watcher) Start(ctx context.Context) {
	w.readAll(ctx)
	w.say()
	w.done.Go(w.run)
}

// Close ends reading.
func (w *Watcher) Close() {
	w.stop()
	w.done.Wait()
}

// Nudge has everything read again soon: something suggests that the server is another.
func (w *Watcher) Nudge() {
	select {
	case w.nudge <- struct{}{}:
	default:
	}
}

// run reads everything again and again.
func (w *Watcher) run() {
	for away := false; ; away = w.o.Away != nil && w.o.Away(w.ctx) {
		w.mu.Lock()
		told := w.program != nil && (w.config != nil || w.noConfig != "") // be it that it does not tell
		w.mu.Unlock()
		every := w.o.Every
		if away || w.source != nil && !told {
			every = min(every, unknownEvery)
		}
		timer := time.NewTimer(every)
		select {
		case <-timer.C:
		case <-w.nudge:
			timer.Stop()
		case <-w.ctx.Done():
			timer.Stop()
			return
		}
		w.readAll(w.ctx)
		w.say()
	}
}

// readAll reads the configuration and what the server was started as.
func (w *Watcher) readAll(ctx context.Context) {
	if w.source == nil {
		return
	}
	if err := w.readConfig(ctx); err != nil {
		w.o.Logger.Debug("Cannot read the upstream's configuration", "upstream", w.o.Name, "err", err)
		return // it is not there
	}
	p, err := w.source.readProgram(ctx)
	if err != nil {
		w.o.Logger.Debug("Cannot read the upstream's features", "upstream", w.o.Name, "err", err)
		return
	}
	w.change(func() { w.program = &p })
}

// readConfig reads the configuration together with all who ask for it meanwhile.
func (w *Watcher) readConfig(ctx context.Context) error {
	const one = "the configuration"
	read := w.asked.DoChan(one, func() (any, error) {
		w.turn.Lock()
		defer w.turn.Unlock()
		w.asked.Forget(one) // who asks from now on waits for another
		return nil, w.take(w.source.get(w.ctx, pathConfig))
	})
	select {
	case r := <-read:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take takes what reading the configuration came to.
func (w *Watcher) take(body []byte, err error) error {
	w.mu.Lock()
	same := err == nil && w.config != nil && bytes.Equal(w.shown, body)
	w.mu.Unlock()
	if same {
		return nil
	}
	var c configured
	if err == nil {
		c, err = parseConfig(body)
	}
	var gone *noAPIError
	if err != nil && !errors.As(err, &gone) {
		return err
	}
	w.change(func() {
		if gone != nil {
			w.config, w.noConfig, w.shown = nil, gone.Error(), nil
			return
		}
		w.config, w.noConfig, w.shown = &c, "", body
	})
	return nil
}

// change calls f with the mutex held, and tells who wants to know if it changed facts.
func (w *Watcher) change(f func()) {
	w.mu.Lock()
	before := w.facts()
	f()
	after := w.facts()
	w.mu.Unlock()
	if !before.Same(&after) && w.o.Changed != nil {
		go w.o.Changed()
	}
}

// Labels implements remoteread.External. Where the server does not tell there are none.
func (w *Watcher) Labels(ctx context.Context) (labels.Labels, error) {
	for first := true; ; first = false {
		w.mu.Lock()
		f := w.facts()
		known := f.LabelsKnown || f.NoConfig
		w.mu.Unlock()
		if known {
			return f.ExternalLabels, nil
		}
		if !first {
			return labels.EmptyLabels(), errors.New("the upstream's configuration was not read")
		}
		if err := w.readConfig(ctx); err != nil {
			return labels.EmptyLabels(), err
		}
		w.Nudge() // there is more to know
	}
}

// MayChange implements remoteread.External.
func (w *Watcher) MayChange() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.o.ExternalLabels == nil && w.source != nil && w.noConfig == ""
}

// Confirm implements remoteread.External: it reads the configuration again.
func (w *Watcher) Confirm(ctx context.Context) (labels.Labels, error) {
	if w.MayChange() {
		if err := w.readConfig(ctx); err != nil {
			return labels.EmptyLabels(), err
		}
	}
	return w.Labels(ctx)
}
