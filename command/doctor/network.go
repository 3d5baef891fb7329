package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/agent/config"
)

// Limits of connections.
const (
	dialTime   = 3 * time.Second
	maxServers = 16
)

// ports checks that each port of the agent is free, or that an agent has it.
func ports(ctx context.Context, m *machine) []Finding {
	s := m.settings
	if s == nil {
		s = config.Default()
	}
	type port struct {
		name, host string
		number     int
	}
	all := []port{}
	for _, host := range s.HTTPHosts() {
		all = append(all, port{"http", host, s.Ports.HTTP})
	}
	if m.server() {
		all = append(all, port{"rpc", cmp.Or(s.Addresses.RPC, s.BindAddr), s.Ports.RPC},
			port{"serf", cmp.Or(s.Addresses.Serf, s.BindAddr), s.Ports.Serf})
	}
	var out []Finding
	agent := runs(ctx, m, all[0].host, all[0].number)
	for _, p := range all {
		at := net.JoinHostPort(p.host, strconv.Itoa(p.number))
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
		switch {
		case err == nil:
			l.Close()
			if agent && p.name == "http" {
				out = append(out, ok("%s %s: an agent answers", p.name, at))
				continue
			}
			out = append(out, ok("%s %s: free", p.name, at))
		case errors.Is(err, syscall.EADDRINUSE) && agent:
			out = append(out, ok("%s %s: in use, and an agent runs", p.name, at))
		case errors.Is(err, syscall.EADDRINUSE):
			out = append(out, fail(fmt.Sprintf("find the program with 'ss -ltnp sport = :%d' and stop it, or change ports.%s", p.number, p.name),
				"%s %s: in use by another program", p.name, at))
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			out = append(out, fail("correct bind_addr or addresses."+p.name, "%s %s: not an address of this machine", p.name, at))
		default:
			out = append(out, fail("", "%s %s: %v", p.name, at, err))
		}
	}
	return out
}

// runs reports whether an agent answers at the HTTP port of this machine.
func runs(ctx context.Context, m *machine, host string, port int) bool {
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	c, err := m.agentClient(host, port)
	if err != nil {
		return false
	}
	defer c.Close()
	_, _, err = c.ServerTime(ctx)
	return err == nil || api.StatusCode(err) == http.StatusInternalServerError // no leader
}

// agentClient returns a client for the HTTP API of an agent with the certificates of this one.
func (m *machine) agentClient(host string, port int) (*api.Client, error) {
	cfg := &api.Config{Address: "http://" + net.JoinHostPort(host, strconv.Itoa(port)), TLSConfig: &api.TLSConfig{}}
	if s := m.settings; s != nil && s.TLS.HTTP {
		cfg.Address = strings.Replace(cfg.Address, "http:", "https:", 1)
		cfg.TLSConfig = &api.TLSConfig{CACert: s.TLS.CAFile, ClientCert: s.TLS.CertFile, ClientKey: s.TLS.KeyFile,
			Insecure: true} // only the clock is read
	}
	return api.NewClient(cfg)
}

// serverList returns the configured servers of the client as host:port. Names of cloud providers,
// which an agent resolves itself, are left out.
func (m *machine) serverList() []string {
	if m.settings == nil {
		return nil
	}
	var out []string
	for _, addr := range slices.Concat(m.settings.Client.Servers, m.settings.Client.ServerJoin.RetryJoin,
		m.settings.Client.ServerJoin.StartJoin) {
		if addr = strings.TrimSpace(addr); addr != "" && !strings.Contains(addr, "provider=") {
			out = append(out, config.ServerAddr(addr))
		}
	}
	return out[:min(len(out), maxServers)]
}

// servers checks that the configured servers can be reached.
func servers(ctx context.Context, m *machine) []Finding {
	list := m.serverList()
	if len(list) == 0 {
		if m.settings != nil && !m.settings.Server.Enabled {
			return []Finding{fail("set client.servers or client.server_join.retry_join", "the client has no servers")}
		}
		return nil
	}
	var out []Finding
	for _, addr := range list {
		began := time.Now()
		conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "tcp", addr)
		if err != nil {
			out = append(out, fail("start the server, open the port in firewalls, or correct the address", "%s: %v", addr, err))
			continue
		}
		conn.Close()
		out = append(out, ok("%s: reachable in %s", addr, time.Since(began).Round(100*time.Microsecond)))
	}
	return out
}

// The offsets of clocks: tokens of nodes and tasks are checked with a leeway of seconds.
const (
	warnOffset = 3 * time.Second
	failOffset = 30 * time.Second
	// resolution is that of the Date header.
	resolution = time.Second
)

// clock checks that the clock is synchronised, and compares it with those of servers.
func clock(ctx context.Context, m *machine) []Finding {
	var out []Finding
	const remedy = "run a time service, such as systemd-timesyncd or chrony"
	if state, err := unix.Adjtimex(&unix.Timex{}); err == nil && state == unix.TIME_ERROR {
		out = append(out, warn(remedy, "the kernel reports that the clock is not synchronised"))
	} else if err == nil {
		out = append(out, ok("synchronised"))
	}
	port := 4646
	if m.settings != nil {
		port = m.settings.Ports.HTTP
	}
	for _, addr := range m.serverList() {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			continue // the check of servers reports it
		}
		c, err := m.agentClient(host, port)
		if err != nil {
			out = append(out, warn("", "%s: %v", host, err))
			continue
		}
		out = append(out, compare(ctx, host, c))
		c.Close()
	}
	return out
}

// compare compares the clock with that of a server.
func compare(ctx context.Context, name string, c *api.Client) Finding {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	began := time.Now()
	there, took, err := c.ServerTime(ctx)
	if err != nil {
		return warn("open the HTTP port of the server to this machine, to compare the clocks", "%s: clock not compared: %v", name, err)
	}
	return offset(name, began.Add(took/2), there, took)
}

// offset judges the difference of two clocks. The request took a time, and the header has no
// fractions of a second.
func offset(name string, here, there time.Time, took time.Duration) Finding {
	d := here.Sub(there.Add(resolution / 2)).Abs()
	unsure := resolution/2 + took/2
	least := max(d-unsure, 0)
	text := fmt.Sprintf("%s: clocks differ by %s ± %s", name, d.Round(100*time.Millisecond), unsure.Round(100*time.Millisecond))
	switch {
	case least > failOffset:
		return fail("set the clock; signed tokens and certificates will be rejected", "%s", text)
	case least > warnOffset:
		return warn("set the clock", "%s", text)
	}
	return ok("%s", text)
}
