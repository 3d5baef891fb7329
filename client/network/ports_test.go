package network_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/network"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// A port is mapped only if nothing of the node receives on it, at an address that the mapping contains.
func TestPortOfNode(t *testing.T) {
	testpace.Slow(t, "makes many networks with CNI plugins")
	n := newNode(t)
	n.cfg.Limits.Port = 100 * time.Millisecond
	path := n.space(allocID)
	for _, c := range []struct {
		network, address string // of the listener
		hostIP           string // of the mapping, "" for all
		mapped           bool
	}{
		{"tcp4", "0.0.0.0:20080", "", false},
		{"tcp4", "127.0.0.1:20080", "", false},
		{"tcp6", "[::1]:20080", "", false},
		{"tcp", "[::]:20080", "", false},
		{"udp4", "0.0.0.0:20080", "", false},
		{"udp6", "[::1]:20080", "", false},
		{"udp4", "127.0.0.1:20080", "", false},
		{"tcp4", "0.0.0.0:20080", "127.0.0.1", false},
		{"tcp4", "127.0.0.1:20080", "127.0.0.1", false},
		{"tcp", "[::]:20080", "127.0.0.1", false},
		{"udp", "[::]:20080", "127.0.0.1", false},
		{"tcp4", "127.0.0.2:20080", "127.0.0.1", true},
		{"tcp6", "[::1]:20080", "127.0.0.1", true},
		{"tcp4", "127.0.0.1:20081", "", true},
	} {
		t.Run(c.network+" "+c.address+" "+c.hostIP, func(t *testing.T) {
			n.cfg.AllAddresses = c.hostIP == ""
			n.restart()
			closer := occupy(t, c.network, c.address)
			r := request(allocID, path)
			r.Alloc.AllocatedResources.Shared.Ports[0].HostIP = c.hostIP
			_, err := n.set.Connect(t.Context(), r)
			if c.mapped != (err == nil) {
				t.Fatalf("Connect() = %v, want mapped: %v", err, c.mapped)
			}
			process := fmt.Sprintf("(process %d)", os.Getpid())
			if err != nil && (!errors.Is(err, network.ErrPortInUse) || !strings.Contains(err.Error(), "20080") ||
				!strings.Contains(err.Error(), process) || !strings.Contains(err.Error(), "use another port")) {
				t.Errorf("Connect() = %v, want the port, %s and the remedy", err, process)
			}
			closer()
			if err != nil {
				if _, err := n.set.Connect(t.Context(), r); err != nil {
					t.Errorf("Connect() once the port is free = %v", err)
				}
			}
			if err := n.set.Disconnect(t.Context(), allocID); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// occupy receives on an address until the returned function is called.
func occupy(t *testing.T, network, address string) func() {
	t.Helper()
	var c interface{ Close() error }
	var err error
	if strings.HasPrefix(network, "tcp") {
		c, err = net.Listen(network, address)
	} else {
		c, err = net.ListenPacket(network, address)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return func() { c.Close() }
}

// The agent's own ports are never mapped, also if the agent does not listen at the moment, or if its ports have
// changed while an allocation had one.
func TestPortOfAgent(t *testing.T) {
	n := newNode(t)
	n.cfg.AgentPorts = []int{4646}
	n.restart()
	r := request(allocID, n.space(allocID))
	n.connect(r)
	for range 2 {
		n.cfg.AgentPorts = []int{20080, 4646}
		n.restart()
		_, err := n.set.Connect(t.Context(), r)
		if !errors.Is(err, network.ErrPortInUse) || !strings.Contains(err.Error(), "port of the agent") {
			t.Errorf("Connect() = %v", err)
		}
	}
	if err := n.spaces.Remove(allocID); err != nil {
		t.Fatal(err)
	}
	n.wantClean(allocID, "172.26.64.2")
}

// Of two allocations with the same port, the second one gets it after the network of the first one is removed, also
// one of an earlier agent.
func TestPortOfAllocation(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %v", restarted), func(t *testing.T) {
			n := newNode(t)
			n.cfg.Limits.Port = 100 * time.Millisecond
			n.restart()
			n.connect(request(allocID, n.space(allocID)))
			if restarted {
				n.restart()
			}
			second := request(otherID, n.space(otherID))
			if _, err := n.set.Connect(t.Context(), second); !errors.Is(err, network.ErrPortInUse) || !strings.Contains(err.Error(), allocID) {
				t.Errorf("Connect() = %v, want ErrPortInUse with the allocation", err)
			}
			n.cfg.Limits.Port = time.Minute
			n.restart()
			ended := make(chan error, 1)
			go func() { _, err := n.set.Connect(t.Context(), second); ended <- err }()
			if err := n.set.Disconnect(t.Context(), allocID); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Errorf("Connect() = %v", err)
			}
		})
	}
}

// Exactly one of several allocations that ask at once gets a port.
func TestPortRace(t *testing.T) {
	n := newNode(t)
	n.cfg.Limits.Port = 100 * time.Millisecond
	n.restart()
	const count = 4
	ended := make(chan error, count)
	for i := range count {
		id := fmt.Sprintf("%s-%02d", allocID[:30], i)
		r := request(id, n.space(id))
		go func() { _, err := n.set.Connect(t.Context(), r); ended <- err }()
	}
	got := 0
	for range count {
		switch err := <-ended; {
		case err == nil:
			got++
		case !errors.Is(err, network.ErrPortInUse):
			t.Error(err)
		}
	}
	if got != 1 {
		t.Errorf("%d allocations got the port, want 1", got)
	}
}
