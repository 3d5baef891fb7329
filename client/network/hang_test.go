package network_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// hang wraps the plugins in scripts. The named one does not end at a command for an allocation: it creates the file
// "hangs" below the directory of the node first.
func (n *node) hang(plugin, command, alloc string) {
	n.t.Helper()
	n.wrap("", "")
	script := fmt.Sprintf(`#!/bin/sh
if [ "$CNI_COMMAND" = %s ] && [ "$CNI_CONTAINERID" = %s ]; then echo $$ > %[3]s/hangs.new; mv %[3]s/hangs.new %[3]s/hangs; sleep 1000; fi
exec %[4]s/%[5]s
`, command, alloc, n.dir, n.plugins, plugin)
	if err := os.WriteFile(filepath.Join(n.dir, "plugins", plugin), []byte(script), 0o700); err != nil {
		n.t.Fatal(err)
	}
	n.cfg.Plugins = []string{filepath.Join(n.dir, "plugins")}
	n.restart()
}

func (n *node) awaitHang() {
	n.t.Helper()
	testpace.Within(n.t, 20*time.Second, "the plugin hangs", func() bool {
		_, err := os.Stat(filepath.Join(n.dir, "hangs"))
		return err == nil
	})
}

// other connects and disconnects another allocation, which must not wait for the plugin that hangs.
func (n *node) other() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer cancel()
	r := request(otherID, n.space(otherID))
	r.Alloc.AllocatedResources.Shared.Ports[0].Value = 20081
	if _, err := n.set.Connect(ctx, r); err != nil {
		n.t.Errorf("Connect() of another allocation = %v", err)
	}
	if err := n.set.Disconnect(ctx, otherID); err != nil {
		n.t.Errorf("Disconnect() of another allocation = %v", err)
	}
	if err := n.spaces.Remove(otherID); err != nil {
		n.t.Error(err)
	}
}

// A plugin that hangs while it adds a network delays no other allocation. The stop of its own ends it, and leaves
// nothing, also if the removal hangs.
func TestAddHangs(t *testing.T) {
	for _, plugin := range []string{"bridge", "firewall"} {
		t.Run(plugin, func(t *testing.T) {
			n := newNode(t)
			n.hang(plugin, "ADD", allocID)
			stopped, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			r := request(allocID, n.space(allocID))
			go func() { _, err := n.set.Connect(stopped, r); ended <- err }()
			n.awaitHang()
			n.other()
			select {
			case err := <-ended:
				t.Fatalf("Connect() ended early: %v", err)
			default:
			}
			stop()
			if err := <-ended; err == nil || !strings.Contains(err.Error(), plugin) {
				t.Errorf("Connect() = %v, want an error with %s", err, plugin)
			}
			if err := n.spaces.Remove(allocID); err != nil {
				t.Fatal(err)
			}
			n.wantClean(allocID, "172.26.64.2")
		})
	}
}

// A plugin that hangs while it removes a network delays no other allocation. The client removes the rules and the
// address itself, and then the next allocation gets the port.
func TestDeleteHangs(t *testing.T) {
	n := newNode(t)
	n.cfg.Limits.Delete = 2 * time.Second
	n.hang("firewall", "DEL", allocID)
	r := request(allocID, n.space(allocID))
	r.Network.Isolate = true
	status := n.connect(r)
	ended := make(chan error, 2)
	for range 2 { // a stop and a collection at the same time
		go func() { ended <- n.set.Disconnect(t.Context(), allocID) }()
	}
	n.awaitHang()
	n.other()
	next := request(otherID, n.space(otherID)) // with the same port
	n.connect(next)
	for range 2 {
		if err := <-ended; err != nil {
			t.Errorf("Disconnect() = %v", err)
		}
	}
	if err := n.spaces.Remove(allocID); err != nil {
		t.Fatal(err)
	}
	if rules, err := exec.Command("iptables-save").Output(); err != nil || strings.Contains(string(rules), allocID) {
		t.Errorf("rules of the removed allocation: %s, %v", rules, err)
	}
	if err := n.set.Disconnect(t.Context(), otherID); err != nil {
		t.Fatal(err)
	}
	if err := n.spaces.Remove(otherID); err != nil {
		t.Fatal(err)
	}
	n.wantClean(allocID, status.Address)
}

// An agent is killed while a plugin hangs. The next agent serves other allocations at once, ends the plugin of the
// killed one, and then removes or connects the allocation.
func TestKilledAgentLeavesPlugin(t *testing.T) {
	testpace.Slow(t, "makes many networks with CNI plugins")
	for _, next := range []string{"removes", "connects"} {
		t.Run(next, func(t *testing.T) {
			n := newNode(t)
			n.cfg.Limits.Lock = 2 * time.Second
			n.hang("firewall", "ADD", allocID)
			r := request(allocID, n.space(allocID))
			agent := exec.Command("/proc/self/exe")
			agent.Env = append(os.Environ(), agentVar+"="+n.dir)
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			n.awaitHang()
			if err := agent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = agent.Wait() // killed
			n.other()
			n.unwrap()
			if next == "connects" {
				n.connect(r)
			}
			if err := n.sweep(t.Context()); err != nil {
				t.Error(err)
			}
			if err := n.spaces.Remove(allocID); err != nil {
				t.Error(err)
			}
			n.wantClean(allocID, "172.26.64.2")
			raw, err := os.ReadFile(filepath.Join(n.dir, "hangs"))
			if err != nil {
				t.Fatal(err)
			}
			stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(raw)) + "/stat")
			if err == nil && !strings.Contains(string(stat), ") Z ") {
				t.Errorf("the plugin of the killed agent still runs: %s", stat)
			}
		})
	}
}

// unwrap uses the plugins without scripts.
func (n *node) unwrap() {
	n.t.Helper()
	n.cfg.Plugins = []string{n.plugins}
	n.restart()
}

// Plugins that do not answer a check of the next agent do not cost the tasks their network.
func TestCheckHangs(t *testing.T) {
	n := newNode(t)
	n.cfg.Check, n.cfg.Limits.Check = true, time.Second
	n.hang("firewall", "CHECK", allocID)
	r := request(allocID, n.space(allocID))
	first := n.connect(r)
	n.restart()
	if again := n.connect(r); again.Address != first.Address {
		t.Errorf("status of the next agent = %+v, want %s", again, first.Address)
	}
	n.awaitHang()
}

// Many allocations are connected and disconnected at the same time, with the rules and addresses that they share.
func TestManyAtOnce(t *testing.T) {
	n := newNode(t)
	const count = 24
	ended := make(chan error, count)
	for i := range count {
		id := fmt.Sprintf("%s-%02d", allocID[:30], i)
		r := request(id, n.space(id))
		r.Network.Isolate = i%2 == 0
		r.Alloc.AllocatedResources.Shared.Ports[0].Value = 20100 + i
		go func() {
			_, err := n.set.Connect(t.Context(), r)
			if err == nil {
				err = n.set.Disconnect(t.Context(), id)
			}
			ended <- err
		}()
	}
	for range count {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := n.spaces.Sweep(func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	n.wantClean(allocID[:30], "172.26.64.2")
}
