package reconcile

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/hashicorp/consul/api"
)

// derived are the tagged addresses that Consul adds to a service that has an address.
var derived = []string{"lan_ipv4", "wan_ipv4", "lan_ipv6", "wan_ipv6"}

// difference compares a service with what Consul has. Tags do not differ if others may set them.
func difference(want *api.AgentServiceRegistration, got, sidecar *api.AgentService) bool {
	if want.Kind != got.Kind || want.Port != got.Port || want.Address != got.Address || want.Name != got.Service ||
		want.EnableTagOverride != got.EnableTagOverride || !maps.Equal(want.Meta, got.Meta) ||
		!maps.Equal(want.TaggedAddresses, taggedAddresses(want, got)) || weights(want.Weights) != weights(&got.Weights) {
		return true
	}
	if !want.EnableTagOverride && !sameSet(want.Tags, got.Tags) {
		return true
	}
	if want.Connect == nil || want.Connect.SidecarService == nil {
		return false
	}
	return sidecar == nil || sidecarDiffers(want, sidecar)
}

func sidecarDiffers(want *api.AgentServiceRegistration, got *api.AgentService) bool {
	s := want.Connect.SidecarService
	tags := s.Tags
	if len(tags) == 0 { // Consul copies those of the service
		tags = want.Tags
	}
	if !want.EnableTagOverride && !sameSet(tags, got.Tags) {
		return true
	}
	var a, b []api.Upstream
	if s.Proxy != nil {
		a = s.Proxy.Upstreams
	}
	if got.Proxy != nil {
		b = got.Proxy.Upstreams
	}
	return !slices.Equal(upstreams(a), upstreams(b))
}

// upstreams returns upstreams in a form that can be compared: numbers as JSON has them, without defaults, sorted.
func upstreams(list []api.Upstream) (out []string) {
	for _, u := range list {
		if u.DestinationType == api.UpstreamDestTypeService {
			u.DestinationType = ""
		}
		for _, name := range []*string{&u.DestinationNamespace, &u.DestinationPartition} {
			if *name == "default" {
				*name = ""
			}
		}
		text, err := json.Marshal(u)
		if err != nil { // never sent either
			text = []byte(err.Error())
		}
		out = append(out, string(text))
	}
	slices.Sort(out)
	return out
}

// taggedAddresses returns those that Consul has, without the ones that it added itself.
func taggedAddresses(want *api.AgentServiceRegistration, got *api.AgentService) map[string]api.ServiceAddress {
	out := maps.Clone(got.TaggedAddresses)
	for _, name := range derived {
		if _, ok := want.TaggedAddresses[name]; !ok {
			delete(out, name)
		}
	}
	return out
}

// weights returns the weights that Consul uses.
func weights(w *api.AgentWeights) api.AgentWeights {
	if w == nil || *w == (api.AgentWeights{}) {
		return api.AgentWeights{Passing: 1, Warning: 1}
	}
	return *w
}

// sameSet compares tags without their order and repetitions.
func sameSet(a, b []string) bool {
	set := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	return slices.Equal(set(a), set(b))
}
