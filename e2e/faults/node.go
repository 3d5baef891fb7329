//go:build linux

package faults

import (
	"context"
	"fmt"
	"strings"
	"syscall"
)

// Node is a client agent with the driver mock_driver. Its tasks start no processes.
type Node struct {
	process
	ID string // of the node, once it is ready
}

// start starts the client and waits until its node is ready. The client has a mount namespace of its own, so that no
// mount remains after its end.
func (n *Node) start(ctx context.Context) error {
	var servers []string
	for _, s := range n.cluster.Servers {
		servers = append(servers, fmt.Sprintf("%q", s.Addr))
	}
	cfg, err := n.write(fmt.Sprintf("name = %q\ndata_dir = %q\nbind_addr = %q\nclient {\n  enabled = true\n"+
		"  network_interface = \"eth0\"\n  servers = [%s]\n}\nplugin \"mock_driver\" {\n  config {}\n}\n",
		n.Name, n.Dir+"/data", n.host.Addr, strings.Join(servers, ", ")))
	if err != nil {
		return err
	}
	if err := n.run(ctx, cfg, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}); err != nil {
		return err
	}
	return within(ctx, readyWithin, "node "+n.Name+" is ready", func(ctx context.Context) error {
		nodes, _, err := n.cluster.Servers[0].Client.Nodes().List(query(ctx))
		if err != nil {
			return err
		}
		for _, stub := range nodes {
			if stub.Name == n.Name && stub.Status == "ready" && stub.Drivers["mock_driver"] != nil {
				n.ID = stub.ID
				return nil
			}
		}
		return fmt.Errorf("it is not among %d nodes", len(nodes))
	})
}
