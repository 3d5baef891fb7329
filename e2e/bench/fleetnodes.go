package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

const (
	silentName    = "silent"
	callsAtOnce   = 64
	callWithin    = 15 * time.Second
	beatAgain     = 100 * time.Millisecond // after a failed heartbeat, like the first retry of clients
	beatAgainMost = 5 * time.Second
)

// load is a process that simulates nodes. Each node registers and sends heartbeats with the RPCs of
// a client, over shared sessions.
type load struct {
	pool    *rpc.Pool
	servers []string
	slots   chan struct{}
	silent  chan struct{} // closed when some nodes stop their heartbeats
	beats   atomic.Int64
	failed  atomic.Int64
	runs    bool // nodes can run tasks of the mock driver
}

// simNode is a node without tasks.
type simNode struct {
	id, secret, token, name string
	ttl                     time.Duration
}

// fleet is the load process. Its arguments are the servers, the number of nodes and the number of
// silent nodes. Its commands are "silence" and "end".
func fleet(args []string) error {
	in := bufio.NewReader(os.Stdin)
	if err := expectWord(in, "go"); err != nil {
		return err
	}
	var count, silent int
	if _, err := fmt.Sscan(args[1]+" "+args[2], &count, &silent); err != nil {
		return err
	}
	l := &load{servers: strings.Split(args[0], ","), slots: make(chan struct{}, callsAtOnce), silent: make(chan struct{}),
		pool: rpc.NewPool(rpc.PoolConfig{MaxIdleStreams: callsAtOnce})}
	defer l.pool.Close()
	nodes, err := l.register(0, count, silent)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() { l.live(ctx, n) })
	}
	fmt.Println("registered")
	if err := expectWord(in, "silence"); err != nil {
		return err
	}
	close(l.silent)
	if err := expectWord(in, "end"); err != nil {
		return err
	}
	cancel()
	all.Wait()
	fmt.Printf("%d heartbeats, %d of them failed and were repeated\n", l.beats.Load(), l.failed.Load())
	return nil
}

// register registers nodes and marks them as ready. Their names are numbered from first on.
func (l *load) register(first, count, silent int) ([]*simNode, error) {
	nodes := make([]*simNode, count)
	all, ctx := errgroup.WithContext(context.Background())
	all.SetLimit(callsAtOnce)
	for i := range nodes {
		n := &simNode{id: nomad.NewID(), secret: nomad.NewID(), name: fmt.Sprintf("%s%d", simName, first+i)}
		if i < silent {
			n.name = fmt.Sprintf("%s-%d", silentName, i)
		}
		nodes[i] = n
		all.Go(func() error {
			if err := l.enter(ctx, n); err != nil {
				return fmt.Errorf("register node %s: %w", n.name, err)
			}
			return nil
		})
	}
	return nodes, all.Wait()
}

// enter registers a node and sends its first heartbeat.
func (l *load) enter(ctx context.Context, n *simNode) error {
	node := &nomad.Node{ID: n.id, SecretID: n.secret, Name: n.name, Datacenter: "dc1", NodePool: "default",
		Attributes: map[string]string{"kernel.name": "linux", "cpu.arch": "amd64"}, Status: nomad.NodeStatusInit}
	if l.runs {
		equip(node)
		node.Meta = map[string]string{"rack": fmt.Sprintf("r%d", rackOf(n.name))}
	}
	req := &message.NodeRegisterRequest{Node: node, WriteRequest: message.WriteRequest{Region: "global"}}
	var resp message.NodeUpdateResponse
	if err := l.call(ctx, "Node.Register", req, &resp); err != nil {
		return err
	}
	if resp.SignedIdentity != nil {
		n.token = *resp.SignedIdentity
	}
	return l.beat(ctx, n)
}

// beat sends one heartbeat.
func (l *load) beat(ctx context.Context, n *simNode) error {
	token := n.token
	if token == "" {
		token = n.secret
	}
	req := &message.NodeUpdateStatusRequest{NodeID: n.id, Status: nomad.NodeStatusReady, UpdatedAt: time.Now().Unix(),
		WriteRequest: message.WriteRequest{Region: "global", AuthToken: token}}
	var resp message.NodeUpdateResponse
	if err := l.call(ctx, "Node.UpdateStatus", req, &resp); err != nil {
		return err
	}
	if resp.SignedIdentity != nil {
		n.token = *resp.SignedIdentity
	}
	n.ttl = resp.HeartbeatTTL
	return nil
}

// live sends one heartbeat per TTL. After a failure it retries sooner, like a client.
func (l *load) live(ctx context.Context, n *simNode) {
	silent := l.silent
	if !strings.HasPrefix(n.name, silentName) {
		silent = nil
	}
	wait, again := n.ttl, beatAgain
	for {
		select {
		case <-ctx.Done():
			return
		case <-silent:
			return
		case <-time.After(wait):
		}
		l.beats.Add(1)
		err := l.beat(ctx, n)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			wait, again = n.ttl, beatAgain
			continue
		}
		l.failed.Add(1)
		wait, again = again/2+rand.N(again), min(2*again, beatAgainMost)
		if errors.Is(err, apierror.ErrNodeNotFound) {
			fmt.Fprintf(os.Stderr, "node %s is not known: %v\n", n.name, err)
		}
	}
}

// call makes an RPC to any of the servers.
func (l *load) call(ctx context.Context, method string, req rpc.Request, resp any) error {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.slots }()
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	return l.pool.Call(ctx, l.servers[rand.N(len(l.servers))], method, req, resp)
}
