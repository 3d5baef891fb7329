package testconsul

import (
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// minInterval is the shortest interval that Consul accepts without raising it.
const minInterval = time.Second

// defaultTimeout is that of the checks that the agent runs.
const defaultTimeout = 10 * time.Second

// check is a registered check.
type check struct {
	api.AgentCheck
	def                    api.AgentServiceCheck
	interval, timeout, ttl time.Duration
	due                    time.Time // of the next run, or when the TTL ends; zero: never
	successes, failures    int       // consecutive results
	index                  uint64    // of the last change
}

// newCheck returns the check of a definition, or an error if Consul would not accept it.
func (c *call) newCheck(def *api.AgentServiceCheck) (*check, error) {
	k := &check{def: *def, AgentCheck: api.AgentCheck{Node: c.a.cfg.Node, CheckID: def.CheckID, Name: def.Name, Notes: def.Notes,
		Status: api.HealthCritical}}
	if def.Status != "" {
		k.Status = def.Status
	}
	if !validStatus(k.Status) {
		return nil, c.invalid("Bad check status %q", def.Status)
	}
	if strings.HasPrefix(def.CheckID, "_nomad-") && !ownCheck.MatchString(def.CheckID) {
		return nil, c.invalid("check ID %q is not one of an orchestrator", def.CheckID)
	}
	for text, d := range map[*string]*time.Duration{&def.Interval: &k.interval, &def.Timeout: &k.timeout, &def.TTL: &k.ttl} {
		if *text == "" {
			continue
		}
		var err error
		if *d, err = time.ParseDuration(*text); err != nil || *d <= 0 {
			return nil, c.invalid("Invalid check: duration %q", *text)
		}
	}
	if err := c.checkType(k); err != nil {
		return nil, err
	}
	if k.timeout == 0 {
		k.timeout = defaultTimeout
	}
	k.Definition = api.HealthCheckDefinition{HTTP: def.HTTP, Header: def.Header, Method: def.Method, Body: def.Body, TCP: def.TCP,
		GRPC: def.GRPC, GRPCUseTLS: def.GRPCUseTLS, TLSServerName: def.TLSServerName, TLSSkipVerify: def.TLSSkipVerify,
		IntervalDuration: k.interval, TimeoutDuration: k.timeout}
	return k, nil
}

// checkType sets the type of a check, which has exactly one.
func (c *call) checkType(k *check) error {
	def := &k.def
	if len(def.Args) > 0 || def.UDP != "" || def.H2PING != "" || def.DockerContainerID != "" || def.AliasNode != "" ||
		def.DeregisterCriticalServiceAfter != "" {
		return c.invalid("Invalid check: a type or field that the stand-in does not support")
	}
	types := map[string]bool{"http": def.HTTP != "", "tcp": def.TCP != "", "grpc": def.GRPC != "", "ttl": def.TTL != "",
		"alias": def.AliasService != ""}
	n := 0
	for name, has := range types {
		if has {
			k.Type = name
			n++
		}
	}
	switch run := k.run(); {
	case n != 1:
		return c.invalid("Invalid check: it must have exactly one of HTTP, TCP, GRPC, TTL and AliasService, not %d", n)
	case run && k.interval < minInterval:
		return c.invalid("Invalid check: Interval must be at least 1s for type %s", k.Type)
	case !run && k.interval > 0:
		return c.invalid("Invalid check: Interval and type %s", k.Type)
	case def.SuccessBeforePassing < 0 || def.FailuresBeforeCritical < 0 || def.FailuresBeforeWarning < 0:
		return c.invalid("Invalid check: negative threshold")
	}
	return nil
}

// run reports whether the agent runs the check.
func (k *check) run() bool { return k.Type == "http" || k.Type == "tcp" || k.Type == "grpc" }

func validStatus(s string) bool {
	return s == api.HealthPassing || s == api.HealthWarning || s == api.HealthCritical
}

// storeCheck adds or replaces a check. One with the same definition keeps its results. The caller holds mu.
func (a *Agent) storeCheck(k *check) {
	if old := a.checks[k.CheckID]; old != nil && old.ServiceID == k.ServiceID && reflect.DeepEqual(old.def, k.def) {
		return
	}
	switch {
	case k.run():
		k.due = a.now()
	case k.Type == "ttl":
		k.due = a.now().Add(k.ttl)
	}
	a.checks[k.CheckID] = k
	a.touchCheck(k)
}

// touchCheck records a change of a check, and of the services whose alias checks follow it. The caller holds mu.
func (a *Agent) touchCheck(k *check) {
	names := []string{k.ServiceName}
	for _, alias := range a.checks {
		if k.ServiceID != "" && alias.def.AliasService == k.ServiceID {
			names = append(names, alias.ServiceName)
		}
	}
	k.index = a.touchServices(names...)
}

// listed returns a check as it is listed. The caller holds mu.
func (a *Agent) listed(k *check) api.AgentCheck {
	out := k.AgentCheck
	if k.Type == "alias" {
		out.Status, out.Output = a.aliasStatus(k.def.AliasService)
	}
	return out
}

// aliasStatus returns the worst status of the checks of a service.
func (a *Agent) aliasStatus(id string) (status, output string) {
	if a.services[id] == nil {
		return api.HealthCritical, "Service " + id + " could not be found on node"
	}
	var list api.HealthChecks
	for _, k := range a.checks {
		if k.ServiceID == id && k.Type != "alias" {
			list = append(list, &api.HealthCheck{Status: k.Status})
		}
	}
	status = list.AggregatedStatus()
	if status == api.HealthPassing {
		return status, "All checks passing."
	}
	return status, "Aliased check of service " + id + " is " + status + "."
}

func agentChecks(c *call) (any, error) {
	out := map[string]api.AgentCheck{}
	for id, k := range c.a.checks {
		if c.mayRead(k) {
			out[id] = c.a.listed(k)
		}
	}
	return out, nil
}

// mayRead reports whether the caller may read a check.
func (c *call) mayRead(k *check) bool {
	if k.ServiceID == "" {
		return c.who.allow("read", "node", c.a.cfg.Node)
	}
	return c.who.allow("read", "service", k.ServiceName)
}

// mayWrite requires the right to change a check.
func (c *call) mayWrite(k *check) error {
	if k.ServiceID == "" {
		return c.need("write", "node", c.a.cfg.Node)
	}
	return c.need("write", "service", k.ServiceName)
}

// registerCheck serves the registration of a check alone.
func registerCheck(c *call) (any, error) {
	var in api.AgentCheckRegistration
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	def := in.AgentServiceCheck
	def.Name, def.Notes = in.Name, in.Notes
	if in.ID != "" {
		def.CheckID = in.ID
	}
	if def.CheckID == "" {
		def.CheckID = in.Name
	}
	if in.Name == "" {
		return nil, c.invalid("Missing check name")
	}
	k, err := c.newCheck(&def)
	if err != nil {
		return nil, err
	}
	if in.ServiceID != "" {
		s := c.a.services[in.ServiceID]
		if s == nil {
			return nil, refuse(http.StatusInternalServerError, "ServiceID %q does not exist", in.ServiceID)
		}
		k.ServiceID, k.ServiceName = s.ID, s.Service
	}
	if err := c.mayWrite(k); err != nil {
		return nil, err
	}
	c.a.storeCheck(k)
	return nil, nil
}

// find returns the check of the path, which the caller may change.
func (c *call) find() (*check, error) {
	id := c.PathValue("id")
	k := c.a.checks[id]
	if k == nil {
		return nil, refuse(http.StatusNotFound, "Unknown check ID %q. Ensure that the check ID is passed, not the check name.", id)
	}
	return k, c.mayWrite(k)
}

// updateCheck serves a result of a TTL check.
func updateCheck(c *call) (any, error) {
	var in struct{ Status, Output string }
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if !validStatus(in.Status) {
		return nil, c.invalid("Invalid check status: %q", in.Status)
	}
	k, err := c.find()
	if err != nil {
		return nil, err
	}
	if k.Type != "ttl" {
		return nil, c.invalid("CheckID %q does not have associated TTL", k.CheckID)
	}
	k.due = c.a.now().Add(k.ttl)
	c.a.result(k, in.Status, in.Output)
	return nil, nil
}

func deregisterCheck(c *call) (any, error) {
	k, err := c.find()
	if err != nil {
		return nil, err
	}
	delete(c.a.checks, k.CheckID)
	c.a.touchCheck(k)
	return nil, nil
}
