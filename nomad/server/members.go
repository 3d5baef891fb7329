package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// rejoinWait is the pause between two attempts to join.
const rejoinWait = 30 * time.Second

// raftVersion is the only supported version of the Raft protocol.
const raftVersion = "3"

// alone reports whether this server does not use gossip and so never has peers.
func (s *Server) alone() bool { return s.cfg.SerfAddr == "" }

// openGossip joins the gossip pool. Raft is already open, because the tags contain its ID. The
// unsupported features are logged first, because Open joins the members of an earlier start.
func (s *Server) openGossip() (err error) {
	s.applyOwnLog()
	s.unserved.Report()
	cfg := gossip.Config{Name: s.cfg.Name + "." + s.cfg.Region, Bind: s.cfg.SerfAddr, Advertise: s.cfg.SerfAdvertise, Tags: s.tags(),
		Rejoin: s.cfg.RejoinAfterLeave, Key: s.cfg.GossipKey, Probe: s.cfg.GossipProbe, Admit: s.admitMember, Changed: s.membersChanged,
		Log: s.log}
	if dir := s.dir(); dir != "" {
		cfg.Snapshot = filepath.Join(dir, "serf", "snapshot")
		cfg.KeyFile = filepath.Join(dir, "serf.keyring")
	}
	pool, err := gossip.Open(cfg)
	if err != nil {
		return err
	}
	s.gossip.Store(pool)
	if len(s.cfg.StartJoin) > 0 {
		if _, err := pool.Join(s.cfg.StartJoin); err != nil {
			return err
		}
	}
	return nil
}

// tags returns the tags of this server in gossip.
func (s *Server) tags() map[string]string {
	host, port, _ := net.SplitHostPort(s.advertise) // validated when it was bound
	tags := map[string]string{"role": gossip.Role, "region": s.cfg.Region, "dc": s.cfg.Datacenter, "build": s.cfg.Version,
		"revision": s.cfg.Revision, "vsn": "1", "raft_vsn": raftVersion, "id": s.raft.ID(), "rpc_addr": host, "port": port,
		message.ProjectTag: message.Project}
	if s.cfg.BootstrapExpect == 1 || s.alone() {
		tags["bootstrap"] = "1"
	}
	if s.cfg.NonVoting {
		tags["nonvoter"] = "1"
	}
	if s.cfg.BootstrapExpect > 0 {
		tags["expect"] = strconv.Itoa(s.cfg.BootstrapExpect)
	}
	return tags
}

// admitMember refuses a server of this region with another Raft version. It also refuses a
// server that bootstrapped its own cluster if this one did so too, because two logs cannot be
// merged. Both servers reach the same result.
func (s *Server) admitMember(m *message.ServerMember) error {
	if m.Tags["region"] == s.cfg.Region && m.Tags["raft_vsn"] != raftVersion {
		return fmt.Errorf("member '%s' uses Raft protocol version %q (tag raft_vsn), this server %q: all servers of "+
			"a region must use the same version",
			m.Name, m.Tags["raft_vsn"], raftVersion)
	}
	if m.Tags["region"] == s.cfg.Region && m.Tags["bootstrap"] == "1" && s.cfg.BootstrapExpect == 1 && m.Tags["id"] != s.raft.ID() {
		return fmt.Errorf("member '%s' and this server have each bootstrapped a cluster in region %q: only one may have bootstrap_expect = 1",
			m.Name, s.cfg.Region)
	}
	return nil
}

// membersChanged wakes the watchers of the members. It runs in the pool's goroutine.
func (s *Server) membersChanged(gone []*message.ServerMember) {
	s.goneMu.Lock()
	for _, m := range gone {
		if m.Tags["region"] == s.cfg.Region {
			s.gone[m.Tags["id"]] = true
		}
	}
	s.goneMu.Unlock()
	s.moved.fire()
}

// departed returns the servers in the Raft configuration that left or were reaped. The current
// gossip status takes precedence: a recorded event counts only while no member has the ID. An
// event stays recorded until the server is removed.
func (s *Server) departed(have []raft.Server, members []*message.ServerMember) map[string]bool {
	out, present := map[string]bool{}, map[string]bool{}
	for _, m := range members {
		switch id := m.Tags["id"]; {
		case m.Tags["region"] != s.cfg.Region:
		case m.Status == gossip.Left:
			out[id] = true
		default:
			present[id] = true
		}
	}
	s.goneMu.Lock()
	defer s.goneMu.Unlock()
	maps.DeleteFunc(s.gone, func(id string, _ bool) bool { return present[id] || !listed(have, id) })
	maps.Copy(out, s.gone)
	maps.DeleteFunc(out, func(id string, _ bool) bool { return present[id] })
	return out
}

// Members lists the known servers of all regions, including this one.
func (s *Server) Members() []*message.ServerMember {
	if p := s.gossip.Load(); p != nil {
		return p.Members()
	}
	return []*message.ServerMember{s.Self()}
}

// onlyOurs returns an error (409) with the name of a feature and the names of the region's servers
// that may be of another implementation.
func (s *Server) onlyOurs(feature string) error {
	listed, err := s.raft.Servers()
	if err != nil {
		return err
	}
	others := otherBuilds(s.cfg.Region, s.Members(), listed)
	if len(others) == 0 {
		return nil
	}
	return apierror.Errorf(409, "%s requires that all servers run open-nomad; these may not: %s. "+
		"Upgrade them, or remove them with 'nomad server force-leave -prune' and 'nomad operator raft remove-peer'", feature,
		strings.Join(others, ", "))
}

// otherBuilds returns the names of a region's servers that may be of another build: members
// without this project's tag that have not left, and servers in the Raft configuration without
// a gossip member.
func otherBuilds(region string, members []*message.ServerMember, listed []raft.Server) []string {
	shown, others := map[string]bool{}, unmarked(region, members)
	for _, m := range members {
		if m.Tags["region"] == region && m.Status != gossip.Left {
			shown[m.Tags["id"]] = true
		}
	}
	for _, server := range listed {
		if !shown[string(server.ID)] {
			others = append(others, fmt.Sprintf("%s at %s", server.ID, server.Address))
		}
	}
	slices.Sort(others)
	return others
}

// unmarked returns the sorted names of a region's members that have not left and lack this
// project's tag.
func unmarked(region string, members []*message.ServerMember) []string {
	var names []string
	for _, m := range members {
		if m.Tags["region"] == region && m.Status != gossip.Left && !m.Ours() {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Self returns this server as a member.
func (s *Server) Self() *message.ServerMember {
	if p := s.gossip.Load(); p != nil {
		return p.Self()
	}
	host, _, _ := net.SplitHostPort(s.advertise) // validated when it was bound
	port := strconv.Itoa(s.cfg.SerfPort)
	if s.cfg.SerfAdvertise != "" {
		host, port, _ = net.SplitHostPort(s.cfg.SerfAdvertise) // validated by complete
	}
	serf, _ := strconv.ParseUint(port, 10, 16) // validated by complete
	return &message.ServerMember{Name: s.cfg.Name + "." + s.cfg.Region, Addr: net.ParseIP(host), Port: uint16(serf), Status: gossip.Alive,
		Tags: s.tags(), ProtocolMin: 1, ProtocolMax: 5, ProtocolCur: 2, DelegateMin: 2, DelegateMax: 5, DelegateCur: 4}
}

// peerAddr returns the address for other servers to reach a member.
func peerAddr(m *message.ServerMember) string {
	return net.JoinHostPort(m.Addr.String(), m.Tags["port"])
}

// aliveIn lists the alive members of a region.
func (s *Server) aliveIn(region string) []*message.ServerMember {
	var out []*message.ServerMember
	for _, m := range s.Members() {
		if m.Tags["region"] == region && m.Status == gossip.Alive {
			out = append(out, m)
		}
	}
	return out
}

// locate returns the address of a server of this region by its ID, or "" if it is not a member.
// Raft may call it before openRaft has returned and set s.raft.
func (s *Server) locate(id string) string {
	if s.gossip.Load() == nil {
		return ""
	}
	for _, m := range s.aliveIn(s.cfg.Region) {
		if m.Tags["id"] == id {
			return peerAddr(m)
		}
	}
	return ""
}

// regionAt returns the region of the server at an address, or "". Servers of this region take
// precedence, whatever other members claim.
func (s *Server) regionAt(addr string) string {
	other := ""
	for _, m := range s.Members() {
		switch {
		case peerAddr(m) != addr:
		case m.Tags["region"] == s.cfg.Region:
			return s.cfg.Region
		default:
			other = m.Tags["region"]
		}
	}
	return other
}

// regionServer selects a server of another region.
func (s *Server) regionServer(region string) (string, error) {
	there := s.aliveIn(region)
	if len(there) == 0 {
		return "", apierror.ErrNoRegionPath
	}
	return peerAddr(there[rand.N(len(there))]), nil
}

// Join joins servers and returns the number of servers that it reached.
func (s *Server) Join(addrs []string) (int, error) {
	p := s.gossip.Load()
	if p == nil {
		return 0, apierror.Errorf(501, "this server does not use gossip: it was started with -dev")
	}
	return p.Join(addrs)
}

// ForceLeave changes the status of a failed server to left, so that it is removed from the
// cluster.
func (s *Server) ForceLeave(name string) error { return s.forced(name, (*gossip.Pool).ForceLeave) }

// Prune is ForceLeave, and removes the server from the list of members.
func (s *Server) Prune(name string) error { return s.forced(name, (*gossip.Pool).Prune) }

func (s *Server) forced(name string, do func(*gossip.Pool, string) error) error {
	p := s.gossip.Load()
	if p == nil { // without gossip there are no other members
		return nil
	}
	return do(p, name)
}

// retryJoin joins the configured servers repeatedly.
func (s *Server) retryJoin(ctx context.Context) error {
	if s.alone() || len(s.cfg.RetryJoin) == 0 {
		return nil
	}
	wait := s.cfg.RetryInterval
	if wait <= 0 {
		wait = rejoinWait
	}
	for tries := 1; ; tries++ {
		n, err := s.Join(s.cfg.RetryJoin)
		if err == nil || n > 0 {
			s.log.Info("joined", "servers", n)
			return nil
		}
		if s.cfg.RetryMax > 0 && tries >= s.cfg.RetryMax {
			return fmt.Errorf("gave up after %d tries: %w", tries, err)
		}
		s.log.Warn("join other servers", "err", err, "again_in", wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Leave removes this server from the cluster permanently. It first transfers its leadership.
// The server must be stopped afterwards.
func (s *Server) Leave(ctx context.Context) error {
	p := s.gossip.Load()
	if p == nil {
		return nil
	}
	var errs []error
	if s.raft.IsLeader() {
		if s.isVoter() {
			errs = append(errs, s.raft.TransferLeadership(ctx, "", ""))
		}
	}
	errs = append(errs, p.Leave())
	for ctx.Err() == nil && s.isMember() && !s.forgotten() {
		select {
		case <-ctx.Done():
		case <-time.After(leavePoll):
		}
	}
	return errors.Join(errs...)
}

// leavePoll is the interval at which a leaving server checks whether it was removed.
const leavePoll = 20 * time.Millisecond

// forgotten reports whether no leader contacts this server any more. The entry that removes it
// is the last that it receives, and may be lost with the connection.
func (s *Server) forgotten() bool {
	quietFor := 2 * time.Duration(s.raft.Tuned().Multiplier) * time.Second // two heartbeat timeouts
	return !s.raft.IsLeader() && time.Since(s.raft.LastContact()) > quietFor
}

// isMember reports whether the Raft configuration has this server and at least one other.
func (s *Server) isMember() bool {
	servers, err := s.raft.Servers()
	return err == nil && among(servers, s.raft.ID())
}

// isVoter reports whether this server is one of several voters.
func (s *Server) isVoter() bool {
	servers, err := s.raft.Servers()
	return err == nil && among(votersOf(servers), s.raft.ID())
}

// among reports whether a server is one of several.
func among(servers []raft.Server, id string) bool {
	return len(servers) > 1 && listed(servers, id)
}

// listed reports whether a server has the ID.
func listed(servers []raft.Server, id string) bool {
	return slices.ContainsFunc(servers, func(v raft.Server) bool { return string(v.ID) == id })
}

// votersOf returns the voters.
func votersOf(servers []raft.Server) []raft.Server {
	return slices.DeleteFunc(slices.Clone(servers), func(v raft.Server) bool { return v.Suffrage != raft.Voter })
}
