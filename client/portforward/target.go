// Package portforward connects callers of "port-forward" to the ports of an allocation on this
// node. The stream of a caller is the same as for "alloc exec". Pump copies between it and a TCP
// connection:
//
//	stream ──ExecInput──▶ connection to the task
//	       ◀─ExecOutput──
//
// Resolve returns the Target of a port, and Target.Dial connects to it. Dial finds the socket that listens, and
// connects only if it belongs to the allocation:
//
//	the group has a network namespace   every socket in it, on any port
//	the tasks share the node's network  sockets that a process in the control group of a task has open: in a network
//	                                    namespace of the task (docker), else in that of the node. Only ports that the
//	                                    servers allocated can be named.
//
// So nobody reaches a program of the node that listens on a port which a job asked for. Names are never resolved. If
// the owner of a socket cannot be found, it is refused.
//
// The package has no state besides Notes, which limits the events of an allocation.
package portforward

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Place is the network of an allocation on this node.
type Place struct {
	// NetNS is the path of the network namespace, "" if the tasks share the host's.
	NetNS string
	// Tasks are the running tasks, if they share the host's network.
	Tasks []Task
}

// Target is a port of an allocation.
type Target struct {
	netNS string // "" if the tasks share the host's
	label string
	inner uint16 // in a network namespace

	port  uint16 // on the node
	at    netip.Addr
	tasks []Task
}

// Resolve returns the port of an allocation with a label or a number.
func Resolve(alloc *nomad.Allocation, at Place, port string) (Target, error) {
	ports := allocated(alloc)
	number, err := strconv.ParseUint(port, 10, 16)
	isNumber := err == nil && number > 0
	if at.NetNS != "" {
		for _, p := range ports {
			if p.Label == port {
				return Target{netNS: at.NetNS, inner: uint16(inner(p)), port: uint16(inner(p))}, nil
			}
		}
		if isNumber {
			return Target{netNS: at.NetNS, inner: uint16(number), port: uint16(number)}, nil
		}
		return Target{}, unknown(alloc, ports, port, ", or a number from 1 to 65535")
	}
	for _, p := range ports {
		if p.Label != port && !(isNumber && p.Value == int(number)) {
			continue
		}
		ip, err := netip.ParseAddr(p.HostIP)
		if err != nil || p.Value < 1 || p.Value > 65535 {
			return Target{}, apierror.Errorf(http.StatusBadRequest, "port %q of allocation %s has no address on this node", port, alloc.ID)
		}
		return Target{label: p.Label, inner: uint16(inner(p)), port: uint16(p.Value), at: ip, tasks: at.Tasks}, nil
	}
	return Target{}, unknown(alloc, ports, port, " or their numbers, since its tasks share the network of the node")
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
	return apierror.Errorf(http.StatusBadRequest, "unknown port %q of allocation %s: %s", port, alloc.ID, have)
}
