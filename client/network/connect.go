package network

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/open-nomad/open-nomad/client/cni"
	"github.com/open-nomad/open-nomad/client/netfilter"
	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/egress"
)

// Values of CNI operations, as in Nomad 2.0.
const (
	interfaceName = "eth0"
	ignoreUnknown = "IgnoreUnknown" // without it, plugins fail because of arguments that they do not have
	attempts      = 3
	attemptPause  = time.Second // at least; at most twice as long
)

// connect adds the network. On failure it removes what it added.
func (o *operation) connect(ctx context.Context, r *Request) (*nomad.AllocNetworkStatus, error) {
	rec, list, err := o.prepare(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := o.claim(ctx, rec); err != nil {
		return nil, err
	}
	if err := rec.store(o.dir); err != nil {
		o.release(rec.Alloc)
		return nil, err
	}
	result, err := o.add(ctx, rec, list)
	if err == nil {
		err = rec.read(result, o.cfg.Bridge.Name)
	}
	if err == nil {
		err = o.isolate(rec)
	}
	if err == nil {
		if rec.Status.DNS == nil {
			rec.Status.DNS = r.Network.DNS
		}
		err = rec.store(o.dir)
	}
	if err != nil {
		rec.Status = nil // incomplete: remove thoroughly
		return nil, errors.Join(err, o.disconnect(context.WithoutCancel(ctx), rec))
	}
	return rec.Status, nil
}

// prepare returns the record of a network that can be added, and its plugins.
func (o *operation) prepare(ctx context.Context, r *Request) (*record, *libcni.NetworkConfigList, error) {
	rec, err := o.newRecord(r)
	if err != nil {
		return nil, nil, err
	}
	list, err := libcni.NetworkConfFromBytes(rec.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("CNI configuration of network mode %q: %w", r.Network.Mode, err)
	}
	if err := o.findPlugins(list); err != nil {
		return nil, nil, err
	}
	if rec.Bridge != "" {
		err = o.allowForward(ctx)
	}
	return rec, list, err
}

// findPlugins returns an error for the first plugin that is not installed, before any of them runs.
func (s *Set) findPlugins(list *libcni.NetworkConfigList) error {
	for _, p := range list.Plugins {
		for _, name := range []string{p.Network.Type, p.Network.IPAM.Type} {
			if name == "" {
				continue
			}
			if _, err := (&cni.Exec{}).FindInPath(name, s.cfg.Plugins); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Set) newRecord(r *Request) (*record, error) {
	rec := &record{Alloc: r.Alloc.ID, Path: r.Path, Args: arguments(r), Ports: s.portMappings(r.Alloc)}
	if err := checkArgs(r.Network); err != nil {
		return nil, err
	}
	if r.Network.Mode == nomad.NetworkModeBridge {
		rec.Bridge = s.cfg.Bridge.Name
		rec.Config = s.cfg.Bridge.conflist()
		rec.Limited = r.Network.Egress != nil
		rec.Isolated = s.cfg.Bridge.Isolate || r.Network.Isolate || rec.Limited
		if err := checkTasks(r.Alloc, rec.Isolated); err != nil {
			return nil, err
		}
		if rec.Limited {
			rec.Egress = r.Network.Egress.Allow
		}
		return rec, nil
	}
	name, ok := strings.CutPrefix(r.Network.Mode, nomad.NetworkModeCNI)
	if !ok {
		return nil, fmt.Errorf("network mode %q has no plugins", r.Network.Mode)
	}
	n, err := cni.Find(s.cfg.ConfigDir, name)
	if err != nil {
		return nil, err
	}
	rec.Config = n.List.Bytes
	return rec, nil
}

// portMappings returns the maps of the allocation's ports, for TCP and UDP.
func (s *Set) portMappings(a *nomad.Allocation) []portMapping {
	if a.AllocatedResources == nil {
		return nil
	}
	var out []portMapping
	for _, p := range a.AllocatedResources.Shared.Ports {
		m := portMapping{HostPort: p.Value, ContainerPort: p.To}
		if p.To <= 0 {
			m.ContainerPort = p.Value
		}
		if !s.cfg.AllAddresses {
			m.HostIP = p.HostIP
		}
		for _, m.Protocol = range []string{"tcp", "udp"} {
			out = append(out, m)
		}
	}
	return out
}

// runtime returns the arguments of an operation.
func (r *record) runtime() *libcni.RuntimeConf {
	rt := &libcni.RuntimeConf{ContainerID: r.Alloc, NetNS: r.Path, IfName: interfaceName, Args: r.Args}
	if len(r.Ports) > 0 {
		rt.CapabilityArgs = map[string]any{"portMappings": r.Ports}
	}
	return rt
}

// add runs the plugins, again after a failure unless they hang. The first error is reported.
func (o *operation) add(ctx context.Context, rec *record, list *libcni.NetworkConfigList) (out *types100.Result, err error) {
	var first error
	for i := range attempts {
		if i > 0 {
			if err := o.delete(ctx, rec); err != nil { // what the failed attempt added
				return nil, errors.Join(first, err)
			}
			select {
			case <-time.After(attemptPause + rand.N(attemptPause)):
			case <-ctx.Done():
				return nil, first
			}
		}
		err := o.plugins(ctx, list.Name, o.cfg.Limits.Add, func(ctx context.Context) error {
			result, err := o.library().AddNetworkList(ctx, list, rec.runtime())
			if err == nil {
				out, err = types100.NewResultFromResult(result)
			}
			return err
		})
		if err == nil {
			return out, nil
		}
		if first == nil {
			first = fmt.Errorf("failed to configure network: %w", err)
		}
		o.cfg.Log.Warn("configure a network", "alloc", rec.Alloc, "attempt", i+1, "err", err)
		if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return nil, first
}

// read sets the status and the interfaces from the result of the plugins.
func (r *record) read(result *types100.Result, bridge string) error {
	type found struct {
		*types100.Interface
		ips []*types100.IPConfig
	}
	var all []found
	for i, ifc := range result.Interfaces {
		f := found{Interface: ifc}
		for _, ip := range result.IPs {
			if ip.Interface != nil && *ip.Interface == i {
				f.ips = append(f.ips, ip)
			}
		}
		all = append(all, f)
		if ifc.Sandbox == "" && ifc.Name != bridge {
			r.Port = ifc.Name
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return strings.Compare(a.Name, b.Name) })
	i := slices.IndexFunc(all, func(f found) bool { return f.Sandbox != "" && len(f.ips) > 0 })
	if i < 0 {
		i = slices.IndexFunc(all, func(f found) bool { return len(f.ips) > 0 })
	}
	if i < 0 {
		return errors.New("failed to configure network: no interface with an address")
	}
	r.MAC = all[i].Mac
	r.Status = &nomad.AllocNetworkStatus{InterfaceName: all[i].Name}
	for _, ip := range all[i].ips {
		switch is4 := ip.Address.IP.To4() != nil; {
		case is4 && r.Status.Address == "":
			r.Status.Address = ip.Address.IP.String()
		case !is4 && r.Status.AddressIPv6 == "":
			r.Status.AddressIPv6 = ip.Address.IP.String()
		}
	}
	if r.Status.Address == "" {
		r.Status.Address = r.Status.AddressIPv6
	}
	if len(result.DNS.Nameservers) > 0 {
		r.Status.DNS = &nomad.DNSConfig{Servers: result.DNS.Nameservers, Searches: result.DNS.Search, Options: result.DNS.Options}
	}
	return nil
}

// isolate writes the rules of an isolated allocation, also if they exist.
func (s *Set) isolate(r *record) error {
	if !r.Isolated {
		return nil
	}
	a := &netfilter.Allocation{ID: r.Alloc, Port: r.Port, Limited: r.Limited}
	var err error
	if a.MAC, err = net.ParseMAC(r.MAC); err != nil {
		return fmt.Errorf("isolate allocation %s: %w", r.Alloc, err)
	}
	for _, text := range []string{r.Status.Address, r.Status.AddressIPv6} {
		if ip, err := netip.ParseAddr(text); err == nil && !slices.Contains(a.Addresses, ip) {
			a.Addresses = append(a.Addresses, ip)
		}
	}
	for _, text := range r.Egress {
		d, err := egress.Parse(text)
		if err != nil {
			return fmt.Errorf("egress of allocation %s: %w", r.Alloc, err)
		}
		a.Egress = append(a.Egress, d)
	}
	return s.guard.protect(r.Bridge, a)
}

// verify returns an error unless the network of an earlier agent works in the namespace at path.
func (o *operation) verify(ctx context.Context, r *record, path string) error {
	if path != r.Path {
		return errors.New("the namespace is another one")
	}
	addrs, err := netns.Addresses(path, r.Status.InterfaceName)
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(r.Status.Address)
	if err != nil || !slices.Contains(addrs, ip) {
		return fmt.Errorf("the namespace lacks the address %s", r.Status.Address)
	}
	if !o.cfg.Check {
		return nil
	}
	list, err := libcni.NetworkConfFromBytes(r.Config)
	if err != nil {
		return err
	}
	err = o.plugins(ctx, list.Name, o.cfg.Limits.Check, func(ctx context.Context) error {
		return o.library().CheckNetworkList(ctx, list, r.runtime())
	})
	if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil { // says nothing about the network, which tasks use
		o.cfg.Log.Warn("keep a network that its plugins did not check in time", "alloc", r.Alloc, "err", err)
		return nil
	}
	return err
}
