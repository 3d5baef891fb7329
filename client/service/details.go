package service

import (
	"fmt"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// MetaSource and SourceName are the pair that every registration has in its meta, also in Consul.
const (
	MetaSource = "external-source"
	SourceName = "nomad"
)

// details sets what only readers of the catalog use: meta, tagged addresses, weights. Its address must be set.
func (w *Workload) details(r *catalog.Registration, s *nomad.Service) error {
	meta := s.Meta
	if w.Alloc.IsCanary() && len(s.CanaryMeta) > 0 {
		meta = s.CanaryMeta
	}
	r.Meta = w.ExpandedMap(meta)
	r.Meta[MetaSource] = SourceName
	tagged := w.ExpandedMap(s.TaggedAddresses)
	for _, name := range slices.Sorted(maps.Keys(tagged)) {
		addr, err := catalog.ParseTagged(tagged[name], r.Port)
		if err != nil {
			return fmt.Errorf("service %q: tagged address %.64q: %w", r.ServiceName, name, err)
		}
		if r.TaggedAddresses == nil {
			r.TaggedAddresses = map[string]catalog.TaggedAddress{}
		}
		r.TaggedAddresses[name] = addr
	}
	if s.Weights != nil {
		r.Weights = &catalog.Weights{Passing: s.Weights.Passing, Warning: s.Weights.Warning}
	}
	r.EnableTagOverride = s.EnableTagOverride
	if err := r.CheckDeclared(); err != nil {
		return fmt.Errorf("service %q: %w", r.ServiceName, err)
	}
	return nil
}

// ExpandedMap interpolates keys and values. Of keys that become the same one, the last in order wins.
func (w *Workload) ExpandedMap(pairs map[string]string) map[string]string {
	out := make(map[string]string, len(pairs)+1)
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		out[w.Env.Expand(key)] = w.Env.Expand(pairs[key])
	}
	return out
}
