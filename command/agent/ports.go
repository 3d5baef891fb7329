package agent

import (
	"net"
	"slices"
)

// ownPorts returns the ports of this agent, sorted: those in its configuration, also of parts that another agent of this
// machine may run, and those on which it listens.
func (a *Agent) ownPorts() []int {
	p := a.set.Ports
	list := []int{p.HTTP, p.RPC, p.Serf, a.consulPort()}
	for _, ln := range a.http {
		if at, ok := ln.Addr().(*net.TCPAddr); ok {
			list = append(list, at.Port)
		}
	}
	if a.server != nil {
		list = append(list, a.server.Ports()...)
	}
	list = slices.DeleteFunc(list, func(port int) bool { return port <= 0 })
	slices.Sort(list)
	return slices.Compact(list)
}
