// Package portforward connects callers of "port-forward" to the ports of an allocation on this
// node. The stream of a caller is the same as for "alloc exec". Pump copies between it and a TCP
// connection:
//
//	stream ──ExecInput──▶ connection to the task
//	       ◀─ExecOutput──
//
// Resolve returns the Target of a port, and Target.Dial connects to it. A target is always an
// address of the allocation. With a network namespace it is the loopback address or the interface
// of that namespace, with any port. Without one it is a host port that the servers allocated, at
// the address of that port. Names are never resolved.
//
// The package has no state besides Notes, which limits the events of an allocation.
package portforward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/nomad"
)

// dialTimeout limits the time of one attempt to connect.
const dialTimeout = 10 * time.Second

// Place is the network of an allocation on this node.
type Place struct {
	// NetNS is the path of the network namespace, "" if the tasks share the host's.
	NetNS string
	// Status is the network that was set up, or nil.
	Status *nomad.AllocNetworkStatus
}

// Target is a port of an allocation.
type Target struct {
	netNS string
	// addresses are tried in this order.
	addresses []netip.AddrPort
}

// Resolve returns the port of an allocation with a label or a number.
func Resolve(alloc *nomad.Allocation, at Place, port string) (Target, error) {
	ports := allocated(alloc)
	number, err := strconv.ParseUint(port, 10, 16)
	isNumber := err == nil && number > 0
	if at.NetNS != "" {
		for _, p := range ports {
			if p.Label == port {
				return inside(at, uint16(inner(p))), nil
			}
		}
		if isNumber {
			return inside(at, uint16(number)), nil
		}
		return Target{}, unknown(alloc, ports, port, ", or a number from 1 to 65535")
	}
	for _, p := range ports {
		if p.Label != port && !(isNumber && p.Value == int(number)) {
			continue
		}
		ip, err := netip.ParseAddr(p.HostIP)
		if err != nil || p.Value < 1 || p.Value > 65535 {
			return Target{}, nomad.Errorf(http.StatusBadRequest, "port %q of allocation %s has no address on this node", port, alloc.ID)
		}
		return Target{addresses: []netip.AddrPort{netip.AddrPortFrom(ip, uint16(p.Value))}}, nil
	}
	return Target{}, unknown(alloc, ports, port, " or their numbers, since its tasks share the network of the node")
}

// inside returns a port in the network namespace: of the loopback address, then of the
// addresses of the interface.
func inside(at Place, port uint16) Target {
	t := Target{netNS: at.NetNS, addresses: []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), netip.AddrPortFrom(netip.IPv6Loopback(), port)}}
	if at.Status != nil {
		for _, text := range []string{at.Status.Address, at.Status.AddressIPv6} {
			if ip, err := netip.ParseAddr(text); err == nil {
				t.addresses = append(t.addresses, netip.AddrPortFrom(ip, port))
			}
		}
	}
	return t
}

// inner returns the port that a task in a network namespace listens on.
func inner(p nomad.AllocatedPortMapping) int {
	if p.To > 0 {
		return p.To
	}
	return p.Value
}

// allocated lists the ports of an allocation: of its group, and of the networks of its tasks.
func allocated(alloc *nomad.Allocation) []nomad.AllocatedPortMapping {
	if alloc.AllocatedResources == nil {
		return nil
	}
	out := append([]nomad.AllocatedPortMapping{}, alloc.AllocatedResources.Shared.Ports...)
	for _, t := range alloc.AllocatedResources.Tasks {
		if t == nil {
			continue
		}
		for _, n := range t.Networks {
			for _, list := range [][]nomad.Port{n.ReservedPorts, n.DynamicPorts} {
				for _, p := range list {
					out = append(out, nomad.AllocatedPortMapping{Label: p.Label, Value: p.Value, To: p.To, HostIP: n.IP})
				}
			}
		}
	}
	return out
}

// unknown returns the error for a port that the allocation does not have.
func unknown(alloc *nomad.Allocation, ports []nomad.AllocatedPortMapping, port, more string) error {
	var labels []string
	for _, p := range ports {
		labels = append(labels, p.Label)
	}
	have := "it has no ports"
	if len(labels) > 0 {
		have = "use " + strings.Join(labels, ", ") + more
	} else if strings.HasPrefix(more, ",") {
		have += ": use" + strings.TrimPrefix(more, ", or")
	}
	return nomad.Errorf(http.StatusBadRequest, "unknown port %q of allocation %s: %s", port, alloc.ID, have)
}

// Dial connects to the port.
func (t Target) Dial(ctx context.Context) (*net.TCPConn, error) {
	var errs []error
	for _, address := range t.addresses {
		conn, err := t.dial(ctx, address)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.ENETUNREACH) {
			break
		}
	}
	return nil, nomad.Errorf(http.StatusBadGateway, "connect to the task: %v", errs[0])
}

func (t Target) dial(ctx context.Context, address netip.AddrPort) (conn *net.TCPConn, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	dial := func() error {
		// A literal address is dialed on the calling thread, so in its namespace.
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address.String())
		if err != nil {
			return err
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			c.Close()
			return fmt.Errorf("dial %s: not a TCP connection", address)
		}
		conn = tcp
		return nil
	}
	if t.netNS == "" {
		return conn, dial()
	}
	err = netns.Inside(t.netNS, dial)
	return conn, err
}
