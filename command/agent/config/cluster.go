package config

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// serfPort is the default port of server addresses to join.
const serfPort = 4648

// startJoin returns the servers to join once, each with a port. server.start_join is the older
// name of server.server_join.start_join.
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

// gossips reports whether the server takes part in gossip. With -dev it does so only if it has
// servers to join.
func (s *Settings) gossips() bool {
	return !s.Dev || len(s.startJoin()) > 0 || len(s.retryJoin()) > 0
}

// checkCluster checks the keys that configure how servers find each other.
func (s *Settings) checkCluster() error {
	sv := &s.Server
	var errs []error
	if sv.BootstrapExpect < 0 {
		errs = append(errs, s.Fault("server.bootstrap_expect", "must be a number of servers"))
	}
	for path, addrs := range map[string][]string{"server.start_join": sv.StartJoin, "server.retry_join": sv.RetryJoin,
		"server.server_join.start_join": sv.ServerJoin.StartJoin, "server.server_join.retry_join": sv.ServerJoin.RetryJoin} {
		errs = append(errs, s.checkDiscovery(path, addrs))
	}
	if sv.ServerJoin.RetryInterval < 0 || sv.RetryInterval < 0 {
		errs = append(errs, s.Fault("server.server_join.retry_interval", "must not be negative"))
	}
	if sv.NonVotingServer && (!sv.Enabled || sv.BootstrapExpect > 0 || !s.gossips()) {
		errs = append(errs, s.Fault("server.non_voting_server", "only allowed on a server without bootstrap_expect that joins others"))
	}
	if _, err := s.autopilot(); err != nil {
		errs = append(errs, s.Fault("autopilot", "%v", err))
	}
	if _, err := s.gossipKey(); err != nil {
		errs = append(errs, s.Fault("server.encrypt", "%v", err))
	}
	return errors.Join(errs...)
}

// checkDiscovery returns an error for addresses that need a cloud provider or a command, such as
// "provider=aws tag_key=nomad".
func (s *Settings) checkDiscovery(path string, addrs []string) error {
	var errs []error
	for _, addr := range addrs {
		words := strings.Fields(addr)
		at := slices.IndexFunc(words, func(word string) bool {
			return strings.HasPrefix(word, "provider=") || strings.HasPrefix(word, "exec=")
		})
		switch {
		case at >= 0 && strings.HasPrefix(words[at], "provider="):
			errs = append(errs, s.notYet(path, "discovery of servers by "+words[at]))
		case at >= 0:
			errs = append(errs, s.notYet(path, "discovery of servers by a command"))
		case strings.Contains(addr, "="):
			errs = append(errs, s.Fault(path, "must be an address: host or host:port"))
		}
	}
	return errors.Join(errs...)
}

// autopilot returns the initial autopilot configuration of a new cluster.
func (s *Settings) autopilot() (*nomad.AutopilotConfig, error) {
	a := &s.Autopilot
	if a.MaxTrailingLogs < 0 || a.MinQuorum < 0 {
		return nil, errors.New("max_trailing_logs and min_quorum must not be negative")
	}
	c := &nomad.AutopilotConfig{CleanupDeadServers: a.CleanupDeadServers, ServerStabilizationTime: a.ServerStabilizationTime,
		LastContactThreshold: a.LastContactThreshold, MaxTrailingLogs: uint64(a.MaxTrailingLogs), MinQuorum: uint(a.MinQuorum)}
	return c, rules.Autopilot(c)
}

// gossipKey decodes server.encrypt. Errors do not contain its value.
func (s *Settings) gossipKey() ([]byte, error) {
	if s.Server.Encrypt == "" {
		return nil, nil
	}
	key, err := gossip.ParseKey(s.Server.Encrypt)
	if err != nil {
		return nil, errors.New("must be 16, 24 or 32 bytes in base64")
	}
	return key, nil
}

// clusterConfig adds the settings for joining other servers to c.
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

// JoinLimit returns how long the client tries to join, or 0 for no limit.
func (s *Settings) JoinLimit() time.Duration {
	if j := s.Client.ServerJoin; len(j.RetryJoin) > 0 && !s.Server.Enabled {
		return time.Duration(j.RetryMax) * j.RetryInterval
	}
	return 0
}
