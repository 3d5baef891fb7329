package docker_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testdocker"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// The addresses at which the tests publish ports.
const nodeIP, otherIP = "127.0.0.1", "127.0.0.2"

// hello is a server in a container that answers with a line.
func hello(port int, line string) string {
	return fmt.Sprintf("while echo %s | nc -l -p %d; do :; done", line, port)
}

// read returns the line that a server at an address sends.
func read(network, addr string) (string, error) {
	c, err := net.DialTimeout(network, addr, time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return "", err
	}
	if network == "udp" {
		if _, err := c.Write([]byte("?")); err != nil {
			return "", err
		}
	}
	return bufio.NewReader(c).ReadString('\n')
}

// serves waits until an address answers with a line.
func serves(t *testing.T, network, addr, line string) {
	t.Helper()
	testpace.Succeeds(t, addr+" answers", func() error {
		got, err := read(network, addr)
		if err == nil && got != line+"\n" {
			err = fmt.Errorf("%s answers %q, want %q", addr, got, line)
		}
		return err
	})
}

// answer answers datagrams to an address in a network namespace, until the test ends.
func answer(t *testing.T, space, addr, line string) {
	t.Helper()
	var conn net.PacketConn
	err := testnet.Inside(space, func() (err error) {
		conn, err = net.ListenPacket("udp", addr)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, from, err := conn.ReadFrom(make([]byte, 1))
			if err != nil {
				return
			}
			_, _ = conn.WriteTo([]byte(line+"\n"), from) // the client sees a failure
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
}

// containerOf returns the ID of a task's container.
func containerOf(t *testing.T, f *fixture, cfg *drivers.TaskConfig) string {
	t.Helper()
	status, err := f.InspectTask(cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	return status.Attributes["container_id"]
}

// The ports of a group that a task lists are published at their addresses of the node, for TCP and UDP,
// and others are not.
func TestPorts(t *testing.T) {
	t.Parallel()
	f := newBridged(t)
	cfg := f.task(shell(strings.Join([]string{hello(80, "web"), hello(20002, "same"), hello(81, "hidden")}, " & "),
		block{"ports": []any{"http", "same"}}))
	cfg.Ports = []drivers.Port{{Label: "http", Value: 20001, To: 80, HostIP: nodeIP}, {Label: "same", Value: 20002, HostIP: otherIP},
		{Label: "hidden", Value: 20003, To: 81, HostIP: nodeIP}}
	h := f.start(cfg)
	serves(t, "tcp", nodeIP+":20001", "web")
	answer(t, f.inspect(containerOf(t, f, cfg)).NetworkSettings.SandboxKey, ":80", "datagram")
	serves(t, "udp", nodeIP+":20001", "datagram")
	serves(t, "tcp", otherIP+":20002", "same")
	for _, addr := range []string{otherIP + ":20001", nodeIP + ":20002", nodeIP + ":20003"} {
		if got, err := read("tcp", addr); err == nil {
			t.Errorf("%s answers %q", addr, got)
		}
	}
	if h.Network == nil || h.Network.AutoAdvertise || len(h.Network.PortMap) > 0 || !strings.HasPrefix(h.Network.IP, "198.18.") {
		t.Fatalf("network = %+v", h.Network)
	}
	serves(t, "tcp", h.Network.IP+":80", "web")

	f.Abandon()
	if err := f.RecoverTask(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	serves(t, "tcp", nodeIP+":20001", "web")
	status, err := f.InspectTask(cfg.ID)
	if err != nil || status.Network == nil || status.Network.IP != h.Network.IP {
		t.Errorf("InspectTask() after recovery = %+v, %v", status, err)
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{nodeIP + ":20001", otherIP + ":20002"} {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Errorf("after the task: %v", err)
			continue
		}
		ln.Close()
	}
}

// All ports of a task's own network block are published. port_map gives their numbers in the container,
// which the environment and the driver's network have.
func TestPortMap(t *testing.T) {
	t.Parallel()
	f := newBridged(t)
	cfg := f.task(shell("echo $NOMAD_PORT_http_in; "+hello(80, "web")+" & "+hello(21002, "same"),
		block{"port_map": []any{block{"http-in": 80}}}))
	cfg.Env["NOMAD_PORT_http_in"] = "21001"
	cfg.Ports = []drivers.Port{{Label: "http-in", Value: 21001, HostIP: nodeIP, Own: true},
		{Label: "same", Value: 21002, HostIP: nodeIP, Own: true}}
	h := f.start(cfg)
	serves(t, "tcp", nodeIP+":21001", "web")
	serves(t, "tcp", nodeIP+":21002", "same")
	testpace.Until(t, "the output has the port in the container", func() bool {
		out, _ := f.output(cfg)
		return out == "80\n"
	})
	check := func(n *drivers.TaskNetwork) {
		t.Helper()
		if n == nil || n.PortMap["http-in"] != 80 || n.PortMap["same"] != 21002 || len(n.PortMap) != 2 {
			t.Errorf("network = %+v", n)
		}
	}
	check(h.Network)
	f.Abandon()
	if err := f.RecoverTask(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	status, err := f.InspectTask(cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	check(status.Network)
}

// A port of the node that is in use fails the start, and the next one succeeds. The restart policy applies.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	f := newBridged(t)
	ln, err := net.Listen("tcp", nodeIP+":22001")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cfg := f.task(shell(hello(80, "web"), block{"ports": []any{"http"}, "container_exists_attempts": 1}))
	cfg.Ports = []drivers.Port{{Label: "http", Value: 22001, To: 80, HostIP: nodeIP}}
	_, err = f.StartTask(t.Context(), cfg)
	if _, again := err.(*drivers.RecoverableError); err == nil || !again || !strings.Contains(err.Error(), "22001") {
		t.Fatalf("StartTask() = %v", err)
	}
	ln.Close()
	f.start(cfg)
	serves(t, "tcp", nodeIP+":22001", "web")
}

// With the network of the group, or of the node, the daemon publishes nothing.
func TestPortsOfOthers(t *testing.T) {
	t.Parallel()
	f := newBridged(t)
	group := f.task(shell("sleep 1000", block{"ports": []any{"http"}}))
	n, err := f.CreateNetwork(t.Context(), group.AllocID, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.DestroyNetwork(context.Background(), group.AllocID, n) })
	group.NetNS, group.NetLabels = n.Path, n.Labels
	group.Ports = []drivers.Port{{Label: "http", Value: 23001, To: 80, HostIP: nodeIP}}
	host := f.task(shell("sleep 1000", block{"ports": []any{"http"}, "network_mode": "host"}))
	host.Ports = []drivers.Port{{Label: "http", Value: 23001, HostIP: nodeIP}}
	for name, cfg := range map[string]*drivers.TaskConfig{"group": group, "host": host} {
		if got := f.created(cfg); len(got.HostConfig.PortBindings) > 0 {
			t.Errorf("%s: published %v", name, got.HostConfig.PortBindings)
		}
	}
	bad := f.task(shell("true", block{"ports": []any{"http"}}))
	bad.Ports = []drivers.Port{{Label: "http", Value: 23001, To: 80}}
	if _, err := f.StartTask(t.Context(), bad); err == nil ||
		!strings.Contains(err.Error(), `publish port "http": the address "" of the node`) {
		t.Errorf("StartTask() without an address = %v", err)
	}
}

// From the default network of the daemon a container reaches other containers and what listens on the
// bridge's address of the node, but not the node's loopback.
func TestReachable(t *testing.T) {
	t.Parallel()
	f := newBridged(t)
	server := f.start(f.task(shell(hello(80, "neighbour"))))
	gateway := server.Network.IP[:strings.LastIndexByte(server.Network.IP, '.')] + ".1"
	for _, ip := range []string{gateway, nodeIP} {
		ln, err := net.Listen("tcp", ip+":24001")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, ip+"\n") // the client sees a failure
				c.Close()
			}
		}()
	}
	_, out, errs := f.run(fmt.Sprintf("until nc %[1]s 80; do sleep 0.1; done; nc %[2]s 24001 </dev/null; nc -w 1 %[3]s 24001 </dev/null || echo refused", server.Network.IP, gateway, nodeIP))
	if want := "neighbour\n" + gateway + "\nrefused\n"; out != want {
		t.Errorf("output = %q, %q, want %q", out, errs, want)
	}
}

// newBridged returns a driver whose daemon has a default network.
func newBridged(t *testing.T) *fixture {
	t.Helper()
	return newFixtureOf(t, testdocker.StartBridged(t), nil)
}
