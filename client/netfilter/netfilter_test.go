package netfilter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/netfilter"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testthread"
	"github.com/open-nomad/open-nomad/nomad/egress"
)

func TestMain(m *testing.M) { os.Exit(testnet.Private(m)) }

func run(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if out, err := exec.Command("sh", "-c", c).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", c, err, out)
		}
	}
}

// site is a bridge with the allocations a, b, c, and a machine outside of it.
type site struct {
	t    *testing.T
	wall *netfilter.Firewall
}

const bridgeName = "nomad"

func newSite(t *testing.T) *site {
	t.Helper()
	if !testnet.IsPrivate() {
		testnet.Missing(t, "needs root")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		testnet.Missing(t, "needs the package nftables")
	}
	s := &site{t: t, wall: netfilter.New(bridgeName)}
	t.Cleanup(func() {
		for _, ns := range []string{"a", "b", "c", "out"} {
			_ = exec.Command("ip", "netns", "del", ns).Run() // may be missing after a failure
			_ = exec.Command("ip", "link", "del", "veth-"+ns).Run()
		}
		_ = exec.Command("ip", "link", "del", bridgeName).Run()
		_ = exec.Command("nft", "flush", "ruleset").Run()
	})
	run(t, "ip link add nomad type bridge forward_delay 0", "ip addr add 172.26.64.1/20 dev nomad",
		"ip -6 addr add fd00:77::1/64 dev nomad nodad", "ip link set nomad up",
		"sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.nomad.route_localnet=1")
	for i, name := range []string{"a", "b", "c"} {
		s.join(name, i+2)
	}
	run(t, "ip netns add out", "ip link add veth-out type veth peer name eth0 netns out", "ip addr add 192.0.2.1/24 dev veth-out",
		"ip -6 addr add 2001:db8::1/64 dev veth-out nodad", "ip link set veth-out up", "ip -n out addr add 192.0.2.9/24 dev eth0",
		"ip -n out -6 addr add 2001:db8::9/64 dev eth0 nodad", "ip -n out link set lo up", "ip -n out link set eth0 up",
		"ip -n out route add default via 192.0.2.1", "ip -n out -6 route add default via 2001:db8::1")
	return s
}

// join connects a network namespace to the bridge.
func (s *site) join(name string, n int) {
	s.t.Helper()
	run(s.t, "ip netns add "+name, fmt.Sprintf("ip link add veth-%s type veth peer name eth0 netns %s", name, name),
		fmt.Sprintf("ip link set veth-%s master nomad up", name), fmt.Sprintf("ip -n %s addr add 172.26.64.%d/20 dev eth0", name, n),
		fmt.Sprintf("ip -n %s -6 addr add fd00:77::%d/64 dev eth0 nodad", name, n), fmt.Sprintf("ip -n %s link set lo up", name),
		fmt.Sprintf("ip -n %s link set eth0 up", name), fmt.Sprintf("ip -n %s route add default via 172.26.64.1", name),
		fmt.Sprintf("ip -n %s -6 route add default via fd00:77::1", name))
}

// allocation returns the description of a, b or c.
func (s *site) allocation(name string) *netfilter.Allocation {
	s.t.Helper()
	n := strings.Index("  abc", name)
	out, err := exec.Command("ip", "-n", name, "-j", "link", "show", "eth0").Output()
	var links []struct{ Address string }
	if err := errors.Join(err, json.Unmarshal(out, &links)); err != nil {
		s.t.Fatal(err)
	}
	mac, err := net.ParseMAC(links[0].Address)
	if err != nil {
		s.t.Fatal(err)
	}
	return &netfilter.Allocation{ID: "alloc-" + name, Port: "veth-" + name, MAC: mac,
		Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("172.26.64.%d", n)), netip.MustParseAddr(fmt.Sprintf("fd00:77::%d", n))}}
}

func (s *site) protect(name string, limited bool, allow ...string) {
	s.t.Helper()
	a := s.allocation(name)
	a.Limited = limited
	for _, text := range allow {
		d, err := egress.Parse(text)
		if err != nil {
			s.t.Fatal(err)
		}
		a.Egress = append(a.Egress, d)
	}
	if err := s.wall.Protect(a); err != nil {
		s.t.Fatal(err)
	}
}

// inside calls do in a network namespace, "" for the node's.
func (s *site) inside(ns string, do func() error) error {
	if ns != "" {
		ns = "/run/netns/" + ns
	}
	return testnet.Inside(ns, do)
}

// serve accepts connections in a namespace and answers them, over TCP and UDP.
func (s *site) serve(ns string, port int) {
	s.t.Helper()
	addr := fmt.Sprintf("[::]:%d", port)
	var ln net.Listener
	var packets net.PacketConn
	err := s.inside(ns, func() (err error) {
		if ln, err = net.Listen("tcp", addr); err == nil {
			packets, err = net.ListenPacket("udp", addr)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { ln.Close(); packets.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello") // the client sees a failure
			c.Close()
		}
	}()
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(buf[:n], from) // the client sees a failure
		}
	}()
}

// reach reports whether a connection from a namespace gets an answer.
func (s *site) reach(ns, network, addr string) bool {
	s.t.Helper()
	var answer []byte
	err := s.inside(ns, func() error {
		c, err := (&net.Dialer{Timeout: 700 * time.Millisecond}).DialContext(context.Background(), network, addr)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(700 * time.Millisecond)) // on a new connection
		if network == "udp" {
			if _, err := io.WriteString(c, "hello"); err != nil {
				return err
			}
		}
		answer = make([]byte, 5)
		_, err = io.ReadFull(c, answer)
		return err
	})
	return err == nil && string(answer) == "hello"
}

func (s *site) want(reachable bool, from, network, addr string) {
	s.t.Helper()
	for range 5 { // a new IPv6 address needs time
		if s.reach(from, network, addr) == reachable {
			return
		}
		if !reachable {
			break
		}
	}
	s.t.Errorf("%q to %s %s: reachable %v, want %v", from, network, addr, !reachable, reachable)
}

// Addresses of the allocation a, b and c.
var addrs = map[string][2]string{"a": {"172.26.64.2", "fd00:77::2"}, "b": {"172.26.64.3", "fd00:77::3"}, "c": {"172.26.64.4", "fd00:77::4"}}

// Frames between ports pass the rules of family inet only if br_netfilter is on, so the isolation must
// not depend on it.
func TestIsolation(t *testing.T) {
	testpace.Slow(t, "waits for packets that the rules drop")
	for _, passes := range []string{"0", "1"} {
		t.Run("br_netfilter="+passes, func(t *testing.T) { isolation(t, passes) })
	}
}

func isolation(t *testing.T, passes string) {
	s := newSite(t)
	const sysctl = "/proc/sys/net/bridge/bridge-nf-call-ip"
	if _, err := os.Stat(sysctl + "tables"); err == nil {
		run(t, "echo "+passes+" >"+sysctl+"tables; echo "+passes+" >"+sysctl+"6tables")
	} else if passes == "1" {
		t.Skip("needs br_netfilter")
	}
	for _, ns := range []string{"a", "b", "c", "out", ""} {
		s.serve(ns, 7000)
	}
	all := func(reachable bool, from, to string) {
		t.Helper()
		for _, ip := range addrs[to] {
			s.want(reachable, from, "tcp", net.JoinHostPort(ip, "7000"))
			s.want(reachable, from, "udp", net.JoinHostPort(ip, "7000"))
		}
	}
	all(true, "a", "b")
	s.protect("a", false)
	all(false, "a", "b")
	all(false, "b", "a")
	all(true, "b", "c")
	all(true, "", "a") // the agent's checks
	all(false, "out", "a")
	all(true, "out", "b")
	for _, ip := range []string{"192.0.2.9", "2001:db8::9", "172.26.64.1", "fd00:77::1"} { // outside, and the node
		s.want(true, "a", "tcp", net.JoinHostPort(ip, "7000"))
	}
	// Published ports: of a from outside only, of b not from a.
	run(t, "nft add table ip pub", "nft add chain ip pub pre '{ type nat hook prerouting priority -100; }'",
		"nft add rule ip pub pre ip daddr '{ 192.0.2.1, 172.26.64.1 }' tcp dport 8001 dnat to 172.26.64.2:7000",
		"nft add rule ip pub pre ip daddr '{ 192.0.2.1, 172.26.64.1 }' tcp dport 8002 dnat to 172.26.64.3:7000")
	s.want(true, "out", "tcp", "192.0.2.1:8001")
	s.want(true, "out", "tcp", "192.0.2.1:8002")
	s.want(false, "a", "tcp", "192.0.2.1:8002")
	s.want(false, "b", "tcp", "192.0.2.1:8001")
	s.want(false, "b", "tcp", "172.26.64.1:8001")
	if err := s.wall.Remove("alloc-a"); err != nil {
		t.Fatal(err)
	}
	all(true, "a", "b")
	all(true, "b", "a")
}

func TestEgress(t *testing.T) {
	testpace.Slow(t, "waits for packets that the rules drop")
	s := newSite(t)
	for _, ns := range []string{"a", "b", "out", ""} {
		s.serve(ns, 7000)
		s.serve(ns, 7001)
	}
	s.want(true, "a", "tcp", "[2001:db8::9]:7001")
	s.want(true, "a", "tcp", "[fd00:77::1]:7000")
	s.protect("a", true, "192.0.2.0/24:tcp:7000", "2001:db8::9")
	s.want(true, "a", "tcp", "192.0.2.9:7000")
	s.want(false, "a", "tcp", "192.0.2.9:7001")
	s.want(false, "a", "udp", "192.0.2.9:7000")
	s.want(true, "a", "tcp", "[2001:db8::9]:7000")
	s.want(true, "a", "udp", "[2001:db8::9]:7001")
	s.want(true, "a", "tcp", "192.0.2.1:7000") // an address of the node in the prefix
	s.want(false, "a", "tcp", "172.26.64.1:7000")
	s.want(false, "a", "tcp", "[fd00:77::1]:7000")
	s.want(false, "a", "tcp", "172.26.64.3:7000")
	s.want(true, "", "tcp", "172.26.64.2:7001") // answers are allowed
	s.want(true, "", "udp", "172.26.64.2:7001")
	s.protect("a", true, "tcp:7001")
	s.want(false, "a", "tcp", "192.0.2.9:7000")
	s.want(true, "a", "tcp", "192.0.2.9:7001")
	s.want(true, "a", "tcp", "[2001:db8::9]:7001")
	s.want(true, "b", "tcp", "192.0.2.9:7000")
	s.protect("a", true)
	s.want(false, "a", "tcp", "192.0.2.9:7001")
	if err := s.wall.Sweep(func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	s.want(true, "a", "tcp", "192.0.2.9:7000")
	out, err := exec.Command("nft", "list", "table", "inet", "open_nomad").CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("alloc-a")) {
		t.Errorf("remaining: %v, %s", err, out)
	}
}

// An allocation with every capability in its namespace uses the addresses of others.
func TestSpoofing(t *testing.T) {
	testpace.Slow(t, "waits for packets that the rules drop")
	s := newSite(t)
	s.serve("out", 7000)
	s.serve("b", 7000)
	s.serve("", 7000)
	s.protect("a", true, "192.0.2.9")
	const other, other6 = "172.26.64.200", "fd00:77::200"
	run(t, "ip -n a addr add 172.26.64.3/32 dev eth0", "ip -n a addr add "+other+"/32 dev eth0",
		"ip -n a -6 addr add "+other6+"/128 dev eth0 nodad")
	dialFrom := func(ns, source, addr string) bool {
		return s.inside(ns, func() error {
			c, err := (&net.Dialer{Timeout: 500 * time.Millisecond, LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}).Dial("tcp", addr)
			if err == nil {
				c.Close()
			}
			return err
		}) == nil
	}
	testpace.Until(t, "a connects from its own address", func() bool { return dialFrom("a", "172.26.64.2", "192.0.2.9:7000") })
	for source, addr := range map[string]string{other: "192.0.2.9:7000", "172.26.64.3": "172.26.64.1:7000", other6: "[fd00:77::1]:7000"} {
		if dialFrom("a", source, addr) {
			t.Errorf("a connects from %s", source)
		}
	}
	// A neighbour uses the address, or the hardware address, of the isolated allocation.
	run(t, "ip -n b addr add 172.26.64.2/32 dev eth0", "ip -n b -6 addr add fd00:77::2/128 dev eth0 nodad")
	if dialFrom("b", "172.26.64.2", "192.0.2.9:7000") || dialFrom("b", "fd00:77::2", "[2001:db8::9]:7000") {
		t.Error("b connects from the address of a")
	}
	testpace.Until(t, "b connects from its own address", func() bool { return dialFrom("b", "172.26.64.3", "192.0.2.9:7000") })
	s.serve("a", 7000)
	s.want(true, "", "tcp", "172.26.64.2:7000") // not answered by b
	run(t, "ip -n b link set eth0 address "+s.allocation("a").MAC.String())
	if dialFrom("b", "172.26.64.3", "192.0.2.9:7000") {
		t.Error("b sends from the hardware address of a")
	}
	// Loopback addresses of the node, although the interface routes them.
	run(t, "ip -n b link set eth0 address 02:00:00:00:00:0b", "sysctl -qw net.ipv4.conf.nomad.route_localnet=1")
	run(t, "ip netns exec b sysctl -qw net.ipv4.conf.all.route_localnet=1", "ip -n b addr del 127.0.0.1/8 dev lo",
		"ip -n b route del local 127.0.0.0/8 table local dev lo 2>/dev/null; ip -n b route add 127.0.0.1 via 172.26.64.1")
	if dialFrom("b", "172.26.64.3", "127.0.0.1:7000") {
		t.Error("b reaches a loopback address of the node")
	}
	run(t, "nft delete table inet open_nomad")
	testpace.Until(t, "the attack on loopback addresses works without the rules",
		func() bool { return dialFrom("b", "172.26.64.3", "127.0.0.1:7000") })
}

// Frames with a forged source, from a raw socket, do not pass.
func TestRawFrames(t *testing.T) {
	s := newSite(t)
	s.protect("a", false)
	victim, attacker := s.allocation("b"), s.allocation("a")
	frame := func(source net.HardwareAddr) []byte { // ARP: b's address is at the attacker's
		f := bytes.Join([][]byte{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, source, {8, 6, 0, 1, 8, 0, 6, 4, 0, 2}, source,
			victim.Addresses[0].AsSlice(), {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {172, 26, 64, 1}}, nil)
		return append(f, make([]byte, 60-len(f))...)
	}
	send := func(ns string, f []byte) {
		t.Helper()
		err := s.inside(ns, func() error {
			sock, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
			if err != nil {
				return err
			}
			defer unix.Close(sock)
			ifc, err := net.InterfaceByName("eth0")
			if err != nil {
				return err
			}
			return unix.Sendto(sock, f, 0, &unix.SockaddrLinklayer{Ifindex: ifc.Index, Protocol: htons(unix.ETH_P_ARP)})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.serve("b", 7000)
	s.want(true, "", "tcp", "172.26.64.3:7000") // the node knows where b is
	neighbour := func() string {
		out, err := exec.Command("ip", "neigh", "show", "172.26.64.3", "dev", "nomad").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	before := neighbour()
	run(t, "ip neigh change 172.26.64.3 dev nomad nud stale lladdr "+victim.MAC.String())
	send("a", frame(attacker.MAC))
	send("a", frame(victim.MAC))
	if after := neighbour(); !strings.Contains(after, victim.MAC.String()) {
		t.Errorf("before %q, after %q, want %s", before, after, victim.MAC)
	}
	// Not isolated: the attack works, so the test can fail. The node ignores answers for a time after
	// an earlier one.
	run(t, "ip neigh change 172.26.64.3 dev nomad nud stale lladdr "+victim.MAC.String())
	testpace.Until(t, "the forged answer of c is believed", func() bool {
		send("c", frame(s.allocation("c").MAC))
		return !strings.Contains(neighbour(), victim.MAC.String())
	})
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// Rules survive changes of others, and the tables of two bridges do not meet.
func TestTwoBridges(t *testing.T) {
	testpace.Slow(t, "waits for packets that the rules drop")
	s := newSite(t)
	s.serve("b", 7000)
	s.protect("a", false)
	second := netfilter.New("other")
	other := s.allocation("c")
	if err := second.Protect(other); err != nil {
		t.Fatal(err)
	}
	if err := second.Sweep(func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	s.want(false, "a", "tcp", "172.26.64.3:7000")
	for range 2 { // again
		s.protect("a", true, "tcp:1")
	}
	run(t, "nft flush ruleset")
	s.want(true, "a", "tcp", "172.26.64.3:7000")
	s.protect("a", false)
	s.want(false, "a", "tcp", "172.26.64.3:7000")
	if err := s.wall.Protect(&netfilter.Allocation{ID: "x", Port: "veth-x"}); err == nil {
		t.Error("Protect() without an address = nil")
	}
	if err := netfilter.New("none").Remove("x"); err != nil {
		t.Errorf("Remove() without tables = %v", err)
	}
}

// What others remove is found and restored.
func TestRestore(t *testing.T) {
	s := newSite(t)
	s.serve("b", 7000)
	s.protect("a", true, "tcp:1")
	limited, isolated := s.allocation("a"), s.allocation("b")
	limited.Limited, limited.Egress = true, []egress.Destination{{Protocol: "tcp", Port: 1}}
	if err := s.wall.Protect(isolated); err != nil {
		t.Fatal(err)
	}
	all := []*netfilter.Allocation{limited, isolated}
	missing := func() string {
		t.Helper()
		text, err := s.wall.Missing(all)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if text := missing(); text != "" {
		t.Fatalf("Missing() = %q before anything was removed", text)
	}
	for command, want := range map[string]string{
		"nft flush ruleset":                            "table open_nomad",
		"nft delete table bridge open_nomad":           "family bridge",
		"nft delete table inet open_nomad":             "family inet",
		"nft flush table inet open_nomad":              "rules of chain",
		"nft flush chain bridge open_nomad prerouting": "rules of chain prerouting of family bridge",
		"nft flush set bridge open_nomad ports":        "elements of set ports",
		"nft flush map inet open_nomad egress4":        "elements of set egress4",
		"nft flush map inet open_nomad egress4; nft flush map inet open_nomad egress6; nft delete chain inet open_nomad egress-alloc-a; " +
			"nft add chain inet open_nomad x; nft add element inet open_nomad egress4 '{ 172.26.64.2 : jump x }'; " +
			"nft add element inet open_nomad egress6 '{ fd00:77::2 : jump x }'": "chain egress-alloc-a",
	} {
		run(t, command)
		if text := missing(); !strings.Contains(text, want) {
			t.Errorf("after %s: Missing() = %q, want %q", command, text, want)
		}
		if err := s.wall.Restore(all); err != nil {
			t.Fatal(err)
		}
		if text := missing(); text != "" {
			t.Errorf("after %s and Restore(): Missing() = %q", command, text)
		}
	}
	s.want(false, "a", "tcp", "172.26.64.3:7000")
}

// Elements of many allocations do not fit in one message.
func TestRestoreMany(t *testing.T) {
	s := newSite(t)
	var all []*netfilter.Allocation
	for i := range 1000 {
		all = append(all, &netfilter.Allocation{ID: fmt.Sprintf("0b5c3ad4-6f0a-4d8a-9d6e-2a0d7c9f%04x", i), Port: fmt.Sprintf("veth%08x", i),
			MAC:     net.HardwareAddr{2, 0, 0, 0, byte(i >> 8), byte(i)},
			Limited: true, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{172, 26, byte(64 + i>>8), byte(i)}),
				netip.AddrFrom16([16]byte{0: 0xfd, 14: byte(i >> 8), 15: byte(i)})}})
	}
	before, err := netfilter.Generation()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := s.wall.Restore(all); err != nil {
		t.Fatal(err)
	}
	restored := time.Now()
	text, err := s.wall.Missing(all)
	if text != "" || err != nil {
		t.Errorf("Missing() = %q, %v", text, err)
	}
	after, err := netfilter.Generation()
	if again, errAgain := netfilter.Generation(); err != nil || errAgain != nil || after == before || after != again {
		t.Errorf("Generation() = %d before and %d, %d after the change: %v, %v", before, after, again, err, errAgain)
	}
	t.Logf("Restore() took %v, Missing() took %v", restored.Sub(start), time.Since(restored))
}

// Probe changes nothing, and fails without the right to change rules.
func TestProbe(t *testing.T) {
	newSite(t)
	rules := func() string {
		out, err := exec.Command("nft", "list", "ruleset").CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	before := rules()
	if err := netfilter.Probe(); err != nil {
		t.Fatal(err)
	}
	if after := rules(); after != before {
		t.Errorf("Probe() left %s", after)
	}
	var err error
	testthread.Run(func() {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capset(&header, &make([]unix.CapUserData, 2)[0]); err != nil {
			t.Error(err)
		}
		err = netfilter.Probe()
	})
	if err == nil || !strings.Contains(err.Error(), "test nftables") {
		t.Errorf("Probe() without capabilities = %v", err)
	}
}
