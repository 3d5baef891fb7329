package client

import (
	"context"
	"maps"
	"reflect"
	"time"

	"github.com/open-nomad/open-nomad/client/fingerprint/cloud"
	"github.com/open-nomad/open-nomad/client/fingerprint/consul"
	"github.com/open-nomad/open-nomad/client/fingerprint/vault"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Reload fingerprints again what can change while the agent runs: networks, memory, CNI networks and plugins, host
// volume plugins, plugins of secret blocks, Consul and Vault. It does not wait for them.
func (c *Client) Reload() {
	c.reloads.Send()
	c.secretReloads.Send()
	c.consul.Again()
	c.vault.Again()
}

// reload fingerprints again on each request until ctx ends.
func (c *Client) reload(ctx context.Context) error {
	select {
	case <-c.volumesRestored:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.reloads:
			c.fingerprintAgain(ctx)
			c.fingerprintVolumePlugins(ctx)
		}
	}
}

// fingerprintAgain replaces the facts about the machine and registers the node if they changed.
func (c *Client) fingerprintAgain(ctx context.Context) {
	before := c.facts
	c.facts = c.host.Refresh(ctx, c.log)
	if reflect.DeepEqual(before, c.facts) {
		return
	}
	c.node.update(func(n *nomad.Node) {
		maps.DeleteFunc(n.Attributes, func(name, _ string) bool {
			_, had := before.Attributes[name]
			_, has := c.facts.Attributes[name]
			return had && !has
		})
		c.facts.Apply(c.cfg.Fingerprint, n)
	})
	c.node.changed.Send()
}

// awaitClouds waits until the first attempt with every cloud provider is over, for cloud.ProbeLimit at most. Facts
// that arrive later register the node again.
func (c *Client) awaitClouds(ctx context.Context) {
	timer := time.NewTimer(cloud.ProbeLimit)
	defer timer.Stop()
	select {
	case <-c.clouds.Tried():
	case <-timer.C:
	case <-ctx.Done():
	}
}

// addCloud adds the facts of a cloud provider to the node.
func (c *Client) addCloud(facts cloud.Facts) { c.addFacts(facts.Attributes, facts.Links) }

// changeConsul replaces the facts of an agent of Consul.
func (c *Client) changeConsul(change consul.Change) {
	c.replaceFacts(change.Before, change.After)
}

// changeVault replaces the attributes of a cluster of Vault.
func (c *Client) changeVault(change vault.Change) {
	c.replaceFacts(consul.Facts{Attributes: change.Before}, consul.Facts{Attributes: change.After})
}

// replaceFacts replaces attributes and links of the node, and registers it again.
func (c *Client) replaceFacts(before, after consul.Facts) {
	c.node.update(func(n *nomad.Node) {
		n.Links = maps.Clone(n.Links)
		for name := range before.Attributes {
			delete(n.Attributes, name)
		}
		for name := range before.Links {
			delete(n.Links, name)
		}
		maps.Copy(n.Attributes, after.Attributes)
		maps.Copy(n.Links, after.Links)
	})
	c.node.changed.Send()
}

// addFacts adds attributes and links to the node, and registers it again.
func (c *Client) addFacts(attributes, links map[string]string) {
	c.replaceFacts(consul.Facts{}, consul.Facts{Attributes: attributes, Links: links})
}

// watchDrivers reports changes of the drivers to the servers.
func (c *Client) watchDrivers(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.drivers.Changed():
		}
		infos := c.drivers.Infos()
		changed, turned := c.node.setDrivers(infos)
		if changed {
			c.node.changed.Send()
		}
		if len(turned) > 0 {
			c.emit(ctx, turned, infos)
		}
	}
}

// watchDevices reports changes of the devices to the servers.
func (c *Client) watchDevices(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.devices.Changed():
		}
		if c.node.setDevices(c.devices.Groups()) {
			c.node.changed.Send()
		}
	}
}

// emit records health changes of drivers as node events. It does nothing while the agent is not
// attached.
func (c *Client) emit(ctx context.Context, turned []string, infos map[string]*nomad.DriverInfo) {
	if !c.attached.Load() {
		return
	}
	var events []*nomad.NodeEvent
	for _, name := range turned {
		info := infos[name]
		message := info.HealthDescription
		if info.Healthy {
			message = "Healthy"
		}
		events = append(events, &nomad.NodeEvent{
			Message: message, Subsystem: nomad.NodeEventSubsystemDriver,
			Details: map[string]string{"driver": name}, Timestamp: time.Now(),
		})
	}
	req := message.EmitNodeEventsRequest{
		NodeEvents: map[string][]*nomad.NodeEvent{c.id.ID: events},
	}
	if err := c.calls.Call(ctx, "Node.EmitEvents", &req, &message.EmitNodeEventsResponse{}); err != nil {
		c.log.Warn("report driver health", "err", err)
	}
}
