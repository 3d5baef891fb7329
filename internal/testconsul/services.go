package testconsul

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"
)

const (
	maxMeta        = 64
	maxMetaValue   = 512
	firstProxyPort = 21000
)

var (
	// ownID are the IDs of an orchestrator: those of tasks, servers, clients and checks.
	ownTask  = regexp.MustCompile(`^_nomad-task-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-.+-[^-]*$`)
	ownAgent = regexp.MustCompile(`^_nomad-(server|client)-[a-z2-7]{52}$`)
	ownCheck = regexp.MustCompile(`^_nomad-check-[0-9a-f]{64}$`)
	metaKey  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
)

func agentServices(c *call) (any, error) {
	out := map[string]*api.AgentService{}
	for id, s := range c.a.services {
		if c.who.allow("read", "service", s.Service) {
			out[id] = s
		}
	}
	return out, nil
}

// registerService serves the registration of a service with its checks and sidecar.
func registerService(c *call) (any, error) {
	var in api.AgentServiceRegistration
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.ID == "" {
		in.ID = in.Name
	}
	if err := c.validService(&in); err != nil {
		return nil, err
	}
	if err := c.need("write", "service", in.Name); err != nil {
		return nil, err
	}
	if old := c.a.services[in.ID]; old != nil {
		if err := c.need("write", "service", old.Service); err != nil {
			return nil, err
		}
	}
	var sidecar *api.AgentServiceRegistration
	if in.Connect != nil && in.Connect.SidecarService != nil {
		sidecar = c.a.sidecarOf(&in)
		if err := c.validService(sidecar); err != nil {
			return nil, err
		}
	}
	c.store(&in)
	if sidecar != nil {
		c.store(sidecar)
	}
	return nil, nil
}

// validService checks what Consul requires of a service, and what an orchestrator promises for its own.
func (c *call) validService(in *api.AgentServiceRegistration) error {
	switch {
	case in.Name == "":
		return c.invalid("Missing service name")
	case in.Namespace != "" || in.Partition != "":
		return c.invalid("namespaces and partitions are not supported")
	case in.Port < 0 || in.Port > 65535:
		return c.invalid("Invalid port %d", in.Port)
	case in.Weights != nil && (in.Weights.Passing < 1 || in.Weights.Warning < 0):
		return c.invalid("Invalid Weights: Passing must be greater than 0")
	case len(in.Meta) > maxMeta:
		return c.invalid("Invalid Service Meta: Node metadata cannot contain more than %d key/value pairs", maxMeta)
	}
	for k, v := range in.Meta {
		if !metaKey.MatchString(k) || len(v) > maxMetaValue || strings.HasPrefix(k, "consul-") {
			return c.invalid("Invalid Service Meta: couldn't load metadata pair (%q, %q)", k, v)
		}
	}
	if ip, err := netip.ParseAddr(in.Address); err == nil && ip.IsUnspecified() {
		return c.invalid("Invalid service address")
	}
	if err := c.ownService(in); err != nil {
		return err
	}
	if err := c.validProxy(in); err != nil {
		return err
	}
	checks := in.Checks
	if in.Check != nil {
		checks = append(slices.Clone(checks), in.Check)
	}
	for _, def := range checks {
		if def == nil {
			return c.invalid("Invalid check: null")
		}
		if _, err := c.newCheck(def); err != nil {
			return err
		}
	}
	return nil
}

// ownService checks the ID of a service that an orchestrator registers. A sidecar has the ID of its service.
func (c *call) ownService(in *api.AgentServiceRegistration) error {
	own := strings.HasPrefix(in.ID, "_nomad-")
	switch {
	case !own && in.Meta["external-source"] == "nomad" && in.Kind != api.ServiceKindConnectProxy:
		return c.invalid("service ID %q does not begin with _nomad-", in.ID)
	case !own || ownAgent.MatchString(in.ID) || in.Kind == api.ServiceKindConnectProxy:
		return nil
	case !ownTask.MatchString(in.ID) || !strings.Contains(in.ID, "-"+in.Name+"-"):
		return c.invalid("service ID %q is not one of service %q", in.ID, in.Name)
	}
	return nil
}

// sidecarOf returns the registration of the sidecar of a service, with its defaults.
func (a *Agent) sidecarOf(in *api.AgentServiceRegistration) *api.AgentServiceRegistration {
	out := *in.Connect.SidecarService
	out.ID, out.Kind = in.ID+"-sidecar-proxy", api.ServiceKindConnectProxy
	if out.Name == "" {
		out.Name = in.Name + "-sidecar-proxy"
	}
	if out.Tags == nil {
		out.Tags = in.Tags
	}
	if out.Meta == nil {
		out.Meta = in.Meta
	}
	proxy := api.AgentServiceConnectProxyConfig{}
	if out.Proxy != nil {
		proxy = *out.Proxy
	}
	proxy.DestinationServiceName, proxy.DestinationServiceID = in.Name, in.ID
	if proxy.LocalServicePort == 0 {
		proxy.LocalServiceAddress, proxy.LocalServicePort = "127.0.0.1", in.Port
	}
	out.Proxy = &proxy
	if out.Port == 0 {
		out.Port = a.proxyPort(out.ID)
	}
	if len(out.Checks) == 0 {
		out.Checks = api.AgentServiceChecks{
			{Name: "Connect Sidecar Listening", TCP: fmt.Sprintf("127.0.0.1:%d", out.Port), Interval: "10s"},
			{Name: "Connect Sidecar Aliasing " + in.ID, AliasService: in.ID},
		}
	}
	return &out
}

// proxyPort returns the port of a sidecar that has none: its own, or a free one.
func (a *Agent) proxyPort(id string) int {
	used := map[int]bool{}
	for _, s := range a.services {
		used[s.Port] = true
	}
	if s := a.services[id]; s != nil {
		return s.Port
	}
	p := firstProxyPort
	for used[p] {
		p++
	}
	return p
}

// store adds or replaces a service that was checked.
func (c *call) store(in *api.AgentServiceRegistration) {
	a := c.a
	s := &api.AgentService{Kind: in.Kind, ID: in.ID, Service: in.Name, Tags: in.Tags, Meta: in.Meta, Port: in.Port, Address: in.Address,
		TaggedAddresses: taggedAddresses(in), Weights: api.AgentWeights{Passing: 1, Warning: 1}, EnableTagOverride: in.EnableTagOverride,
		Proxy: in.Proxy, Datacenter: datacenter}
	if in.Weights != nil {
		s.Weights = *in.Weights
	}
	if in.Connect != nil && in.Connect.Native {
		s.Connect = &api.AgentServiceConnect{Native: true}
	}
	if s.Tags == nil {
		s.Tags = []string{}
	}
	if s.Meta == nil {
		s.Meta = map[string]string{}
	}
	names := []string{in.Name}
	s.CreateIndex = a.index + 1
	if old := a.services[in.ID]; old != nil {
		names = append(names, old.Service)
		s.CreateIndex = old.CreateIndex
	}
	s.ModifyIndex = a.touchServices(names...)
	a.services[in.ID] = s
	kept := c.storeChecks(s, in)
	if c.URL.Query().Get("replace-existing-checks") == "true" {
		maps.DeleteFunc(a.checks, func(id string, k *check) bool { return k.ServiceID == in.ID && !slices.Contains(kept, id) })
	}
}

// storeChecks adds the checks of a registration, and returns their IDs.
func (c *call) storeChecks(s *api.AgentService, in *api.AgentServiceRegistration) (ids []string) {
	checks := slices.Clone(in.Checks)
	if in.Check != nil {
		checks = append(api.AgentServiceChecks{in.Check}, checks...)
	}
	for i, def := range checks {
		id := def.CheckID
		if id == "" {
			id = "service:" + in.ID
			if len(checks) > 1 {
				id = fmt.Sprintf("%s:%d", id, i+1)
			}
		}
		k, err := c.newCheck(def)
		if err != nil {
			panic("testconsul: bug: a check was not validated: " + err.Error())
		}
		k.CheckID, k.ServiceID, k.ServiceName = id, s.ID, s.Service
		if k.Name == "" {
			k.Name = fmt.Sprintf("Service '%s' check", s.Service)
		}
		c.a.storeCheck(k)
		ids = append(ids, id)
	}
	return ids
}

// taggedAddresses adds the addresses that Consul derives from the one of the service.
func taggedAddresses(in *api.AgentServiceRegistration) map[string]api.ServiceAddress {
	out := maps.Clone(in.TaggedAddresses)
	ip, err := netip.ParseAddr(in.Address)
	if err != nil {
		return out
	}
	if out == nil {
		out = map[string]api.ServiceAddress{}
	}
	version := "_ipv4"
	if ip.Is6() {
		version = "_ipv6"
	}
	for _, side := range []string{"lan", "wan"} {
		if _, ok := out[side+version]; !ok {
			out[side+version] = api.ServiceAddress{Address: in.Address, Port: in.Port}
		}
	}
	return out
}

// deregisterService serves the removal of a service with its checks and sidecar.
func deregisterService(c *call) (any, error) {
	id := c.PathValue("id")
	s := c.a.services[id]
	if s == nil {
		return nil, refuse(http.StatusNotFound, "Unknown service ID %q. Ensure that the service ID is passed, not the service name.", id)
	}
	if err := c.need("write", "service", s.Service); err != nil {
		return nil, err
	}
	for _, gone := range []string{id, id + "-sidecar-proxy"} {
		s := c.a.services[gone]
		if s == nil {
			continue
		}
		delete(c.a.services, gone)
		maps.DeleteFunc(c.a.checks, func(_ string, k *check) bool { return k.ServiceID == gone })
		c.a.touchServices(s.Service)
	}
	return nil, nil
}
