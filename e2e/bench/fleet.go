package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

const (
	fleetNodes  = 5000
	fleetSilent = 10 // nodes that stop their heartbeats, to show that this is detected
	fleetKills  = 2
	betweenKill = 8 * time.Second
	// The TTLs of the servers are small enough that a heartbeat lost in a leader election shows
	// within the test.
	minTTL, grace, failoverTTL = 8 * time.Second, 5 * time.Second, 20 * time.Second
	fleetWithin                = 3 * time.Minute
	fleetPoll                  = 3 * time.Second
)

// fleetConfig sets the heartbeat times. The rate is high enough not to extend the TTL of so many
// nodes.
var fleetConfig = fmt.Sprintf("server {\n  min_heartbeat_ttl = %q\n  heartbeat_grace = %q\n  failover_heartbeat_ttl = %q\n"+
	"  max_heartbeats_per_second = 1000\n}\n",
	minTTL, grace, failoverTTL)

// heartbeats runs many nodes while leaders are killed. It counts the nodes that the servers marked
// as down although they missed no heartbeat.
func heartbeats(ctx context.Context, b *bench) (string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, fleetWithin)
	defer cancel()
	s, err := b.servers(ctx, fleetConfig)
	if err != nil {
		return "", false, err
	}
	defer s.stop()
	var rpc []string
	for _, a := range s.all {
		rpc = append(rpc, fmt.Sprintf("127.0.0.1:%d", a.RPC))
	}
	c, err := startChild(ctx, "fleet", "fleet", strings.Join(rpc, ","), fmt.Sprint(fleetNodes), fmt.Sprint(fleetSilent))
	if err != nil {
		return "", false, err
	}
	defer c.stop()
	said := bufio.NewReader(c.out)
	if err := expectWord(said, "registered"); err != nil {
		return "", false, err
	}
	w := &nodeWatch{servers: s}
	if err := w.begin(); err != nil {
		return "", false, err
	}
	if err := c.send("silence"); err != nil {
		return "", false, err
	}
	for i := range fleetKills {
		if _, err := s.killLeader(ctx, fmt.Sprintf("fleet-%d", i)); err != nil {
			return "", false, err
		}
		if err := w.watch(ctx, betweenKill); err != nil {
			return "", false, err
		}
	}
	if err := w.watch(ctx, failoverTTL+2*minTTL+grace); err != nil {
		return "", false, err
	}
	if err := c.send("end"); err != nil {
		return "", false, err
	}
	summary, err := said.ReadString('\n')
	got := fmt.Sprintf("%d falsely down of %d through %d leaders killed (%d silent ones seen of %d; %s)", len(w.wrong), fleetNodes, fleetKills,
		w.silentDown, fleetSilent, strings.TrimSpace(summary))
	return got, len(w.wrong) == 0 && w.silentDown == fleetSilent, err
}

// nodeWatch polls the status of all nodes.
type nodeWatch struct {
	servers    *servers
	ready      map[string]uint64 // the index at which each node became ready
	wrong      map[string]string // errors of live nodes
	silentDown int               // at the last poll
}

// begin records the nodes, all of which are ready.
func (w *nodeWatch) begin() error {
	nodes, err := list(w.servers.all[0])
	if err != nil {
		return err
	}
	w.ready, w.wrong = map[string]uint64{}, map[string]string{}
	for _, n := range nodes {
		if n.Status != "ready" {
			return fmt.Errorf("node %s is %s at the beginning", n.Name, n.Status)
		}
		w.ready[n.ID] = n.ModifyIndex
	}
	if len(w.ready) != fleetNodes {
		return fmt.Errorf("%d of %d nodes are registered", len(w.ready), fleetNodes)
	}
	return nil
}

// watch polls for a duration. It detects a node that was down between two polls by its modify
// index.
func (w *nodeWatch) watch(ctx context.Context, long time.Duration) error {
	end := time.After(long)
	tick := time.NewTicker(fleetPoll)
	defer tick.Stop()
	for {
		if err := w.poll(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return w.poll()
		case <-tick.C:
		}
	}
}

func (w *nodeWatch) poll() error {
	nodes, err := list(w.servers.all[0])
	if err != nil {
		return err
	}
	if len(nodes) != len(w.ready) {
		return fmt.Errorf("%d nodes are listed, %d were registered", len(nodes), len(w.ready))
	}
	w.silentDown = 0
	for _, n := range nodes {
		switch {
		case strings.HasPrefix(n.Name, silentName):
			if n.Status == "down" {
				w.silentDown++
			}
		case n.Status != "ready" || n.ModifyIndex != w.ready[n.ID]:
			w.wrong[n.ID] = fmt.Sprintf("%s, changed at %d", n.Status, n.ModifyIndex)
		}
	}
	return nil
}

func list(a *cluster.Agent) ([]*api.NodeListStub, error) {
	nodes, _, err := a.Client.Nodes().List(nil)
	return nodes, err
}
