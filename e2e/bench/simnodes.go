package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// simDone is the answer of the simulator to each command.
const simDone = "done"

// simName is the prefix of the names of simulated nodes, before their number.
const simName = "sim-"

// simRacks is the number of values of the meta key "rack" of simulated nodes.
const simRacks = 20

// simulator is the load process that simulates nodes. They register, send heartbeats and, after the
// command "run", run allocations without any process.
type simulator struct {
	load
	ctx   context.Context
	all   sync.WaitGroup
	nodes []*simRunner
}

// simRunner is a simulated node whose goroutines end with stop.
type simRunner struct {
	*simNode
	ctx  context.Context
	stop context.CancelFunc
}

// simulate is the role of the load process. Its argument is the list of servers. Its commands are:
//
//	nodes N   register nodes until there are N
//	run N     pull and run the allocations of the first N nodes
//	lose N    report the first N nodes as down and end their heartbeats
//	end       end
func simulate(args []string) error {
	in := bufio.NewReader(os.Stdin)
	if err := expectWord(in, "go"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &simulator{ctx: ctx, load: load{servers: strings.Split(args[0], ","), slots: make(chan struct{}, callsAtOnce), runs: true,
		pool: rpc.NewPool(rpc.PoolConfig{MaxIdleStreams: callsAtOnce})}}
	defer s.pool.Close()
	defer s.all.Wait()
	defer cancel()
	do := map[string]func(n int) error{"nodes": s.grow, "run": s.run, "lose": s.fail}
	for {
		var what string
		var n int
		if _, err := fmt.Fscanln(in, &what, &n); err != nil {
			return err
		}
		if what == "end" {
			return nil
		}
		if do[what] == nil {
			return fmt.Errorf("unknown command %q", what)
		}
		if err := do[what](n); err != nil {
			return fmt.Errorf("%s %d: %w", what, n, err)
		}
		fmt.Println(simDone)
	}
}

// grow registers nodes until there are n, and starts their heartbeats.
func (s *simulator) grow(n int) error {
	added, err := s.register(len(s.nodes), n-len(s.nodes), 0)
	if err != nil {
		return err
	}
	for _, node := range added {
		r := &simRunner{simNode: node}
		r.ctx, r.stop = context.WithCancel(s.ctx)
		s.nodes = append(s.nodes, r)
		s.all.Go(func() { s.live(r.ctx, r.simNode) })
	}
	return nil
}

// fail reports the first n nodes as down, as the leader does after missed heartbeats.
func (s *simulator) fail(n int) error {
	all, ctx := errgroup.WithContext(s.ctx)
	all.SetLimit(callsAtOnce)
	for _, r := range s.nodes[:n] {
		r.stop()
		all.Go(func() error {
			req := &message.NodeUpdateStatusRequest{NodeID: r.id, Status: nomad.NodeStatusDown, UpdatedAt: time.Now().Unix(),
				WriteRequest: message.WriteRequest{Region: "global", AuthToken: r.token}}
			return s.call(ctx, "Node.UpdateStatus", req, &message.NodeUpdateResponse{})
		})
	}
	return all.Wait()
}

// rackOf returns the rack of a simulated node.
func rackOf(name string) int {
	i, _ := strconv.Atoi(strings.TrimPrefix(name, simName)) // another name is in rack 0
	return i % simRacks
}

// isFirst reports whether a name is that of one of the first n simulated nodes.
func isFirst(name string, n int) bool {
	i, err := strconv.Atoi(strings.TrimPrefix(name, simName))
	return err == nil && i < n
}

// fleetOf is a running simulator, seen from the process that measures.
type fleetOf struct {
	child *child
	said  *bufio.Reader
}

// simulate starts a simulator for a server, with a number of nodes.
func (b *bench) simulate(ctx context.Context, a *cluster.Agent, nodes int) (*fleetOf, error) {
	c, err := startChild(ctx, "simulate", "simulate", fmt.Sprintf("127.0.0.1:%d", a.RPC))
	if err != nil {
		return nil, err
	}
	f := &fleetOf{child: c, said: bufio.NewReader(c.out)}
	if err := f.do("nodes", nodes); err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

// do sends a command and waits until it is done.
func (f *fleetOf) do(what string, n int) error {
	if err := f.child.send(fmt.Sprintf("%s %d", what, n)); err != nil {
		return err
	}
	if err := expectWord(f.said, simDone); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s %d: the simulator has ended", what, n)
		}
		return err
	}
	return nil
}

// stop ends the simulator.
func (f *fleetOf) stop() error { return f.child.stop() }
