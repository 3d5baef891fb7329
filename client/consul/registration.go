package consul

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// Services returns the services of a workload with their checks, in the order of the job. One service without an address
// fails all.
func Services(w *service.Workload, tokens Tokens) ([]*reconcile.Service, error) {
	var out []*reconcile.Service
	for _, s := range w.Services {
		r, err := registration(w, s)
		if err != nil {
			return nil, err
		}
		one := &reconcile.Service{Registration: r, Token: tokenOf(w, s, tokens)}
		if one.Token != nil && tokens != nil {
			one.Unknown = tokens.Invalidate
		}
		out = append(out, one)
	}
	return out, nil
}

// tokenOf returns the token of a service. nil means the token of the agent.
func tokenOf(w *service.Workload, s *nomad.Service, tokens Tokens) func() string {
	switch {
	case s.Identity == nil:
		return nil
	case tokens == nil:
		return func() string { return "" }
	}
	return tokens.Token(s.Identity.Name, w.Task)
}

// ServiceID returns the ID of a service.
func ServiceID(w *service.Workload, s *nomad.Service) string {
	return catalog.ID(w.Alloc.ID, w.Name(), w.Env.Expand(s.Name), w.Env.Expand(s.PortLabel))
}

func registration(w *service.Workload, s *nomad.Service) (*api.AgentServiceRegistration, error) {
	name := w.Env.Expand(s.Name)
	if !catalog.ConsulName(name) {
		return nil, fmt.Errorf("the name of service %.128q is %.256q after interpolation: it must have 1 to 256 letters, digits, -, _ and dots",
			s.Name, name)
	}
	addr, err := w.Network.Resolve(w.Ask(s))
	if err != nil {
		return nil, fmt.Errorf("unable to get address for service %q: %w", name, err)
	}
	tags, meta := s.Tags, s.Meta
	if w.Alloc.IsCanary() && len(s.CanaryTags) > 0 {
		tags = s.CanaryTags
	}
	if w.Alloc.IsCanary() && len(s.CanaryMeta) > 0 {
		meta = s.CanaryMeta
	}
	r := &api.AgentServiceRegistration{
		Kind: api.ServiceKind(s.Kind), ID: ServiceID(w, s), Name: name, Tags: w.Expanded(tags), Address: addr.Host, Port: addr.Port,
		EnableTagOverride: s.EnableTagOverride, Meta: w.ExpandedMap(meta),
	}
	r.Meta[service.MetaSource] = service.SourceName
	if s.Weights != nil {
		r.Weights = &api.AgentWeights{Passing: s.Weights.Passing, Warning: s.Weights.Warning}
	}
	if r.TaggedAddresses, err = tagged(w, s, addr.Port); err != nil {
		return nil, fmt.Errorf("service %q: %w", name, err)
	}
	for _, c := range s.Checks {
		one, err := check(w, s, c)
		if err != nil {
			return nil, err
		}
		r.Checks = append(r.Checks, one)
	}
	if err := plain(r); err != nil {
		return nil, fmt.Errorf("service %q: %w", name, err)
	}
	if err := connect.Add(w, s, r); err != nil {
		return nil, err
	}
	if err := bounded(r); err != nil {
		return nil, fmt.Errorf("service %q: %w", name, err)
	}
	return r, nil
}

// tagged returns the tagged addresses of a service. Those without a port have that of the service.
func tagged(w *service.Workload, s *nomad.Service, port int) (map[string]api.ServiceAddress, error) {
	expanded := w.ExpandedMap(s.TaggedAddresses)
	var out map[string]api.ServiceAddress
	for _, name := range slices.Sorted(maps.Keys(expanded)) {
		addr, err := catalog.ParseTagged(expanded[name], port)
		if err != nil {
			return nil, fmt.Errorf("tagged address %.64q: %w", name, err)
		}
		if out == nil {
			out = map[string]api.ServiceAddress{}
		}
		out[name] = api.ServiceAddress{Address: addr.Address, Port: addr.Port}
	}
	return out, nil
}
