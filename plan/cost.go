package plan

// Cost is what a query is expected to read and to take, by what is cached. It marshals to JSON.
type Cost struct {
	// Estimate has the form of Prometheus's proposal 0089.
	Estimate CostEstimate `json:"estimate"`
	// Complete says that something is known of every selector. Otherwise all numbers are of the
	// others.
	Complete bool   `json:"complete"`
	Executor string `json:"executor"`
	// FetchBytes are to be fetched, and CachedBytes are there: bytes of encoded chunks and labels.
	FetchBytes  int64 `json:"fetch_bytes"`
	CachedBytes int64 `json:"cached_bytes"`
	// MemoryBytes are those of what is fetched and of rows, at most.
	MemoryBytes int64 `json:"memory_bytes"`
	// Cores and GPU are what the query takes there; nil where that is not known, as of what
	// Prometheus's engine evaluates.
	Cores *Times `json:"cores_us"`
	GPU   *Times `json:"gpu_us,omitempty"`
	// Dominates is what takes most of the time on cores, as things are.
	Dominates *Dominant      `json:"dominates,omitempty"`
	Selectors []SelectorCost `json:"selectors"`
	Warnings  []string       `json:"-"`
}

// Times are what a query takes with what is cached now, with nothing cached, and with all.
type Times struct {
	Now  Took `json:"now"`
	Cold Took `json:"cold"`
	Warm Took `json:"warm"`
}

// Took is what a query takes, in µs. A GPU's decoding is a part of its evaluation.
type Took struct {
	Fetch    int64 `json:"fetch"`
	Decode   int64 `json:"decode"`
	Evaluate int64 `json:"evaluate"`
	Total    int64 `json:"total"`
}

// Dominant is a selector and what of it takes long: fetch, decode or evaluate.
type Dominant struct {
	Selector string `json:"selector"`
	Phase    string `json:"phase"`
}

// CostEstimate is what a query reads, added up over its selectors.
type CostEstimate struct {
	Series int64 `json:"seriesTouched"`
	// Samples are counted as Prometheus's engine does, each once however many windows it is in.
	Samples int64 `json:"samplesRead"`
}

// SelectorCost is what a query reads of one selector.
type SelectorCost struct {
	Selector string `json:"selector"`
	Start    int64  `json:"start"` // of the samples, in ms since the epoch
	End      int64  `json:"end"`
	// Unknown says why nothing is known of the selector, and what would tell.
	Unknown string `json:"unknown,omitempty"`
	// Exact says that series and samples were counted. Otherwise they follow from what is cached of
	// the selector, or from some of its series.
	Exact  bool  `json:"exact"`
	Series int64 `json:"series"`
	// Samples are those from start to end, and Read those that windows are over.
	Samples     int64 `json:"samples"`
	Read        int64 `json:"samplesRead"`
	FetchBytes  int64 `json:"fetch_bytes"`
	CachedBytes int64 `json:"cached_bytes"`
	// Sources says for how many ms of the time samples come from where: kept in memory, disk, a wider
	// selector's, upstream.
	Sources map[string]int64 `json:"sources_ms"`
}
