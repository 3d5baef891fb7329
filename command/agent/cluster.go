package agent

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/server"
)

const (
	// serfPort is where a server is joined when its address names no port.
	serfPort = 4648
	// leaveLimit bounds the leaving of a cluster.
	leaveLimit = 15 * time.Second
	// signalLag is how much later than the end of a context its signal may be heard.
	signalLag = 100 * time.Millisecond
)

// startJoin and retryJoin are the servers to join, each with a port. The keys
// outside server_join are the older names of the same.
func (s *Settings) startJoin() []string {
	return joined(slices.Concat(s.Server.StartJoin, s.Server.ServerJoin.StartJoin))
}

func (s *Settings) retryJoin() []string {
	return joined(slices.Concat(s.Server.RetryJoin, s.Server.ServerJoin.RetryJoin))
}

func joined(addrs []string) []string {
	var out []string
	for _, addr := range addrs {
		if addr = strings.TrimSpace(addr); addr != "" {
			out = append(out, withPort(addr, serfPort))
		}
	}
	return out
}

// gossips says whether the server takes part in gossip: with -dev only when it is
// told whom to join.
func (s *Settings) gossips() bool {
	return !s.dev || len(s.startJoin()) > 0 || len(s.retryJoin()) > 0
}

// checkCluster refuses what can't work of how servers find each other.
func (s *Settings) checkCluster() error {
	sv := &s.Server
	var errs []error
	if sv.BootstrapExpect < 0 {
		errs = append(errs, s.fault("server.bootstrap_expect", "a number of servers is expected"))
	}
	for path, addrs := range map[string][]string{"server.start_join": sv.StartJoin, "server.retry_join": sv.RetryJoin,
		"server.server_join.start_join": sv.ServerJoin.StartJoin, "server.server_join.retry_join": sv.ServerJoin.RetryJoin} {
		errs = append(errs, s.checkDiscovery(path, addrs))
	}
	if sv.ServerJoin.RetryInterval < 0 || sv.RetryInterval < 0 {
		errs = append(errs, s.fault("server.server_join.retry_interval", "a positive interval is expected"))
	}
	if sv.NonVotingServer && (!sv.Enabled || sv.BootstrapExpect > 0 || !s.gossips()) {
		errs = append(errs, s.fault("server.non_voting_server", "only for a server without bootstrap_expect that joins others"))
	}
	if _, err := s.autopilot(); err != nil {
		errs = append(errs, s.fault("autopilot", "%v", err))
	}
	if _, err := s.gossipKey(); err != nil {
		errs = append(errs, s.fault("server.encrypt", "%v", err))
	}
	return errors.Join(errs...)
}

// checkDiscovery refuses servers to join that a cloud provider or a command would have to
// find, such as "provider=aws tag_key=nomad".
func (s *Settings) checkDiscovery(path string, addrs []string) error {
	var errs []error
	for _, addr := range addrs {
		words := strings.Fields(addr)
		at := slices.IndexFunc(words, func(word string) bool {
			return strings.HasPrefix(word, "provider=") || strings.HasPrefix(word, "exec=")
		})
		switch {
		case at >= 0 && strings.HasPrefix(words[at], "provider="):
			errs = append(errs, s.notYet(path, "the discovery of servers by "+words[at]))
		case at >= 0:
			errs = append(errs, s.notYet(path, "the discovery of servers by a command"))
		case strings.Contains(addr, "="):
			errs = append(errs, s.fault(path, "an address is expected: host or host:port"))
		}
	}
	return errors.Join(errs...)
}

// autopilot is how a new cluster keeps its servers.
func (s *Settings) autopilot() (*nomad.AutopilotConfig, error) {
	a := &s.Autopilot
	if a.MaxTrailingLogs < 0 || a.MinQuorum < 0 {
		return nil, errors.New("max_trailing_logs and min_quorum must not be negative")
	}
	c := &nomad.AutopilotConfig{CleanupDeadServers: a.CleanupDeadServers, ServerStabilizationTime: a.ServerStabilizationTime,
		LastContactThreshold: a.LastContactThreshold, MaxTrailingLogs: uint64(a.MaxTrailingLogs), MinQuorum: uint(a.MinQuorum)}
	return c, c.Validate()
}

// gossipKey decodes server.encrypt. What it holds is never shown.
func (s *Settings) gossipKey() ([]byte, error) {
	if s.Server.Encrypt == "" {
		return nil, nil
	}
	key, err := gossip.ParseKey(s.Server.Encrypt)
	if err != nil {
		return nil, errors.New("16, 24 or 32 bytes in base64 are expected")
	}
	return key, nil
}

// clusterConfig adds to the server's configuration how it finds the others.
func (s *Settings) clusterConfig(c *server.Config) (err error) {
	sv := &s.Server
	c.BootstrapExpect, c.NonVoting = sv.BootstrapExpect, sv.NonVotingServer
	if c.Autopilot, err = s.autopilot(); err != nil {
		return err
	}
	host := hosts(s.Addresses.Serf, s.BindAddr)[0]
	if s.Advertise.Serf != "" || s.Addresses.Serf != "" || s.gossips() && s.Ports.Serf != 0 {
		if c.SerfAdvertise, err = advertised(s.Advertise.Serf, host, s.Ports.Serf); err != nil {
			return err
		}
	}
	if !s.gossips() {
		return nil
	}
	c.SerfAddr = net.JoinHostPort(host, strconv.Itoa(s.Ports.Serf))
	if c.GossipKey, err = s.gossipKey(); err != nil {
		return err
	}
	c.StartJoin, c.RetryJoin, c.RejoinAfterLeave = s.startJoin(), s.retryJoin(), sv.RejoinAfterLeave
	c.RetryInterval, c.RetryMax = sv.ServerJoin.RetryInterval, sv.ServerJoin.RetryMax
	if sv.RetryInterval > 0 {
		c.RetryInterval = sv.RetryInterval
	}
	if sv.RetryMax > 0 {
		c.RetryMax = sv.RetryMax
	}
	return nil
}

// errInterrupted means that SIGINT ended the agent, and leave_on_interrupt is off. Tools
// expect exit code 1 then.
var errInterrupted = errors.New("interrupted")

// leave takes the server out of its cluster before it ends, when the operator
// wants that for the signal that ends it.
func (a *Agent) leave() error {
	if a.signals == nil {
		return nil
	}
	select {
	case s := <-a.signals:
		if s == os.Interrupt && !a.set.LeaveOnInterrupt {
			return errInterrupted
		}
		if s == syscall.SIGTERM && !a.set.LeaveOnTerminate {
			return nil
		}
	case <-time.After(signalLag):
		return nil
	}
	if a.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if err := a.server.Leave(ctx); err != nil {
		a.log.Warn("leave the cluster", "err", err)
	}
	return nil
}

// members is what the API asks of gossip, nil without a server.
func (a *Agent) members() httpapi.Members {
	if a.server == nil {
		return nil
	}
	return a.server
}

// gossipKeys is what the API asks of the keys of gossip, nil without a server.
func (a *Agent) gossipKeys() httpapi.GossipKeys {
	if a.server == nil {
		return nil
	}
	return a.server
}
