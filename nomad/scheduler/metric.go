package scheduler

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// metric starts the metric of one search.
func (s *stack) metric() *nomad.AllocMetric {
	return &nomad.AllocMetric{
		NodesInPool:    s.cluster.inPool,
		NodePool:       s.cluster.pool(),
		NodesAvailable: s.cluster.byDC,
	}
}

// count adds a number to the value under the key. It allocates the map on first use.
func count(m *map[string]int, key string, by int) {
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[key] += by
}

// filter records a node that does not meet a demand.
func filter(m *nomad.AllocMetric, n *nomad.Node, why string) {
	reason{text: why, class: n.NodeClass}.add(m, 1)
}

// exhaust records a node that is feasible but exhausted.
func exhaust(m *nomad.AllocMetric, n *nomad.Node, dimension string) {
	reason{dimension, n.NodeClass, true}.add(m, 1)
}

// add records nodes that do not fit for the reason.
func (r reason) add(m *nomad.AllocMetric, nodes int) {
	total, whys, classes := &m.NodesFiltered, &m.ConstraintFiltered, &m.ClassFiltered
	if r.exhausted {
		total, whys, classes = &m.NodesExhausted, &m.DimensionExhausted, &m.ClassExhausted
	}
	*total += nodes
	count(whys, r.text, nodes)
	if r.class != "" {
		count(classes, r.class, nodes)
	}
}

// exhausted records what each task asked of the exhausted dimensions.
func exhausted(tg *nomad.TaskGroup, m *nomad.AllocMetric) {
	d := m.DimensionExhausted
	if d[feasible.DimensionCPU]+d[feasible.DimensionMemory]+d[feasible.DimensionCores] == 0 {
		return
	}
	m.ResourcesExhausted = map[string]*nomad.Resources{}
	for _, t := range tg.Tasks {
		if t.Resources == nil {
			continue
		}
		short := &nomad.Resources{}
		if d[feasible.DimensionCPU] > 0 {
			short.CPU = t.Resources.CPU
		}
		if d[feasible.DimensionMemory] > 0 {
			short.MemoryMB = t.Resources.MemoryMB
		}
		if d[feasible.DimensionCores] > 0 {
			short.Cores = t.Resources.Cores
		}
		m.ResourcesExhausted[t.Name] = short
	}
}

// merge adds the metric of another node to m: system jobs search each node separately.
func merge(m, other *nomad.AllocMetric) *nomad.AllocMetric {
	if m == nil {
		return other
	}
	m.NodesEvaluated += other.NodesEvaluated
	m.NodesFiltered += other.NodesFiltered
	m.NodesExhausted += other.NodesExhausted
	m.AllocationTime += other.AllocationTime
	m.QuotaExhausted = mergeExhausted(m.QuotaExhausted, other.QuotaExhausted)
	for _, pair := range []struct {
		into *map[string]int
		from map[string]int
	}{
		{&m.ClassFiltered, other.ClassFiltered},
		{&m.ConstraintFiltered, other.ConstraintFiltered},
		{&m.ClassExhausted, other.ClassExhausted},
		{&m.DimensionExhausted, other.DimensionExhausted},
	} {
		for k, n := range pair.from {
			if *pair.into == nil {
				*pair.into = map[string]int{}
			}
			(*pair.into)[k] += n
		}
	}
	if m.ResourcesExhausted == nil {
		m.ResourcesExhausted = other.ResourcesExhausted
	}
	return m
}
