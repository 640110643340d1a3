package cpuexec

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/schema"
)

// dropNames removes what a range function drops: metric name, type and unit.
func dropNames(l labels.Labels) labels.Labels { return l.DropReserved(schema.IsMetadataLabel) }
