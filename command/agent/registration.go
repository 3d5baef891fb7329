package agent

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/command/agent/advertise"
	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/discover"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/nomad/monitor"
	"github.com/open-nomad/open-nomad/nomad/server"
)

const (
	// ownServices is the owner of the agent's own services among those of the reconciler.
	ownServices = "agent"
	// deregisterWithin limits how long the exit of the agent waits for Consul.
	deregisterWithin = 2 * time.Second
)

// consulParts are what the agent has of Consul. Without a consul block it is empty.
type consulParts struct {
	agents   []*consul.Agent       // of all clusters
	services *reconcile.Reconciler // of the default cluster, nil without one
	refused  atomic.Bool           // the agent's own services are
}

// agent returns the agent of a cluster, nil without one.
func (p *consulParts) agent(cluster string) *consul.Agent {
	at := slices.IndexFunc(p.agents, func(a *consul.Agent) bool { return a.Name() == cluster })
	if at < 0 {
		return nil
	}
	return p.agents[at]
}

// openConsul makes the connections to Consul. It makes no request.
func (a *Agent) openConsul() error {
	settings, err := a.set.ConsulSettings()
	if err != nil {
		return err
	}
	if len(settings) > 1 {
		a.log.Warn("multiple Consul configurations: jobs can use the cluster default only, the others are detected")
	}
	for _, s := range settings {
		agent, err := consul.New(s)
		if err != nil {
			return fmt.Errorf("consul %q: %w", s.Name, err)
		}
		a.consul.agents = append(a.consul.agents, agent)
	}
	if own := a.consul.agent(consul.DefaultCluster); own != nil {
		a.consul.services = reconcile.New(reconcile.Config{Agent: own, Reap: a.set.Client.Enabled, Owns: a.leaves,
			Failed: a.notRegistered, Log: a.log.With(monitor.ModuleKey, "consul")})
	}
	return nil
}

// clientConsul adds the connections to what the client has of Consul.
func (a *Agent) clientConsul(c *client.Consul) {
	if a.set.DetectsConsul() {
		c.Agents, c.Services = a.consul.agents, a.consul.services
	}
	if b := a.set.DefaultConsul(); b != nil && b.ClientAutoJoin {
		c.FindServers = a.finder(b, advertise.TagRPC).First
	}
}

// serverConsul adds the discovery of other servers to the configuration of the server.
func (a *Agent) serverConsul(c *server.Config) {
	b := a.set.DefaultConsul()
	if b == nil {
		return
	}
	c.Consul.Agent = a.consul.agent(b.Name)
	if b.ServerAutoJoin {
		c.Discover = a.finder(b, advertise.TagSerf).All
	}
}

// finder finds servers by a tag.
func (a *Agent) finder(b *config.Consul, tag string) discover.Finder {
	return discover.Finder{Agent: a.consul.agent(b.Name), Service: b.ServerServiceName, Tag: tag}
}

// leaves reports whether services of an allocation that are not wanted are leftovers of this node.
func (a *Agent) leaves(alloc string) bool { return a.client != nil && a.client.LeavesServices(alloc) }

// notRegistered reports that Consul refuses services, or accepts them again: the agent's own in the log, others as an event
// of their tasks.
func (a *Agent) notRegistered(owner string, list []reconcile.State) {
	if owner != ownServices {
		if a.client != nil {
			a.client.ConsulServices(owner, list)
		}
		return
	}
	s := list[0]
	if s.Err == nil {
		if a.consul.refused.CompareAndSwap(true, false) {
			a.log.Info("the agent's own services can be registered in Consul again")
		}
		return
	}
	if a.consul.refused.CompareAndSwap(false, true) { // one line for all of them
		a.log.Error("the agent's own services cannot be registered in Consul: with status 403, give the token of the consul block "+
			"service:write for them", "service", s.Name, "err", s.Err)
	}
}

// runConsul keeps the services of this agent registered until ctx ends. Those of workloads then stay. The agent's own are
// deregistered.
func (a *Agent) runConsul(ctx context.Context) error {
	err := a.consul.services.Run(ctx)
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), deregisterWithin)
	defer cancel()
	if err := a.consul.services.Leave(leaving, ownServices); err != nil {
		a.log.Warn("deregister the agent's own services in Consul", "err", consul.Redact(err))
	}
	return err
}

// reloadConsul applies the consul blocks of new settings. Other clusters need a restart.
func (a *Agent) reloadConsul(set *config.Settings) error {
	settings, err := set.ConsulSettings()
	if err != nil {
		return err
	}
	for _, s := range settings {
		if agent := a.consul.agent(s.Name); agent != nil {
			before := agent.Settings().HTTP.Address
			if err := agent.Replace(s); err != nil {
				return fmt.Errorf("consul %q: %w", s.Name, err)
			}
			if now := agent.Settings().HTTP.Address; now != before {
				a.log.Warn("the address of Consul has changed: services stay registered in the Consul at the previous address if it is "+
					"another one, deregister them there", "cluster", s.Name, "before", before, "now", now)
			}
		}
	}
	if a.consul.services != nil {
		a.consul.services.Refresh()
	}
	a.advertise(set)
	return nil
}

// advertise sets the agent's own services. Consul gets them when it is reachable.
func (a *Agent) advertise(set *config.Settings) {
	if a.consul.services == nil || set.DefaultConsul() == nil {
		return
	}
	c := advertise.Config{Block: set.DefaultConsul(), Server: a.server != nil, Client: a.client != nil,
		HTTP:  advertise.Address{Bind: a.http[0].Addr().String(), Advertise: a.addr},
		HTTPS: set.TLS.HTTP, ClientCerts: set.TLS.VerifyHTTPSClient, Log: a.log}
	if a.server != nil {
		rpc, serf := a.server.Listeners()
		c.RPC = advertise.Address{Bind: rpc, Advertise: a.server.RPCAddr()}
		if m := a.server.Self(); serf != "" {
			c.Serf = advertise.Address{Bind: serf, Advertise: net.JoinHostPort(m.Addr.String(), strconv.Itoa(int(m.Port)))}
		}
	}
	list, err := advertise.Services(c)
	if err != nil {
		a.log.Error("the agent's own services are not registered in Consul", "err", err)
		return
	}
	a.consul.services.Set(ownServices, list)
}
